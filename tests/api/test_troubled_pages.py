"""Pages of which some come from a replica that could not read an index for a moment.

Whatever each of them could read, they hold the rows that the query wants, and files that are read together
are there as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.file_index.index_kinds import BITMAP
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.api.conftest import Serve
from tests.tables import MadeTable, file_of, index_of, no_statistics

K, CAT = (DataField(at, name, parse_type("INT")) for at, name in enumerate(["k", "cat"]))
PLAN = "/v1/main/databases/golden/tables/made/plan"
LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
LIMIT = 4
LIMITED: dict[str, Any] = {"filter": "cat = 1", "limit": LIMIT}
FIRST: dict[str, Any] = {
    "filter": "cat = 1",
    "top_n": {"order_by": [{"column": "k", "nulls": "first"}], "limit": LIMIT},
}


@dataclass(frozen=True)
class Table:
    """A table whose files have an index on ``cat`` beside them, and its rows by file."""

    made: MadeTable
    rows: Mapping[str, Sequence[tuple[int | None, int]]]

    @classmethod
    def write(
        cls,
        root: Path,
        rows: Mapping[str, Sequence[tuple[int | None, int]]],
        changes: Mapping[str, dict[str, Any]] | None = None,
        **made: Any,
    ) -> Table:
        table = MadeTable.make(root, [K, CAT], **made)
        entries = []
        for name, held in rows.items():
            index = index_of({CAT: [cat for _, cat in held]}, BITMAP)
            file = file_of(name, {K: [key for key, _ in held]}, embedded_index=index)
            meta = replace(table.beside(file).file, **(changes or {}).get(name, {}))
            entries.append(replace(file, file=meta))
        table.commit(entries)
        return cls(table, rows)

    def matching(self, files: Iterable[Mapping[str, Any]]) -> list[int | None]:
        """Keys of the rows with ``cat = 1`` that are told of some files."""
        return [
            key
            for file in files
            for at, (key, cat) in enumerate(self.rows[file["file_name"]])
            if cat == 1 and (file["selection"] is None or any(a <= at < b for a, b in file["selection"]))
        ]


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> Iterator[httpx.Client]:
    with serve(warehouses={"main": str(tmp_path)}) as started:
        yield started


class Replicas:
    """Those that are asked for the pages: some of them cannot read the index of one file."""

    def __init__(self, client: httpx.Client, table: Table, lost: str) -> None:
        self.client = client
        self.index = table.made.side_file(lost)

    def ask(
        self, body: Mapping[str, Any], *, troubled: bool, accept: str = "application/json"
    ) -> httpx.Response:
        """One that has read nothing so far."""
        self.client.post("/v1/cache/clear")
        away = self.index.with_suffix(".away")
        if troubled:
            self.index.rename(away)
        try:
            return self.client.post(PLAN, json=body, headers={"Accept": accept})
        finally:
            if troubled:
                away.rename(self.index)

    def files(
        self, asked: Mapping[str, Any], *, trouble_first: bool, page_size: int = 1
    ) -> list[dict[str, Any]]:
        """Return the files of all pages, where the first one or all others come from a replica in trouble."""
        found: list[dict[str, Any]] = []
        token = None
        while not found or token:
            body = {**asked, "selection": "ranges", "page_size": page_size, "page_token": token}
            answer = self.ask(body, troubled=trouble_first == (not found))
            assert answer.status_code == 200, answer.text
            found += answer.json()["files"]
            token = answer.json()["next_page_token"]
        return found


TIED = {name: [(None, 1), (None, 1)] for name in "abcde"}
MIXED = {name: [(10 * at, 1), (None, 1), (10 * at + 3, 2)] for at, name in enumerate("edcba")}


@pytest.mark.parametrize("asked", [LIMITED, FIRST], ids=["limit", "top_n"])
@pytest.mark.parametrize("rows", [TIED, MIXED], ids=["tied", "mixed"])
@pytest.mark.parametrize(
    ("lost", "page_size"),
    [pytest.param("a", 1, marks=pytest.mark.long), ("c", 1), pytest.param("c", 2, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("trouble_first", [True, False])
def test_pages_together_hold_the_rows_of_a_limit(
    client: httpx.Client,
    tmp_path: Path,
    asked: Mapping[str, Any],
    rows: Mapping[str, Sequence[tuple[int | None, int]]],
    lost: str,
    page_size: int,
    *,
    trouble_first: bool,
) -> None:
    table = Table.write(tmp_path, rows)

    files = Replicas(client, table, lost).files(asked, trouble_first=trouble_first, page_size=page_size)

    found = table.matching(files)
    if asked is LIMITED:
        assert len(found) >= LIMIT
    else:
        everything = table.matching({"file_name": name, "selection": None} for name in rows)
        assert in_order(found)[:LIMIT] == in_order(everything)[:LIMIT]
    assert len({file["file_name"] for file in files}) == len(files)


def in_order(keys: Iterable[int | None]) -> list[int | None]:
    return sorted(keys, key=lambda key: -1 if key is None else key)


@pytest.mark.parametrize("asked", [LIMITED, FIRST], ids=["limit", "top_n"])
@pytest.mark.parametrize("accept", ["application/json", LINES, ARROW])
def test_an_answer_in_trouble_leaves_nothing_out_for_a_limit_and_is_not_called_complete(
    client: httpx.Client, tmp_path: Path, asked: Mapping[str, Any], accept: str
) -> None:
    replicas = Replicas(client, Table.write(tmp_path, TIED), "c")

    good = replicas.ask(asked, troubled=False, accept=accept)
    troubled = replicas.ask(asked, troubled=True, accept=accept)

    assert summary_of(good)["complete"] is True
    assert summary_of(good)["files_kept"] == 2
    assert summary_of(troubled)["complete"] is False
    assert summary_of(troubled)["files_kept"] == len(TIED)
    assert "ETag" in good.headers
    assert "ETag" not in troubled.headers
    # What the tag stands for is the answer that any other replica gives.
    again = client.post(PLAN, json=asked, headers={"Accept": accept, "If-None-Match": good.headers["ETag"]})
    assert again.status_code == 304


def summary_of(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any]
    match answer.headers["Content-Type"].partition(";")[0]:
        case "application/x-ndjson":
            found = json.loads(answer.content.splitlines()[-1])["summary"]
        case "application/vnd.apache.arrow.stream":
            metadata = pa.ipc.open_stream(answer.content).schema.metadata
            found = json.loads(metadata[b"summary"])
        case _:
            found = answer.json()["summary"]
    return found


@pytest.mark.parametrize("trouble_first", [True, False])
def test_files_that_merge_are_never_divided_by_pages(
    client: httpx.Client, tmp_path: Path, *, trouble_first: bool
) -> None:
    """Without the newer file, the older one would give a row again that is not in the table any more."""
    rows = {"old": [(1, 1), (2, 1)], "other": [(10, 1)] * 2, "new": [(1, 2), (2, 2)], "last": [(20, 1)] * 2}
    ends = {
        name: (serialize_row([held[0][0]], [K.type]), serialize_row([held[-1][0]], [K.type]))
        for name, held in rows.items()
    }
    changes = {
        name: {"level": 0 if name == "new" else 5, "min_key": low, "max_key": high, "delete_row_count": 0}
        for name, (low, high) in ends.items()
    }
    changes["new"] |= {"max_sequence_number": 99}
    table = Table.write(tmp_path, rows, changes, primary_key=[K], options={"bucket": "1"})

    files = Replicas(client, table, "last").files(LIMITED, trouble_first=trouble_first)

    names = {file["file_name"] for file in files}
    assert {"other", "last"} <= names
    assert names.isdisjoint({"old", "new"}) or names >= {"old", "new"}


@pytest.mark.parametrize("trouble_first", [True, False])
def test_files_that_hold_columns_of_the_same_rows_are_never_divided_by_pages(
    client: httpx.Client, tmp_path: Path, *, trouble_first: bool
) -> None:
    """Without the file of one column, a reader would take its values for nulls."""
    rows: dict[str, list[tuple[int | None, int]]] = {
        "low": [(1, 5)],
        "between": [(1, 1)],
        "high": [(1, 5)],
        "last": [(1, 1)],
    }
    changes: dict[str, dict[str, Any]] = {
        "low": {"first_row_id": 0, "write_columns": ("k",), "max_sequence_number": 1, "extra_files": ()},
        "last": {"first_row_id": 200, "write_columns": ("k", "cat"), "max_sequence_number": 4},
        "between": {"first_row_id": 100, "write_columns": ("k", "cat"), "max_sequence_number": 2},
        "high": {"first_row_id": 0, "write_columns": ("cat",), "max_sequence_number": 3, **no_statistics()},
    }
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = Table.write(tmp_path, rows, changes, options=evolving)

    files = Replicas(client, table, "high").files({"filter": "cat = 1"}, trouble_first=trouble_first)

    names = [file["file_name"] for file in files]
    assert {"between", "last"} <= set(names)
    assert ("low" in names) == ("high" in names)


@pytest.mark.parametrize("trouble_first", [True, False])
def test_pages_of_explanations_hold_every_file_that_is_needed(
    client: httpx.Client, tmp_path: Path, *, trouble_first: bool
) -> None:
    rows = {name: [(1, 1 if name in "bd" else 2)] for name in "abcde"}
    replicas = Replicas(client, Table.write(tmp_path, rows), "a")

    files = replicas.files({"filter": "cat = 1", "explain": True}, trouble_first=trouble_first)

    names = [file["file_name"] for file in files]
    assert {"b", "d"} <= set(names)
    assert len(names) == len(set(names))

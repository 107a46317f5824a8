"""Facets that a manifest remembers are those of the rows, whatever was asked of it before."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateAnswer, AggregateRequest
from app.file_index.container import write
from app.file_index.index_kinds import KINDS
from app.planning.request.limits import Limits
from app.planning.version.version import Version
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import MadeTable, entry, no_statistics, open_service, payload

DAY: Final = DataField(0, "day", parse_type("INT"))
N: Final = DataField(1, "n", parse_type("INT"))
X: Final = DataField(2, "x", parse_type("DOUBLE"))

File = tuple[int, Sequence[int | None], Sequence[float | None]]
FILES: Final[Sequence[File]] = (
    (1, [1, 1, 2, None], [math.nan, 0.0, -0.0, None]),
    (1, [2, 2, 3, 3], [math.nan, 1.5, 1.5, 0.0]),
    (2, [1, None, None, 1], [1.5, 1.5, 1.5, 1.5]),
    (2, [5, 5, 5, 6], [None, None, None, None]),
)


def made(number: int, kind: FileKind = FileKind.ADD, *, is_damaged: bool = False) -> ManifestEntry:
    day, ns, xs = FILES[number]
    columns: Mapping[DataField, Sequence[Any]] = {N: ns, X: xs}
    payloads = {each.name: payload(KINDS["bitmap"], rows, each) for each, rows in columns.items()}
    if is_damaged:
        payloads["n"] = payloads["n"][:-4]
    return entry(
        kind=kind,
        partition=serialize_row([day], [DAY.type]),
        file_name=f"data-{number}.parquet",
        row_count=len(ns),
        embedded_index=write({name: [("bitmap", each)] for name, each in payloads.items()}),
        **no_statistics(),
    )


def shown(value: Any) -> Any:
    """Return a value as answers have it; which of the two zeros stands for both is not stated."""
    if value in (0.0, "-0.0"):
        return 0.0
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def ask(version: Version, group_by: Sequence[str], written: str | None = None) -> AggregateAnswer:
    return aggregate(version, AggregateRequest(filter=written, group_by=group_by), Limits())


def counts(answer: AggregateAnswer) -> Counter[tuple[Any, ...]]:
    assert all(group.values[0].value in (group.rows, None) for group in answer.groups)
    return Counter({tuple(map(shown, group.key.values())): group.rows for group in answer.groups})


def rows(*numbers: int) -> Iterator[dict[str, Any]]:
    for number in numbers:
        day, ns, xs = FILES[number]
        for n, x in zip(ns, xs, strict=True):
            yield {"day": day, "n": n, "x": shown(x)}


def test_they_are_those_of_the_rows_however_often_they_are_asked(tmp_path: Path) -> None:
    table, service = MadeTable.make(tmp_path, [DAY, N, X], [DAY]), open_service(tmp_path)
    table.commit([made(0), made(1), made(2), made(3)])
    version = table.version(service)
    for written, holds in (
        (None, lambda _: True),
        ("day = 1", lambda row: row["day"] == 1),
        (None, lambda _: True),
        ("n = 2", lambda row: row["n"] == 2),
        ("n IS NULL OR day = 2", lambda row: row["n"] is None or row["day"] == 2),
        (None, lambda _: True),
    ):
        for group_by in (("n",), ("x",), ("day",)):
            answer = ask(version, group_by, written)

            assert answer.exact
            expected = [row for row in rows(0, 1, 2, 3) if holds(row)]
            assert counts(answer) == Counter(tuple(row[name] for name in group_by) for row in expected)
    service.close()


def test_files_that_were_removed_count_no_more(tmp_path: Path) -> None:
    table, service = MadeTable.make(tmp_path, [DAY, N, X], [DAY]), open_service(tmp_path)
    table.commit([made(0), made(1), made(2), made(3)], [made(2, FileKind.DELETE)])
    version = table.version(service)

    for _ in range(2):
        assert counts(ask(version, ["n"])) == Counter((row["n"],) for row in rows(0, 1, 3))
    service.close()


def test_a_damaged_index_leaves_its_file_open_every_time(tmp_path: Path) -> None:
    table, service = MadeTable.make(tmp_path, [DAY, N, X], [DAY]), open_service(tmp_path)
    table.commit([made(0), made(1, is_damaged=True), made(2), made(3)])
    version = table.version(service)

    for _ in range(2):
        answer = ask(version, ["n"])

        assert answer.open_files == ["data-1.parquet"]
        assert any("data-1.parquet" in warning for warning in answer.warnings)
        assert counts(answer) == Counter((row["n"],) for row in rows(0, 2, 3))
    service.close()

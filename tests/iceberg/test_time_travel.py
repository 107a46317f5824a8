"""Older snapshots, whose names are other columns' by now: PyIceberg reads what it would read of all files.

PyIceberg 0.12 shows the columns of the snapshot's schema, and filters by the names of the table's. It says of
neither that it does so.
"""

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    IsNull,
    LessThan,
    NotEqualTo,
    NotNull,
    StartsWith,
)
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table

from tests.golden_cases import GoldenWarehouse
from tests.iceberg.conftest import ServeIceberg
from tests.iceberg.rows import Rows, read, rows_of

SIDECAR: Final = "append_sidecar"
CHANGES: Final[list[Mapping[int, str | None]]] = [
    {4: "swap", 10: "renamed", 1: "held"},
    {10: "owner", 2: "grade", 9: None},
    {1: "rank_no", 11: "ordinary", 12: "channel"},
]
"""By schema the fields that are called otherwise, gone (None) or, since they are new, added."""


@pytest.fixture(scope="module")
def changed(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with a golden table whose columns were renamed, swapped, dropped and added."""
    warehouse = tmp_path_factory.mktemp("changed")
    directory = warehouse / "golden.db" / SIDECAR
    shutil.copytree(golden.table(SIDECAR), directory)
    (directory / "tag").mkdir()
    shutil.copy(directory / "snapshot" / "snapshot-1", directory / "tag" / "tag-first")
    schemas = directory / "schema"
    document = json.loads((schemas / "schema-0").read_text())
    options = {name: value for name, value in document["options"].items() if "file-index" not in name}
    columns = {each["id"]: each for each in document["fields"]}
    for number, names in enumerate(CHANGES, start=1):
        for field, name in names.items():
            columns[field] = {"type": "SMALLINT", **columns.get(field, {}), "id": field, "name": name}
        fields = [each for each in columns.values() if each["name"]]
        changed = {**document, "id": number, "fields": fields, "options": options, "highestFieldId": 12}
        (schemas / f"schema-{number}").write_text(json.dumps(changed))
    return warehouse


@pytest.fixture(scope="module")
def client(serve_iceberg: ServeIceberg, changed: Path) -> Iterator[httpx.Client]:
    with serve_iceberg(warehouses={"main": str(changed)}) as client:
        client.headers["X-Paimon-Accept"] = "timestamp-millis"
        yield client


@pytest.fixture(scope="module")
def table(client: httpx.Client) -> Table:
    accept = {"header.X-Paimon-Accept": "timestamp-millis"}
    return RestCatalog("x", uri=f"{client.base_url}/iceberg", **accept).load_table(f"golden.{SIDECAR}")


def read_all_files(table: Table, snapshot: int, wanted: BooleanExpression) -> Rows:
    """Return what PyIceberg makes of every file of a snapshot, of which none is left out for a filter."""
    whole = table.scan(snapshot_id=snapshot)
    scan = ArrowScan(table.metadata, table.io, whole.projection(), wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rows_of(scan.to_table(whole.plan_files()))


WANTED: Final = [
    EqualTo("owner", " "),
    EqualTo("owner", "w0"),
    StartsWith("owner", "a"),
    IsNull("owner"),
    NotNull("owner"),
    NotEqualTo("owner", "w0"),
    GreaterThan("grade", 2_000),
    LessThan("grade", 5),
    EqualTo("rank_no", 3),
    IsNull("channel"),
    EqualTo("channel", 3),
    EqualTo("swap", "w0"),
    GreaterThan("ordinary", 5),
    GreaterThan("fee", "10.50"),
]


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_pyiceberg_reads_the_same_rows_of_the_planned_files_as_of_all_files(
    table: Table, wanted: BooleanExpression
) -> None:
    scan = table.scan(wanted).use_ref("first")

    rows = read(scan)

    assert rows == read_all_files(table, 1, wanted) == read(table.scan(wanted, snapshot_id=1))
    assert scan.count() == sum(rows.values())


PLAN: Final = f"/iceberg/v1/main/namespaces/golden/tables/{SIDECAR}/plan"
MEANINGS: Final[Mapping[str, tuple[int, ...]]] = {
    "owner": (4, 10),
    "grade": (1, 2),
    "rank_no": (2, 1),
    "memo": (10,),
    "swap": (4,),
    "held": (1,),
    "plain": (11,),
    "ordinary": (11,),
    "channel": (9, 12),
    "fee": (3,),
}
"""The fields of each name, in the schemas that a client of the first snapshot may have."""


def plan(client: httpx.Client, **body: Any) -> Any:
    answer = client.post(PLAN, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["file-scan-tasks"]


def values_in(task: Any, field: int) -> list[Any]:
    """Return the values of a field in the file of a task; NULL where the file has none."""
    stored = pq.read_table(task["data-file"]["file-path"].removeprefix("file://"))
    ids = [int(each.metadata[b"PARQUET:field_id"]) for each in stored.schema]
    return stored.column(ids.index(field)).to_pylist() if field in ids else [None] * len(stored)


@pytest.mark.parametrize("name", MEANINGS)
def test_files_are_kept_by_every_column_that_a_client_may_mean(client: httpx.Client, name: str) -> None:
    whole = plan(client, **{"snapshot-id": 1})
    stored = {
        task["data-file"]["file-path"]: [values_in(task, field) for field in MEANINGS[name]] for task in whole
    }
    some = {str(each) for file in stored.values() for values in file for each in values if each is not None}
    left_out = 0
    for value in sorted(some)[:: max(1, len(some) // 6)]:
        for test in ("eq", "not-eq"):
            asked = {"type": test, "term": name, "value": value}
            tasks = {
                each["data-file"]["file-path"]: each
                for each in plan(client, filter=asked, **{"snapshot-id": 1})
            }
            left_out += len(stored) - len(tasks)
            for path, file in stored.items():
                matches = [
                    [each is not None and (str(each) == value) is (test == "eq") for each in values]
                    for values in file
                ]
                assert path in tasks or not any(map(any, matches)), (asked, path)
                if path in tasks and tasks[path]["residual-filter"] is True:
                    assert all(map(all, matches)), (asked, path)
    # What one column alone is called still rules files out.
    assert (left_out > 0) is (name in ("fee", "held", "ordinary", "plain", "swap"))


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"snapshot-id": 1, "use-snapshot-schema": True}, {"owner": 4, "memo": 10, "channel": 9}),
        ({}, {"owner": 10, "swap": 4, "channel": 12}),
    ],
)
def test_a_client_that_says_by_what_schema_it_reads_means_one_column(
    client: httpx.Client, asked: Any, fields: Mapping[str, int]
) -> None:
    for name, field in fields.items():
        tasks = plan(client, filter={"type": "not-null", "term": name}, **asked)
        expected = {
            each["data-file"]["file-path"]
            for each in plan(client, **asked)
            if any(value is not None for value in values_in(each, field))
        }
        assert {each["data-file"]["file-path"] for each in tasks} == expected


def test_a_name_of_a_schema_in_between_is_one_of_a_client_that_has_not_loaded_the_table_since(
    client: httpx.Client,
) -> None:
    asked = {"snapshot-id": 1, "filter": {"type": "is-null", "term": "renamed"}}

    assert client.post(PLAN, json=asked).status_code == 200
    for other in ({"use-snapshot-schema": True}, {"snapshot-id": None}):
        assert client.post(PLAN, json=asked | other).status_code == 400


def test_a_name_that_no_schema_has_is_refused(client: httpx.Client) -> None:
    answer = client.post(PLAN, json={"snapshot-id": 1, "filter": {"type": "is-null", "term": "owners"}})

    assert answer.status_code == 400
    assert "did you mean 'owner'?" in answer.json()["error"]["message"]


def test_appended_files_are_kept_by_every_meaning(client: httpx.Client) -> None:
    between = {"start-snapshot-id": 0, "end-snapshot-id": 1}
    value = next(each for task in plan(client, **between) for each in values_in(task, 4) if each is not None)

    tasks = plan(client, filter={"type": "eq", "term": "owner", "value": value}, **between)

    assert any(value in values_in(task, 4) for task in tasks)
    assert all(task["residual-filter"] is not True for task in tasks)


def test_a_plan_and_its_parts_mean_the_same_columns(client: httpx.Client) -> None:
    asked = {"snapshot-id": 1, "filter": {"type": "is-null", "term": "swap"}}
    first = client.post(PLAN, json=asked).json()

    again = client.get(f"{PLAN}/{first['plan-id']}").json()

    assert again["file-scan-tasks"] == first["file-scan-tasks"]


def test_statistics_are_told_of_each_column_that_a_name_may_mean(client: httpx.Client) -> None:
    (task, *_) = plan(client, **{"snapshot-id": 1, "stats-fields": ["rank_no", "channel", "memo", "no"]})

    assert set(task["data-file"]["null-value-counts"]["keys"]) == {1, 2, 10, 12}

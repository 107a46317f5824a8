"""Plans through the client are those of the JSON answer, in either client and in every form."""

import asyncio
import base64
import datetime as dt
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from app.main import create_app
from app.settings import Settings
from app.types import DataField, parse_json, parse_type
from app.types.binary_row.row import serialize_row
from paimon_index import AsyncClient, Client, PlannedFile, PlanProgress
from paimon_index.requests import post
from tests import golden_cases
from tests.api.conftest import listening
from tests.examples import share
from tests.golden_checks import for_each
from tests.tables import MadeTable, entry, no_statistics

QUERIES = [
    (table, query["filter_sql"])
    for table in ("append_dv32", "append_part_types", "evolve_append", "pk_merge", "data_evolution")
    for query in golden_cases.expected(table)["queries"][:12]
    if not (query["snapshot_id"] or query["tag"] or query["branch"])
]


def pages(url: str, table: str, **asked: Any) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = []
    path = f"{url}/v1/main/databases/golden/tables/{table}/plan"
    token = None
    while True:
        answer = httpx.post(path, json={**asked, "page_token": token}, timeout=120).raise_for_status().json()
        files += answer["files"]
        token = answer["next_page_token"]
        if token is None:
            return files


def told(file: PlannedFile) -> dict[str, Any]:
    """Return a file in the form of the JSON answer, but for partitions, which have Python's types."""
    selection = None if file.selection is None else base64.b64encode(file.selection.content).decode()
    deletion = file.deletion and {
        name: getattr(file.deletion, name) for name in ("path", "offset", "length", "cardinality")
    }
    unasked = ("skipped", "explain", "deleted_rows")
    members = {field.name: getattr(file, field.name) for field in fields(file) if field.name not in unasked}
    return {**members, "selection": selection, "deletion": deletion}


@for_each("table", share(golden_cases.tables(), 3))
def test_the_files_of_every_golden_table(client: Client, url: str, table: str) -> None:
    expected = [{**file, "partition": None, "selection_format": None} for file in pages(url, table)]

    plan = client.plan(f"main.golden.{table}")

    assert plan.facts.summary.files_kept == len(expected)
    got = [{**told(file), "partition": None, "selection_format": None} for file in plan]
    assert got == expected


@pytest.mark.parametrize(("table", "condition"), share(QUERIES, 3))
def test_the_rows_of_golden_queries(client: Client, url: str, table: str, condition: str | None) -> None:
    expected = {
        file["file_name"]: file["selection"]
        for file in pages(url, table, filter=condition, selection="positions")
    }
    for form in ("bitmap", "ranges", "positions"):
        plan = client.plan(f"main.golden.{table}", filter=condition, selection=form)
        got = {file.file_name: file.selection for file in plan}
        assert got.keys() == expected.keys()
        for name, selection in got.items():
            if expected[name] is None:
                assert selection is None
            else:
                assert selection is not None
                assert list(selection.bitmap) == expected[name]
                assert np.array_equal(selection.positions(), expected[name])
                assert len(selection) == len(expected[name])


@pytest.mark.parametrize("form", ["bitmap", "ranges", "positions"])
def test_deleted_rows_and_schemas_come_with_a_plan(client: Client, form: Any) -> None:
    table = "main.golden.append_dv32"
    known = {file.file_name: file.rows for file in client.deletions(table).deletions}

    plan = client.plan(table, deletions=form, schemas=True)
    files = list(plan)

    assert plan.facts.schemas == (client.schema(table, plan.facts.schema_id),)
    told = {file.file_name: file.deleted_rows for file in files if file.deleted_rows is not None}
    assert {name: list(rows.bitmap) for name, rows in told.items()} == {
        name: list(rows.bitmap) for name, rows in known.items() if rows is not None and name in told
    }
    assert told.keys() == {file.file_name for file in files if file.deletion is not None}
    assert told


def test_both_clients_give_the_same_table(client: Client, url: str) -> None:
    async def ask() -> Any:
        async with AsyncClient(url) as opened:
            plan = await opened.plan("main.golden.append_partitioned", explain=True)
            names = [file.file_name async for file in await opened.plan("main.golden.append_partitioned")]
            return await plan.to_arrow(), names

    table, names = asyncio.run(ask())

    expected = client.plan("main.golden.append_partitioned", explain=True).to_arrow()
    assert table.equals(expected)
    assert names == [file.file_name for file in client.plan("main.golden.append_partitioned")]
    assert table.num_rows == 36


def test_skipped_files_are_marked(client: Client) -> None:
    plan = client.plan("main.golden.append_dv32", filter="score IS NULL AND score > 0", explain=True)

    files = list(plan)

    assert plan.facts.summary.files_kept == 0
    assert len(files) == plan.facts.summary.files_total
    assert all(file.skipped and file.selected_rows is None and file.explain is not None for file in files)


def test_partitions_have_python_values(client: Client) -> None:
    frame = client.plan("main.golden.append_part_types").to_pandas()

    (first, *_) = client.plan("main.golden.append_part_types")

    assert frame["partition"][0] == first.partition
    assert {type(value).__name__ for value in first.partition.values()} >= {"date", "bool", "datetime"}


@pytest.mark.parametrize(
    ("written", "stored", "given"),
    [
        ("DATE", -719_528, np.datetime64("0000-01-01")),
        ("DATE", 2_932_897, np.datetime64("10000-01-01")),
        ("TIMESTAMP(3)", 253_402_300_800_000_000_000, np.datetime64("10000-01-01T00:00:00.000000")),
        ("DATE", 0, dt.date(1970, 1, 1)),
    ],
)
def test_partitions_that_python_has_no_date_for_are_told(
    tmp_path: Path, written: str, stored: int, given: object
) -> None:
    day = DataField(0, "day", parse_type(written))
    made = MadeTable.make(tmp_path, [day], [day])
    row = serialize_row([stored], [day.type])
    made.commit([entry(file_name="data-0.parquet", partition=row, **no_statistics())])
    settings = Settings.load(warehouses={"main": str(tmp_path)})
    with listening(create_app(settings), lifespan="on") as started, Client(str(started.base_url)) as client:
        (file,) = client.plan(f"main.{golden_cases.DATABASE}.{made.ref.table}")

    assert file.partition == {"day": given}


def test_progress_is_told(client: Client) -> None:
    seen: list[PlanProgress] = []

    client.plan("main.golden.append_partitioned", progress=seen.append).to_arrow()

    assert [(each.files, each.files_kept) for each in seen] == [(36, 36)]
    assert seen[0].received_bytes > 1000


def test_a_plan_is_read_once(client: Client) -> None:
    plan = client.plan("main.golden.append_dv32")
    next(iter(plan))

    with pytest.raises(RuntimeError, match="read once"):
        plan.to_arrow()


def test_a_plan_that_is_left_gives_its_connection_back(client: Client) -> None:
    for _ in range(150):  # more than a pool has
        with client.plan("main.golden.append_partitioned") as plan:
            next(iter(plan))

    assert "36 of 36 files" in repr(plan)


LISTS: list[tuple[str, list[Any], pa.DataType]] = [
    ("multi", [1, 5, None, 1 << 40], pa.int64()),
    ("city", ["city-1", "nowhere", None], pa.string()),
    ("city", ["city-1", "nowhere", None], pa.dictionary(pa.int8(), pa.string())),
    ("ship_day", [dt.date(2023, 9, 1), dt.date(2024, 2, 29)], pa.date32()),
]


@pytest.mark.parametrize(("column", "values", "data_type"), LISTS)
def test_lists_of_values_are_those_of_sql(
    client: Client, column: str, values: list[Any], data_type: pa.DataType
) -> None:
    table = "main.golden.append_dv32"
    written = ", ".join(
        "NULL" if each is None else f"DATE '{each}'" if isinstance(each, dt.date) else repr(each)
        for each in values
    )
    one = pa.array(values, data_type)

    expected = [told(file) for file in client.plan(table, filter=f"score > 1 AND {column} IN ({written})")]

    for listed in (values, one, pa.chunked_array([one[:1], one[1:]])):
        plan = client.plan(table, filter="score > 1", in_lists={column: listed})
        assert [told(file) for file in plan] == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_times_in_arrow_are_sent_as_the_literals_that_mean_them(unit: str, zone: str | None) -> None:
    values = pa.array(
        [0, -1, 1_741_392_000, None, 400_000_000_000, 10**12, -(10**12), -62_167_219_201], pa.int64()
    )
    if unit == "ns":
        values = values.take([0, 1, 2, 3])
    data_type = parse_type("TIMESTAMP(9)" if zone is None else "TIMESTAMP(9) WITH LOCAL TIME ZONE")

    body = json.loads(post("", {"values": values.cast(pa.timestamp(unit, zone))}).body or b"")

    nanos = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    expected = [None if value is None else value * nanos for value in values.to_pylist()]
    assert [parse_json(each, data_type) for each in body["values"]] == expected


def test_the_smallest_timestamp_in_arrow_is_not_sent_as_null() -> None:
    with pytest.raises(ValueError, match="send its text"):
        post("", {"values": pa.array([-(1 << 63)]).cast(pa.timestamp("ns"))})


def test_dates_in_arrow_are_sent_as_the_literals_that_mean_them() -> None:
    days = pa.array([0, -1, 20_000, None, 4_000_000, -719_529, -800_000, (1 << 31) - 1], pa.int32())

    body = json.loads(post("", {"values": days.cast(pa.date32())}).body or b"")

    assert [parse_json(each, parse_type("DATE")) for each in body["values"]] == days.to_pylist()
    assert json.loads(post("", {"values": pa.chunked_array([], pa.date64())}).body or b"") == {"values": []}


def test_an_empty_list_is_had_by_no_row(client: Client) -> None:
    plan = client.plan("main.golden.append_dv32", in_lists={"multi": pa.array([], pa.int32())})

    assert plan.facts.summary.files_kept == 0

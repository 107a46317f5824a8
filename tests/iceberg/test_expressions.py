"""Iceberg's expressions: whatever client asks, no file with a row of its answer is left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.strict_json import write_json
from app.iceberg.catalog import Catalog
from app.iceberg.plan_tokens import PlanQuestion
from app.opening import create_service
from app.planning.request.limits import Limits
from app.planning.request.requests import TableRef
from app.planning.service import IndexService
from app.settings import Settings
from tests.examples import examples
from tests.golden_tables import GoldenWarehouse, expected
from tests.iceberg.meaning import Client, takes
from tests.iceberg.rows import file_rows, live_rows
from tests.iceberg.strategies import expressions, written

TABLES = ("append_sidecar", "append_embedded", "append_part_types", "append_partitioned", "pk_first_row")


@dataclass(frozen=True, slots=True)
class Asked:
    """A table with all that is in it.

    Attributes:
        ref: the table.
        rows: by the name of each file.
        values: some of each column.
        ids: of the columns.
    """

    ref: TableRef
    rows: Mapping[str, list[dict[str, Any]]]
    values: Mapping[str, list[Any]]
    ids: Mapping[str, int]


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> Iterator[IndexService]:
    settings = Settings.load(warehouses={"main": str(golden.root)}, engine_writes_only=("main",))
    service = create_service(settings)
    yield service
    service.close()


@cache
def asked(golden: GoldenWarehouse, name: str) -> Asked:
    document = expected(name)
    latest = next(each for each in document["versions"] if not any(each["at"].values()))
    ids = {each["name"]: each["id"] for each in document["schema"]["fields"]}
    live = live_rows(latest)
    rows = {
        file: [
            dict(zip(ids, values, strict=True))
            for values in zip(*(column.to_pylist() for column in table.take(live[file]).columns), strict=True)
        ]
        for file, table in file_rows(golden, latest, tuple(ids.values())).items()
        if file in live
    }
    values: dict[str, list[Any]] = {}
    for column in ids:
        found = {row[column] for some in rows.values() for row in some} - {None}
        known = sorted(each for each in found if not (isinstance(each, float) and math.isnan(each)))
        if known:
            values[column] = [*known[:: max(1, len(known) // 12)], *_others(known[0])]
    return Asked(TableRef("main", "golden", name), rows, values, ids)


def _others(value: Any) -> list[Any]:
    """Values that a column of such values may not have."""
    match value:
        case bool():
            return [True, False]
        case int():
            return [0, 1, -1]
        case float():
            return [0.0, -0.0, 0.5]
        case str():
            return ["", "zz"]
        case _:
            return []


@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
@examples(100)
def test_no_file_is_left_out_that_has_a_row_for_some_client(
    golden: GoldenWarehouse, service: IndexService, name: str, data: st.DataObject
) -> None:
    table = asked(golden, name)
    wanted = data.draw(expressions(table.values))
    question = data.draw(st.composite(lambda draw: written(wanted, draw, table.ids))())
    matching = {
        (file, client)
        for file, rows in table.rows.items()
        for client in Client
        if any(takes(client, wanted, row) for row in rows)
    }

    catalog = Catalog(service, Limits(), budget_ms=60_000, millis=True)
    tasks = json.loads(write_json(catalog.plan(table.ref, PlanQuestion(filter=question))))["file-scan-tasks"]

    planned = {task["data-file"]["file-path"].rpartition("/")[2] for task in tasks}
    assert {file for file, _ in matching} <= planned
    for task in tasks:
        if task["residual-filter"] is True:
            rows = table.rows[task["data-file"]["file-path"].rpartition("/")[2]]
            assert all(takes(client, wanted, row) for client in Client for row in rows)
        else:
            assert task["residual-filter"] == question

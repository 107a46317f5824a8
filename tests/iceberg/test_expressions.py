"""Iceberg's expressions: whatever client asks, no file with a row of its answer is left out."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.http.strict_json import write_json
from app.errors import FilterError, LimitExceededError
from app.iceberg.catalog import IcebergCatalog
from app.iceberg.expressions import read_expression
from app.iceberg.plan_tokens import PlanQuestion
from app.iceberg.schema import ReadColumns
from app.opening import create_service
from app.planning.request.limits import Limits
from app.planning.request.requests import TableRef
from app.planning.service import IndexService
from app.predicates.unbound import FilterLimits, Or, TruthValue, Undecidable
from app.settings import Settings
from app.table import TableSchema
from app.types import DataField, parse_type
from tests.examples import examples
from tests.golden_cases import GoldenWarehouse, expected
from tests.iceberg.meaning import Client, takes
from tests.iceberg.rows import file_rows, live_rows
from tests.iceberg.strategies import expressions, written

TABLES = ("append_sidecar", "append_embedded", "append_part_types", "append_partitioned", "pk_first_row")


@dataclass(frozen=True, slots=True)
class Asked:
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

    catalog = IcebergCatalog(service, Limits(), budget_ms=60_000, millis=True)
    tasks = json.loads(write_json(catalog.plan(table.ref, PlanQuestion(filter=json.dumps(question)))))[
        "file-scan-tasks"
    ]

    planned = {task["data-file"]["file-path"].rpartition("/")[2] for task in tasks}
    assert {file for file, _ in matching} <= planned
    for task in tasks:
        if task["residual-filter"] is True:
            rows = table.rows[task["data-file"]["file-path"].rpartition("/")[2]]
            assert all(takes(client, wanted, row) for client in Client for row in rows)
        else:
            assert task["residual-filter"] == question


TYPES: dict[str, Any] = {
    "id": "BIGINT",
    "Name": "STRING",
    "price": "DECIMAL(9, 2)",
    "ratio": "FLOAT",
    "day": "DATE",
    "at": "TIMESTAMP(6)",
    "seen": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "tags": {"type": "ARRAY", "element": "STRING"},
    "hash": "BYTES",
}
COLUMNS = TableSchema(0, tuple(DataField(at, name, parse_type(TYPES[name])) for at, name in enumerate(TYPES)))


def read(written: object, *, case_sensitive: bool = True) -> Any:
    columns = ReadColumns.of([COLUMNS], case_sensitive=case_sensitive)
    return read_expression(written, columns, FilterLimits())


def leaf(written: object) -> tuple[str, Any]:
    """Operator and values of the literals of an expression that is one test."""
    predicate = read(written).predicate
    return predicate.operator, [literal.value for literal in predicate.literals]


@pytest.mark.parametrize("written", [True, {"type": "true"}, {"type": "literal", "value": True}])
def test_what_is_always_true_filters_nothing(written: object) -> None:
    assert read(written).predicate is None
    assert read({"type": "not", "child": {"type": "not", "child": written}}).predicate is None
    assert read({"type": "not", "child": written}).predicate == TruthValue(value=False)


@pytest.mark.parametrize(
    ("column", "written", "literal"),
    [
        ("id", 5, 5),
        ("id", "5", 5),
        ("id", {"type": "literal", "value": 5, "data-type": "long"}, 5),
        ("price", "1.5", "1.5"),
        ("price", 2, 2),
        ("day", "2024-02-29", "2024-02-29"),
        ("day", 19782, 19782),
        ("at", 1_500, {"$ms": 1, "$nanos": 500_000}),
        ("at", "2024-02-29T01:02:03.000004", "2024-02-29T01:02:03.000004"),
        ("seen", -1, {"$ms": -1, "$nanos": 999_000}),
        ("seen", "2024-02-29T01:02:03+02:00", "2024-02-29T01:02:03+02:00"),
        ("hash", "00FF", "00FF"),
    ],
)
def test_literals_are_read_in_the_forms_of_every_client(column: str, written: Any, literal: Any) -> None:
    assert leaf({"type": "eq", "term": column, "value": written}) == ("EQUAL", [literal])


@pytest.mark.parametrize(
    "test",
    [
        {"type": "eq", "term": "id", "value": 1.5},
        {"type": "eq", "term": "id", "value": 1 << 70},
        {"type": "eq", "term": "price", "value": "1.005"},
        {"type": "eq", "term": "price", "value": f"1.5{'0' * 60}1"},
        {"type": "eq", "term": "day", "value": "2024-02-29T01:02:03"},
        {"type": "eq", "term": "at", "value": "2024-02-29T01:02:03Z"},
        {"type": "eq", "term": "seen", "value": "2024-02-29T01:02:03"},
        {"type": "eq", "term": "at", "value": "2024-02-29T01:02:03.000000001"},
        {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "at"}, "value": 5},
        {"type": "eq", "left": {"type": "apply", "function": "f", "arguments": []}, "right": 5},
        {"type": "lt", "left": {"type": "reference", "id": 0}, "right": {"type": "reference", "id": 2}},
        {"type": "eq", "left": 1, "right": 2},
        {"type": "not-starts-with", "term": "Name", "value": "a"},
        {"type": "is-null", "term": "tags.element"},
        {"type": "eq", "term": "_file", "value": "x"},
    ],
)
def test_what_clients_may_read_otherwise_keeps_every_file(test: Any) -> None:
    found = read(test)

    assert isinstance(found.predicate, Undecidable)
    assert not found.exact


@pytest.mark.parametrize(
    ("test", "meets_nan"),
    [
        ({"type": "gt-eq", "term": "ratio", "value": 0.5}, True),
        ({"type": "lt-eq", "left": 0.5, "right": {"type": "reference", "id": 3}}, True),
        ({"type": "gt", "term": "ratio", "value": 0.1}, True),
        ({"type": "lt", "term": "ratio", "value": 0.5}, False),
        ({"type": "gt-eq", "term": "id", "value": 5}, False),
    ],
)
def test_of_floating_point_a_negated_comparison_takes_nan_along(test: Any, meets_nan: bool) -> None:
    found = read({"type": "not", "child": test}).predicate

    also: Any = found.children[1:] if isinstance(found, Or) else ()
    assert [leaf.text for leaf in also] == (["eq of ratio"] if meets_nan else [])


@pytest.mark.parametrize(
    ("test", "function"),
    [
        ({"type": "lt", "term": "ratio", "value": 0.0}, "LESS_OR_EQUAL"),
        ({"type": "gt", "term": "ratio", "value": 0.1}, "GREATER_OR_EQUAL"),
        ({"type": "lt", "term": "ratio", "value": 0.5}, "LESS_THAN"),
        ({"type": "identity", "term": "id"}, None),
    ],
)
def test_tests_of_floats_are_wide_where_clients_round(test: Any, function: str | None) -> None:
    if function is None:
        with pytest.raises(FilterError, match="not a test"):
            read(test)
    else:
        assert leaf(test)[0] == function


def test_a_transform_that_changes_nothing_is_its_column() -> None:
    term = {"type": "transform", "transform": "identity", "term": "id"}

    assert leaf({"type": "gt", "term": term, "value": 5}) == ("GREATER_THAN", [5])


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ({"type": "eq", "term": "id", "value": 5}, True),
        ({"type": "in", "term": "id", "values": [5, 6]}, True),
        ({"type": "is-null", "term": "tags"}, True),
        ({"type": "not-eq", "term": "id", "value": 5}, False),
        ({"type": "gt", "term": "ratio", "value": 0.5}, False),
        ({"type": "not", "child": {"type": "in", "term": "id", "values": [5, 6]}}, False),
    ],
)
def test_only_what_all_clients_read_alike_is_exact(written: Any, exact: bool) -> None:
    assert read(written).exact is exact


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("id = 5", "expected an expression"),
        ({"type": "eq", "term": "ID", "value": 5}, "'ID'"),
        ({"type": "eq", "left": {"type": "reference", "id": 99}, "right": 5}, "99"),
        ({"type": "eq", "term": "id", "value": True}, "id"),
        ({"type": "eq", "term": "id", "value": None}, "literal"),
        ({"type": "eq", "term": "hash", "value": "xyz"}, "hash"),
        ({"type": "eq", "term": "day", "value": "29 Feb"}, "day"),
        ({"type": "eq", "term": "tags", "value": "x"}, "tags"),
        ({"type": "starts-with", "term": "id", "value": "x"}, "id"),
        ({"type": "in", "term": "id", "values": 5}, "list of literals"),
        ({"type": "and", "left": True}, "left and right"),
        ({"type": "eq", "child": {"type": "reference", "id": 0}}, "left with right"),
    ],
)
def test_what_is_no_expression_of_the_table_is_told(written: Any, part: str) -> None:
    with pytest.raises(FilterError, match=part):
        read(written)


def test_names_are_folded_where_case_does_not_matter() -> None:
    found = read({"type": "eq", "term": "NAME", "value": "x"}, case_sensitive=False).predicate

    assert found.column.name == "Name"


def test_chains_are_as_long_as_lists_and_nesting_is_bounded() -> None:
    test: Any = {"type": "eq", "term": "id", "value": 0}
    chain, nested = test, test
    for number in range(400):
        chain = {"type": "or", "left": chain, "right": {"type": "eq", "term": "id", "value": number}}
        nested = {"type": "not", "child": nested}

    assert len(read(chain).predicate.children) == 401
    with pytest.raises(LimitExceededError, match="nested deeper"):
        read(nested)

"""Columns by whose values a plan must not decide: those with default values, and hidden ones of Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateAnswer, AggregateFunction, AggregateRequest, Function
from app.file_index.index_kinds import BITMAP
from app.planning.plan.answers import Plan
from app.planning.request.limits import Limits
from app.planning.request.requests import LookupRequest, SortKey, TopN
from app.planning.service import IndexService
from app.types import DataField, Value, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import (
    MadeTable,
    entry,
    file_of,
    index_of,
    names_of,
    no_statistics,
    open_service,
    statistics,
)

ID = DataField(0, "id", parse_type("INT"))
CITY = DataField(1, "City", parse_type("STRING"))
DEFAULT = {"fields.City.default-value": "none yet"}
ROWS: list[list[Value | None]] = [[None], [b"none yet"], [b"b"]]


def json_test(column: str, value: object) -> dict[str, Any]:
    transform = {"name": "FIELD_REF", "fieldRef": {"index": 0, "name": column, "type": "INT"}}
    return {"kind": "LEAF", "transform": transform, "function": "EQUAL", "literals": [value]}


CONDITIONS: list[str | dict[str, Any]] = [
    "City = 'none yet'",
    "city <> 'b'",
    "City IS NULL",
    "City IS NOT NULL",
    "NOT (City IS NULL)",
    "City IN ('none yet', 'c')",
    "City LIKE 'none%'",
    "made.City = 'none yet'",
    "id = 7 OR City = 'c'",
    json_test("City", "none yet"),
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    service = open_service(tmp_path)
    yield service
    service.close()


def with_default(root: Path, options: dict[str, str] = DEFAULT) -> MadeTable:
    """Return a table of one file for each list of rows, with statistics and an index of the column."""
    made = MadeTable.make(root, [ID, CITY], options={"bucket": "-1", **options})
    made.commit(
        [
            file_of(f"data-{at}", {ID: [at], CITY: rows}, embedded_index=index_of({CITY: rows}, BITMAP))
            for at, rows in enumerate(ROWS)
        ]
    )
    return made


def says_how(plan: Plan | AggregateAnswer) -> bool:
    """Whether a warning names the option that can be unset."""
    return any("unset that option" in each and "fields.City.default-value" in each for each in plan.warnings)


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_nothing_is_left_out_by_a_column_whose_nulls_some_readers_show_as_a_default(
    tmp_path: Path, service: IndexService, condition: Any
) -> None:
    plan = with_default(tmp_path).plan(service, condition)

    assert len(plan.files) == len(ROWS)
    assert plan.files.array("residual").all()
    assert says_how(plan)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("City IS NOT NULL", "NOT (City IS NULL)"),
    ],
)
def test_a_warning_names_what_was_asked_and_not_its_opposite(
    tmp_path: Path, service: IndexService, condition: str, named: str
) -> None:
    [warning] = with_default(tmp_path).plan(service, condition).warnings

    assert warning.startswith(f"no file is pruned by {named} (at position ")


def test_lists_of_values_leave_nothing_out_either(tmp_path: Path, service: IndexService) -> None:
    plan = with_default(tmp_path).plan(service, in_lists={"City": ["none yet"]})

    assert (len(plan.files), says_how(plan)) == (len(ROWS), True)


def test_the_rest_of_such_a_condition_still_decides(tmp_path: Path, service: IndexService) -> None:
    plan = with_default(tmp_path).plan(service, "City = 'none yet' AND id = 2")

    assert names_of(plan.files) == ["data-2"]
    assert says_how(plan)


@pytest.mark.parametrize("option", ["fields.city.default-value", "Fields.CITY.Default-Value"])
def test_whoever_wrote_the_option_in_another_case_meant_it_perhaps(
    tmp_path: Path, service: IndexService, option: str
) -> None:
    assert len(with_default(tmp_path, {option: "c"}).plan(service, "City = 'c'").files) == len(ROWS)


def test_without_the_option_and_with_that_of_another_column_all_is_decided(
    tmp_path: Path, service: IndexService
) -> None:
    plan = with_default(tmp_path, {"fields.id.default-value": "7"}).plan(service, "City = 'none yet'")

    assert (names_of(plan.files), plan.warnings) == (["data-1"], ())


def test_an_order_by_such_a_column_leaves_nothing_out(tmp_path: Path, service: IndexService) -> None:
    made = with_default(tmp_path)
    first = TopN(order_by=(SortKey(column="City"),), limit=1)
    second = TopN(order_by=(SortKey(column="id"), SortKey(column="City")), limit=1)

    by_default, by_another = made.plan(service, top_n=first), made.plan(service, top_n=second)

    assert (len(by_default.files), says_how(by_default)) == (len(ROWS), True)
    assert names_of(by_another.files) == ["data-0"]


def test_a_limit_counts_no_row_that_such_a_column_decides(tmp_path: Path, service: IndexService) -> None:
    made = with_default(tmp_path)

    assert len(made.plan(service, "City = 'none yet'", limit=1).files) == len(ROWS)
    assert len(made.plan(service, limit=1).files) == 1


def test_partitions_of_such_a_column_are_all_read(tmp_path: Path, service: IndexService) -> None:
    made = MadeTable.make(tmp_path, [CITY, ID], partitioned_by=[CITY], options=DEFAULT)
    for at, [value] in enumerate(ROWS):
        row = serialize_row([value], [CITY.type])
        made.commit([entry(partition=row, file_name=f"data-{at}", row_count=1, **no_statistics())])
    last = len(ROWS) - 1

    plan = made.plan(service, "City = 'none yet'")

    assert (names_of(plan.files), plan.summary.manifests_skipped) == ([f"data-{last}"], 0)


def test_buckets_of_such_a_column_are_not_told(tmp_path: Path, service: IndexService) -> None:
    options = {"bucket": "16", "bucket-key": "City", **DEFAULT}
    made = MadeTable.make(tmp_path, [ID, CITY], options=options)
    made.commit(
        [
            entry(bucket=bucket, file_name=f"data-{bucket}", row_count=1, **no_statistics())
            for bucket in range(16)
        ]
    )

    plan = made.plan(service, "City = 'none yet'")
    looked_up = service.lookup(made.version(service), LookupRequest(keys=({"City": "none yet"},)))

    assert len(plan.files) == 16
    assert [each.bucket for each in looked_up.buckets] == [None]
    assert "unset that option" in str(looked_up.detail)


@pytest.mark.parametrize("function", [Function.MIN, Function.COUNT, Function.MAX])
def test_aggregates_of_such_a_column_are_open(
    tmp_path: Path, service: IndexService, function: Function
) -> None:
    version = with_default(tmp_path).version(service)
    request = AggregateRequest(
        aggregates=[
            AggregateFunction(function=function, column="City"),
            AggregateFunction(function=Function.COUNT),
        ]
    )

    answer = aggregate(version, request, Limits())

    [value, _] = answer.groups[0].values
    assert (answer.exact, len(answer.open_files), says_how(answer)) == (False, len(ROWS), True)
    assert value.upper in (None, len(ROWS))


def test_groups_of_such_a_column_are_open(tmp_path: Path, service: IndexService) -> None:
    version = with_default(tmp_path).version(service)

    answer = aggregate(version, AggregateRequest(group_by=["City"]), Limits())

    assert (answer.groups, len(answer.open_files)) == ([], len(ROWS))


# Hidden columns


TRACKED = {"bucket": "-1", "row-tracking.enabled": "true"}


def tracked(root: Path, options: dict[str, str] = TRACKED) -> MadeTable:
    """Files of two rows each, numbered on from 10; one that brings its own row ids, and one without any."""
    made = MadeTable.make(root, [ID], options=options)
    made.commit(
        [
            *(
                entry(
                    file_name=f"data-{at}",
                    row_count=2,
                    first_row_id=10 + 2 * at,
                    # The engine lists columns only where some have no statistics.
                    **{**statistics({ID: [at, at]}), "value_statistics_columns": None},
                )
                for at in range(3)
            ),
            entry(
                file_name="data-own",
                row_count=2,
                first_row_id=10,
                write_columns=("id", "_ROW_ID"),
                **statistics({ID: [3, 3]}),
            ),
            entry(file_name="data-none", row_count=2, **statistics({ID: [4, 4]})),
        ]
    )
    return made


@pytest.mark.parametrize(
    "condition",
    [
        "_SEQUENCE_NUMBER > 3",
        "_sequence_number IS NULL",
        "__paimon_file_path = 'x'",
        "made.__paimon_bucket = 7",
        "`__paimon_partition`.day = 'x'",
        "NOT __paimon_row_index = 0",
        json_test("_SEQUENCE_NUMBER", 3),
    ],
    ids=str,
)
def test_hidden_columns_of_spark_decide_nothing_and_the_rest_does(
    tmp_path: Path, service: IndexService, condition: Any
) -> None:
    made = tracked(tmp_path)
    both: Any = (
        f"{condition} AND id = 1"
        if isinstance(condition, str)
        else {"kind": "COMPOUND", "function": "AND", "children": [condition, json_test("id", 1)]}
    )

    alone, joined = made.plan(service, condition), made.plan(service, both)

    assert (len(alone.files), names_of(joined.files)) == (5, ["data-1"])
    assert alone.files.array("residual").all()
    assert any("is a hidden column of Spark" in each for each in alone.warnings)


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("_ROW_ID = 13", ["data-1"]),
        ("_row_id IN (10, 15)", ["data-0", "data-2"]),
        ("_ROW_ID < 12", ["data-0"]),
        ("_ROW_ID > 11 AND id = 1", ["data-1"]),
        ("_ROW_ID IS NULL", []),
        (json_test("_ROW_ID", 13), ["data-1"]),
    ],
    ids=str,
)
def test_row_ids_are_decided_where_files_tell_them(
    tmp_path: Path, service: IndexService, condition: Any, files: list[str]
) -> None:
    plan = tracked(tmp_path).plan(service, condition)

    # Nothing tells the ids of rows that bring their own, nor those of a file without any.
    unknown = [] if "AND" in str(condition) else ["data-own", "data-none"]
    assert names_of(plan.files) == files + unknown
    assert plan.warnings == ()


def test_files_of_the_same_rows_are_decided_together(tmp_path: Path, service: IndexService) -> None:
    made = MadeTable.make(tmp_path, [ID, CITY], options={**TRACKED, "data-evolution.enabled": "true"})
    made.commit(
        [
            entry(
                file_name=f"data-{at}-{name}",
                row_count=2,
                first_row_id=2 * at,
                write_columns=(name,),
                **known,
            )
            for at in range(3)
            for name, known in (("id", statistics({ID: [at, at]})), ("City", no_statistics()))
        ]
    )

    plan = made.plan(service, "_ROW_ID IN (0, 5) AND (City = 'a' OR id >= 1)")

    assert names_of(plan.files) == ["data-0-id", "data-0-City", "data-2-id", "data-2-City"]


def test_row_ids_of_a_table_that_does_not_say_that_it_tracks_them_decide_nothing(
    tmp_path: Path, service: IndexService
) -> None:
    plan = tracked(tmp_path, {"bucket": "-1"}).plan(service, "_ROW_ID = 13")

    assert (len(plan.files), len(plan.warnings)) == (5, 1)


def test_a_column_of_the_table_goes_before_a_hidden_one(tmp_path: Path, service: IndexService) -> None:
    own = DataField(0, "_SEQUENCE_NUMBER", parse_type("INT"))
    made = MadeTable.make(tmp_path, [own])
    made.commit([entry(file_name=f"data-{at}", row_count=1, **statistics({own: [at]})) for at in range(3)])

    assert names_of(made.plan(service, "_sequence_number = 1").files) == ["data-1"]


@pytest.mark.parametrize("condition", ["~id = 1", "NOT ~id = 1", "id = ~1", "id BETWEEN ~1 AND ~id + 1"])
def test_a_complement_is_a_value(tmp_path: Path, service: IndexService, condition: str) -> None:
    assert len(tracked(tmp_path).plan(service, condition).files) == 5

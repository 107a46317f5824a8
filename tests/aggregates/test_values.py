"""Values that differ where they are stored, and are one where Spark reads them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateAnswer, AggregateFunction, AggregateRequest, Function
from app.file_index.index_kinds import BITMAP
from app.planning.request.limits import Limits
from app.planning.service import IndexService
from app.types import DataField, Value, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import MadeTable, entry, index_of, no_statistics, open_service, statistics

CODE = DataField(0, "code", parse_type("CHAR(4)"))
AT = DataField(0, "at", parse_type("TIMESTAMP(9)"))
LOCAL = DataField(0, "at", parse_type("TIMESTAMP_LTZ(7)"))
ID = DataField(1, "id", parse_type("INT"))
PADDED: list[Value | None] = [b"a", b"a ", b"a   ", "é".encode(), "é   ".encode(), None, b"abcde"]
TIMES: list[Value | None] = [1_000, 1_001, 1_999, 2_000, None, -1, -1_000]
OF_PARTITIONS = [(CODE, PADDED, 3), (AT, TIMES, 3), (LOCAL, TIMES, 3)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    service = open_service(tmp_path)
    yield service
    service.close()


def partitioned(root: Path, column: DataField, stored: Sequence[Value | None]) -> MadeTable:
    """Return a table with a file of two rows in each of some partitions."""
    made = MadeTable.make(root, [column, ID], partitioned_by=[column])
    made.commit(
        [
            entry(
                partition=serialize_row([value], [column.type]),
                file_name=f"data-{at}.parquet",
                row_count=2,
                **statistics({ID: [at, at]}),
            )
            for at, value in enumerate(stored)
        ]
    )
    return made


def asked(service: IndexService, made: MadeTable, request: AggregateRequest) -> AggregateAnswer:
    return aggregate(made.version(service), request, Limits())


@pytest.mark.parametrize(("column", "stored", "distinct"), OF_PARTITIONS)
def test_partitions_that_are_read_alike_are_one_group(
    tmp_path: Path, service: IndexService, column: DataField, stored: list[Value | None], distinct: int
) -> None:
    request = AggregateRequest(group_by=[column.name])

    answer = asked(service, partitioned(tmp_path, column, stored), request)

    keys = [group.key[column.name] for group in answer.groups]
    assert (answer.exact, answer.groups_total) == (True, distinct + 1)
    assert len(keys) == len(set(keys))
    assert max(group.rows for group in answer.groups) == 6
    assert sum(group.rows for group in answer.groups) == 2 * len(stored)


@pytest.mark.parametrize(("column", "stored"), [each[:2] for each in OF_PARTITIONS])
@pytest.mark.parametrize("written", [None, "id >= 0"])
def test_ends_of_partitions_are_those_that_are_read(
    tmp_path: Path, service: IndexService, column: DataField, stored: list[Value | None], written: str | None
) -> None:
    functions = [Function.MIN, Function.MAX]
    request = AggregateRequest(
        aggregates=[AggregateFunction(function=function, column=column.name) for function in functions],
        filter=written,
    )

    [group] = asked(service, partitioned(tmp_path, column, stored), request).groups

    if column is CODE:
        ends = ["a   ", "é   "]
    else:
        ends = ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00.000002"]
        ends = [each + ("Z" if column is LOCAL else "") for each in ends]
    assert [value.value for value in group.values] == ends
    assert all(value.exact for value in group.values)


def test_an_end_of_open_files_holds_padded_values(tmp_path: Path, service: IndexService) -> None:
    code = DataField(0, "code", CODE.type)
    made = MadeTable.make(tmp_path, [code])
    ends = [
        AggregateFunction(function=Function.MIN, column="code"),
        AggregateFunction(function=Function.MAX, column="code"),
    ]

    made.commit([entry(file_name="data-0.parquet", row_count=2, **statistics({code: [b"a", b"b"]}))])
    [least, greatest] = asked(service, made, AggregateRequest(aggregates=ends)).groups[0].values
    made.commit([entry(file_name="data-0.parquet", row_count=2, **statistics({code: [b"a", b"b\x01"]}))])
    [_, unknown] = asked(service, made, AggregateRequest(aggregates=ends)).groups[0].values

    # Of b and b\x01 the first is the greater one when it is padded.
    assert (least.lower, greatest.upper, unknown.upper) == ("a", "b   ", None)


def test_an_end_of_open_files_holds_cut_timestamps(tmp_path: Path, service: IndexService) -> None:
    at = DataField(0, "at", AT.type)
    made = MadeTable.make(tmp_path, [at])
    made.commit([entry(file_name="data-0.parquet", row_count=2, **statistics({at: [1_500, 3_500]}))])

    [least] = (
        asked(
            service,
            made,
            AggregateRequest(aggregates=[AggregateFunction(function=Function.MIN, column="at")]),
        )
        .groups[0]
        .values
    )

    assert least.lower <= "1970-01-01T00:00:00.000001"


def test_open_files_leave_every_form_of_their_partition_open(tmp_path: Path, service: IndexService) -> None:
    made = MadeTable.make(tmp_path, [CODE, ID], partitioned_by=[CODE])
    made.commit(
        [
            entry(
                partition=serialize_row([value], [CODE.type]),
                file_name=f"data-{at}.parquet",
                row_count=2,
                **known,
            )
            for at, (value, known) in enumerate(
                [
                    (b"a", statistics({ID: [1, 1]})),
                    (b"a   ", no_statistics()),
                    (b"b", statistics({ID: [1, 1]})),
                ]
            )
        ]
    )
    request = AggregateRequest(group_by=["code"], filter="id = 1")

    answer = asked(service, made, request)

    told = {group.key["code"]: (group.rows, group.values[0].exact) for group in answer.groups}
    assert told == {"a   ": (2, False), "b   ": (2, True)}


def test_an_index_counts_every_form_of_a_padded_value_as_one(tmp_path: Path, service: IndexService) -> None:
    code = DataField(0, "code", CODE.type)
    made = MadeTable.make(tmp_path, [code])
    rows: list[Value | None] = [b"a", b"a ", None, "é".encode(), b"a   ", b"b"]
    made.commit(
        [
            entry(
                file_name=f"data-{at}.parquet",
                row_count=len(rows),
                embedded_index=index_of({code: rows}, BITMAP),
                **no_statistics(),
            )
            for at in range(2)
        ]
    )
    ends = [AggregateFunction(function=each, column="code") for each in (Function.MIN, Function.MAX)]

    groups = asked(service, made, AggregateRequest(group_by=["code"]))
    of_one = asked(service, made, AggregateRequest(group_by=["code"], filter="code = 'a'"))
    [least, greatest] = asked(service, made, AggregateRequest(aggregates=ends)).groups[0].values

    assert {group.key["code"]: group.rows for group in groups.groups} == {
        "a   ": 6,
        "b   ": 2,
        "é   ": 2,
        None: 2,
    }
    assert (groups.exact, groups.open_files) == (True, [])
    assert [(group.key["code"], group.values[0].value) for group in of_one.groups] == [("a   ", 6)]
    assert (least.value, greatest.value) == ("a   ", "é   ")

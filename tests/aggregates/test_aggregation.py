"""Aggregates against rows: exact ones are what SQL computes, others hold it, open files make up the rest."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import (
    AggregateAnswer,
    AggregateFunction,
    AggregateRequest,
    AggregateValue,
    Function,
)
from app.errors import LimitExceededError, PaimonIndexError, RequestError, UnsupportedFormatError
from app.file_index.container import write
from app.file_index.index_kinds import BITMAP, KINDS
from app.planning.request.filters import read_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import SnapshotSelector
from app.planning.scan import index_filter
from app.planning.service import IndexService
from app.predicates.model import BoundPredicate
from app.types import DataField, TypeRoot, Value, parse_type, sql_key, to_json
from app.types.binary_row.row import serialize_row
from app.types.civil_time import NANOS_PER_MILLI
from app.work import LEDGER
from tests import golden_cases
from tests.brute_force import matching_rows
from tests.examples import share
from tests.filters import values
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each
from tests.tables import (
    MadeTable,
    columns_of,
    entry,
    file_of,
    golden_ref,
    index_of,
    no_statistics,
    open_service,
    payload,
    statistics,
)

DAY = DataField(0, "day", parse_type("INT"))
COLUMNS = list(
    columns_of(
        """
    n: INT; d: DECIMAL(9, 2); s: STRING; x: DOUBLE; t: TIMESTAMP(3); fine: TIMESTAMP(9); b: BOOLEAN;
    c: CHAR(3)
    """,
        1,
    )
)
BY_NAME = {column.name: column for column in (DAY, *COLUMNS)}
KINDS_OF = {
    name: [kind for kind in KINDS.values() if kind.takes(column.type)] for name, column in BY_NAME.items()
}
FILTERS = ["n = 1", "n > 0 AND n < 3", "s = 'a' OR n IS NULL", "d >= 0", "x > 0", "b", "day = 1 AND n >= 0"]


@dataclass(frozen=True)
class File:
    day: int | None
    rows: Mapping[str, Sequence[Value | None]]
    indexed: Mapping[str, str]
    has_statistics: bool

    @property
    def count(self) -> int:
        return len(self.rows["n"])


def few(column: DataField) -> st.SearchStrategy[Value | None]:
    if column.type.root is TypeRoot.CHAR:
        return st.sampled_from([None, b"a", b"a  ", b"ab "])
    found = values(column.type)
    if column.type.is_compact_timestamp:
        # Values of the type have no more digits than its index keeps.
        found = found.map(lambda value: int(value) // NANOS_PER_MILLI * NANOS_PER_MILLI)
    return st.one_of(st.none(), found)


@st.composite
def files(draw: st.DrawFn) -> File:
    count = draw(st.integers(1, 6))
    rows = {column.name: draw(st.lists(few(column), min_size=count, max_size=count)) for column in COLUMNS}
    indexed = {
        name: draw(st.sampled_from(kinds))
        for name, kinds in KINDS_OF.items()
        if name != "day" and kinds and draw(st.booleans())
    }
    return File(draw(st.sampled_from([1, 2, None])), rows, indexed, draw(st.booleans()))


def made(warehouse: Path, made_files: Sequence[File]) -> tuple[MadeTable, IndexService]:
    table = MadeTable.make(warehouse, [DAY, *COLUMNS], partitioned_by=[DAY])
    entries = []
    for number, file in enumerate(made_files):
        containers: dict[str, list[tuple[str, bytes | None]]] = {
            name: [(kind, payload(KINDS[kind], file.rows[name], BY_NAME[name]))]
            for name, kind in file.indexed.items()
            if kind != "bsi" or holds(file.rows[name])
        }
        told = {BY_NAME[name]: rows for name, rows in file.rows.items() if name in ("n", "d", "t", "b")}
        entries.append(
            entry(
                partition=serialize_row([file.day], [DAY.type]),
                file_name=f"data-{number}.parquet",
                row_count=file.count,
                embedded_index=write(containers) if containers else None,
                **(statistics(told) if file.has_statistics else no_statistics()),
            )
        )
    table.commit(entries)
    return table, open_service(warehouse)


def holds(rows: Sequence[Value | None]) -> bool:
    return all(value is None or isinstance(value, bytes) or int(value) > -(2**62) for value in rows)


@dataclass(frozen=True)
class Truth:
    files: Sequence[File]
    predicate: BoundPredicate

    def rows(self, only: Callable[[int], bool] = lambda _: True) -> list[dict[str, Value | None]]:
        found = []
        for number, file in enumerate(self.files):
            if only(number):
                columns = {**file.rows, "day": [file.day] * file.count}
                matching = matching_rows(self.predicate, columns, file.count)
                found += [{name: column[row] for name, column in columns.items()} for row in matching]
        return found


def same(column: str, value: Value | None) -> Any:
    if isinstance(value, bytes) and BY_NAME[column].type.root is TypeRoot.CHAR:
        return value.rstrip()
    return None if value is None else sql_key(BY_NAME[column].type)(value)


def computed(asked: AggregateFunction, rows: Sequence[Mapping[str, Value | None]]) -> Any:
    """Return the aggregate of rows: a number, or the key of a value; None for NULL."""
    if asked.column is None:
        return len(rows)
    found = [same(asked.column, row[asked.column]) for row in rows if row[asked.column] is not None]
    match asked.function:
        case Function.COUNT:
            return len(found)
        case Function.SUM:
            return sum(found) if found else None
        case Function.MIN:
            return min(found, default=None)
        case _:
            return max(found, default=None)


def written(asked: AggregateFunction, value: Any) -> Any:
    """Return what an answer tells, in a form that compares with :func:`computed`."""
    if value is None or asked.column is None or asked.function is Function.COUNT:
        return value
    data_type = BY_NAME[asked.column].type
    if data_type.root is TypeRoot.DECIMAL:
        return int(Decimal(value).scaleb(data_type.scale))
    if asked.function is Function.SUM:
        return value
    if data_type.root is TypeRoot.CHAR:
        return value.encode().rstrip()
    candidates = {
        json_key(to_json(each, data_type)): sql_key(data_type)(each) for each in KNOWN[asked.column]
    }
    if asked.column == "t" and value not in candidates:
        # A bound of another instant: statistics do not say in which zone they were written.
        return int(np.datetime64(value, "ms").astype(np.int64)) * NANOS_PER_MILLI
    return candidates[json_key(value)]


def json_key(value: Any) -> Any:
    return ("number", float(value)) if isinstance(value, float) and not math.isnan(value) else value


KNOWN: dict[str, list[Any]] = {}
"""Values of each column; both zeros, which a set would take for one."""
ASKED = [
    AggregateFunction(function=Function.COUNT),
    *(AggregateFunction(function=Function.COUNT, column=name) for name in BY_NAME),
    *(
        AggregateFunction(function=function, column=name)
        for function in (Function.MIN, Function.MAX)
        for name in BY_NAME
    ),
    *(AggregateFunction(function=Function.SUM, column=name) for name in ("n", "d", "day")),
]


def check(asked: AggregateFunction, found: AggregateValue, truth: Any) -> None:
    value, lower, upper = (written(asked, each) for each in (found.value, found.lower, found.upper))
    if found.exact:
        assert value == truth == lower == upper
        return
    assert value is None
    if truth is not None:
        assert lower is None or lower <= truth
        assert upper is None or upper >= truth


def added(asked: AggregateFunction, settled: Any, opened: Any) -> Any:
    """Return what a caller makes of what is settled and what open files give.

    Values that both have count twice.
    """
    if settled is None or opened is None:
        return opened if settled is None else settled
    match asked.function:
        case Function.MIN:
            return min(settled, opened)
        case Function.MAX:
            return max(settled, opened)
        case _:
            return settled + opened


@given(
    made_files=st.lists(files(), min_size=1, max_size=5),
    condition=st.sampled_from([None, *FILTERS]),
    asked=st.lists(st.sampled_from(ASKED), min_size=1, max_size=3),
    groups=st.sampled_from([(), ("day",), ("n",), ("s",), ("x",), ("c",), ("b",), ("fine",)]),
)
def test_aggregates_hold_the_truth(
    made_files: list[File], condition: str | None, asked: list[AggregateFunction], groups: tuple[str, ...]
) -> None:
    if groups:
        asked = [AggregateFunction(function=Function.COUNT)]
    KNOWN.clear()
    KNOWN.update(
        {
            column.name: [
                value for file in made_files for value in file.rows[column.name] if value is not None
            ]
            for column in COLUMNS
        }
    )
    KNOWN["day"] = [1, 2]
    with tempfile.TemporaryDirectory() as directory:
        table, service = made(Path(directory), made_files)
        version = table.version(service)
        request = AggregateRequest(filter=condition, aggregates=asked, group_by=groups)

        found = aggregate(version, request, Limits())

        alone = [
            aggregate(version, request.model_copy(update={"aggregates": [each]}), Limits()) for each in asked
        ]
        predicate = bound(service, table, condition)
        service.close()
    truth = Truth(made_files, predicate)
    rows = truth.rows()
    by_group: dict[Any, list[dict[str, Value | None]]] = {}
    for row in rows:
        by_group.setdefault(tuple(same(name, row[name]) for name in groups), []).append(row)
    if not groups:
        by_group.setdefault((), [])
    opened = {int(name.removeprefix("data-").removesuffix(".parquet")) for name in found.open_files}
    from_open: dict[Any, list[dict[str, Value | None]]] = {}
    for row in truth.rows(lambda number: number in opened):
        from_open.setdefault(tuple(same(name, row[name]) for name in groups), []).append(row)
    told = {
        tuple(
            written(AggregateFunction(function=Function.MIN, column=each), group.key[each]) for each in groups
        ): group
        for group in found.groups
    }
    assert len(told) == len(found.groups) == found.groups_total
    for key, group in told.items():
        of_group = by_group.get(key, [])
        assert group.rows <= len(of_group)
        for each, value in zip(asked, group.values, strict=True):
            check(each, value, computed(each, of_group))
            settled = written(each, value.settled)
            whole = added(each, settled, computed(each, from_open.get(key, [])))
            assert whole == computed(each, of_group)
    if found.exact:
        assert told.keys() == by_group.keys()
    else:
        missing = sum(len(by_group[key]) for key in by_group.keys() - told.keys())
        assert missing <= found.open_rows
    # No other function of the request takes anything from what is told of one.
    for at, answer in enumerate(alone if not groups else ()):
        told_alone, told_among = answer.groups[0].values[0], found.groups[0].values[at]
        assert replace(told_alone, settled=None) == replace(told_among, settled=None)
        assert set(answer.open_files) <= set(found.open_files)
    # What is settled, and what open files give, are all rows once, but for files that cannot change an end.
    told_rows = sum(group.rows for group in found.groups) + sum(map(len, from_open.values()))
    assert told_rows == len(rows) or (found.exact and not groups and told_rows < len(rows))


def answered(
    root: Path, made_files: Sequence[File], aggregates: Sequence[AggregateFunction]
) -> AggregateAnswer:
    table, service = made(root, made_files)
    request = AggregateRequest(filter="s = 'a'", aggregates=aggregates)
    found = aggregate(table.version(service), request, Limits())
    service.close()
    return found


def file_with(n: Sequence[Value | None], s: Sequence[Value | None]) -> File:
    """Return a file with statistics of n, and an index of s that finds rows."""
    rows: dict[str, Sequence[Value | None]] = {column.name: [None] * len(n) for column in COLUMNS}
    return File(1, {**rows, "n": n, "s": s}, {"s": "bitmap"}, has_statistics=True)


OF_N = [AggregateFunction(function=function, column="n") for function in Function]


def test_equal_bounds_are_the_value_of_each_matching_row(tmp_path: Path) -> None:
    parts = [file_with([0, 0, 0], [b"a", b"b", b"a"]), file_with([7, 7], [b"a", b"b"])]

    found = answered(tmp_path, parts, OF_N)

    assert (found.exact, found.open_files, found.groups[0].rows) == (True, [], 3)
    assert {each.function: each.value for each in found.groups[0].values} == {
        Function.COUNT: 3,
        Function.MIN: 0,
        Function.MAX: 7,
        Function.SUM: 7,
    }


def test_equal_bounds_are_not_the_value_of_rows_that_may_be_null(tmp_path: Path) -> None:
    found = answered(tmp_path, [file_with([4, None], [b"a", b"b"])], OF_N)

    assert (found.exact, found.open_files) == (False, ["data-0.parquet"])
    assert not any(each.exact for each in found.groups[0].values)


def test_columns_without_nulls_count_each_matching_row_and_those_without_values_none(tmp_path: Path) -> None:
    parts = [file_with([1, 2, 3], [b"a", b"b", b"a"]), file_with([None, None], [b"a", b"b"])]

    found = answered(tmp_path, parts, [AggregateFunction(function=Function.COUNT, column="n")])

    assert (found.exact, found.groups[0].values[0].value) == (True, 2)


def test_files_that_cannot_change_an_end_are_not_open(tmp_path: Path) -> None:
    settled, part = file_with([0, 3], [b"a", b"a"]), file_with([0, 9], [b"b", b"a"])

    least = answered(tmp_path / "least", [settled, part], [OF_N[1]])
    both = answered(tmp_path / "both", [settled, part], OF_N[1:3])

    assert (least.exact, least.open_files, least.groups[0].values[0].settled) == (True, [], 0)
    assert (both.exact, both.open_files) == (False, ["data-1.parquet"])
    assert [(each.exact, each.lower, each.upper) for each in both.groups[0].values] == [
        (True, 0, 0),
        (False, 3, 9),
    ]


def test_a_column_without_an_index_takes_no_bounds_from_the_others(tmp_path: Path) -> None:
    rows: dict[str, list[Value | None]] = {"n": [3, 5], "s": [b"a", b"b"], "x": [1.5, 2.5]}
    index = index_of({BY_NAME["s"]: rows["s"]}, BITMAP)
    table = MadeTable.make(tmp_path, [DAY, BY_NAME["n"], BY_NAME["s"], BY_NAME["x"]], partitioned_by=[DAY])
    table.commit(
        [
            entry(
                partition=serialize_row([1], [DAY.type]),
                file_name="data-0.parquet",
                row_count=2,
                embedded_index=index,
                **statistics({BY_NAME["n"]: rows["n"]}),
            )
        ]
    )
    least = [AggregateFunction(function=Function.MIN, column=name) for name in ("x", "day", "n", "s")]
    request = AggregateRequest(aggregates=[*least, AggregateFunction(function=Function.COUNT)])

    found = aggregate(table.version(open_service(tmp_path)), request, Limits())

    unknown, *others = found.groups[0].values
    assert (unknown.exact, unknown.lower, unknown.upper) == (False, None, None)
    assert [(each.exact, each.value, each.lower) for each in others] == [
        (True, 1, 1),
        (True, 3, 3),
        (True, "a", "a"),
        (True, 2, 2),
    ]
    # A reader of the open file adds all of its values.
    assert found.open_files == ["data-0.parquet"]
    assert [each.settled for each in others] == [None, None, None, 0]


def test_partitions_bound_a_partition_column_of_files_whose_rows_are_not_known(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [DAY, BY_NAME["s"]], partitioned_by=[DAY])
    of_days = [serialize_row([day], [DAY.type]) for day in (4, 7, None)]
    table.commit(
        [
            entry(partition=row, file_name=f"data-{at}.parquet", row_count=2, **no_statistics())
            for at, row in enumerate(of_days)
        ]
    )
    ends = [AggregateFunction(function=function, column="day") for function in (Function.MIN, Function.MAX)]
    request = AggregateRequest(filter="s = 'a'", aggregates=ends)

    found = aggregate(table.version(open_service(tmp_path)), request, Limits())

    least, greatest = found.groups[0].values
    assert (least.exact, least.lower, least.upper) == (False, 4, 7)
    assert (greatest.exact, greatest.lower, greatest.upper) == (False, 4, 7)


def test_a_sum_beyond_its_type_is_refused_and_a_bound_not_known(tmp_path: Path) -> None:
    column = DataField(0, "big", parse_type("BIGINT"))
    table, service = MadeTable.make(tmp_path, [column]), open_service(tmp_path)
    rows: dict[DataField, list[Value | None]] = {column: [2**63 - 1, 2**63 - 2]}
    request = AggregateRequest(aggregates=[AggregateFunction(function=Function.SUM, column="big")])

    table.commit([file_of("data-0.parquet", rows)])
    found = aggregate(table.version(service), request, Limits())
    table.commit([file_of("data-1.parquet", rows, BITMAP)])

    [value] = found.groups[0].values
    assert (value.lower, value.upper, value.settled) == (None, None, None)
    with pytest.raises(RequestError, match=r"sum of 'big' does not fit BIGINT"):
        aggregate(table.version(service), request, Limits())
    service.close()


def test_ends_of_timestamps_that_a_writer_of_orc_may_have_cut_are_open(tmp_path: Path) -> None:
    column = DataField(0, "t", parse_type("TIMESTAMP(6)"))
    table = MadeTable.make(tmp_path, [column])
    first, last = 5 * NANOS_PER_MILLI, 7 * NANOS_PER_MILLI
    stated = statistics({column: [first, last]})
    ends = [
        AggregateFunction(function=Function.MIN, column="t"),
        AggregateFunction(function=Function.MAX, column="t"),
    ]
    lowest, highest, beyond = (to_json(each, column.type) for each in (first, last, last + 999_999))

    for name, is_exact, upper in (("data-0.orc", False, beyond), ("data-1.parquet", True, highest)):
        table.commit([entry(file_name=name, row_count=2, **stated)])
        version = table.version(open_service(tmp_path))

        [group] = aggregate(version, AggregateRequest(aggregates=ends), Limits()).groups

        least, greatest = group.values
        assert least.exact is greatest.exact is is_exact
        assert (least.lower, greatest.upper) == (lowest, upper)


def bound(service: IndexService, table: MadeTable, condition: str | None) -> BoundPredicate:
    version = table.version(service)
    return read_filter(condition, version.schema.fields, Limits(), version.relation)


EXACT_OFTEN = {
    "append_sidecar",
    "append_embedded",
    "append_partitioned",
    "append_dv32",
    "append_dv64",
    "all_types",
}


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> IndexService:
    return open_service(golden.root, golden.allow_external(), engine_writes_only=True)


@for_each("name", share(golden_cases.tables(), 2))
def test_counts_hold_the_number_of_rows(service: IndexService, name: str) -> None:
    exact = asked = 0
    for query in share(golden_cases.expected(name)["queries"], 5):
        if query["topn"] or query["limit"] or "matching_count" not in query:
            continue
        selector = SnapshotSelector(query["snapshot_id"], query["tag"], branch=query["branch"])
        version = service.resolve(golden_ref(name), selector)
        request = AggregateRequest(filter=query["filter_sql"] or query["predicate"])
        try:
            found = aggregate(version, request, Limits())
        except UnsupportedFormatError:
            assert name == "data_evolution"
            return
        except PaimonIndexError:
            with pytest.raises(PaimonIndexError):
                version.files()
            continue
        [group] = found.groups
        [count] = group.values
        assert count.lower <= query["matching_count"] <= count.upper, query["name"]
        assert count.exact == found.exact == (not found.open_files)
        assert not count.exact or count.value == query["matching_count"]
        asked += 1
        exact += count.exact
    assert name not in EXACT_OFTEN or exact > asked / 2


def test_rows_that_indexes_find_are_claimed_until_the_answer_is_made(
    tmp_path: Path, limit_memory: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A plan of few files claims nothing.
    monkeypatch.setattr(index_filter, "_LEAST_CLAIM_BYTES", 0)
    column = BY_NAME["n"]
    made = MadeTable.make(tmp_path, [column])
    index = index_of({column: [1, 2]}, BITMAP)
    members = {"row_count": 2, "embedded_index": index, **no_statistics()}
    made.commit([entry(file_name=f"{at}.orc", **members) for at in range(100)])
    request = AggregateRequest(filter="n = 1", aggregates=[AggregateFunction(function=Function.COUNT)])
    with closing(open_service(tmp_path)) as service:
        version = made.version(service)
        assert aggregate(version, request, Limits()).groups[0].rows == 100
        limit_memory(256 << 20)

        with (
            LEDGER.claim("plans", int(LEDGER.room) - 10_000),
            pytest.raises(LimitExceededError, match="bytes for plans of"),
        ):
            aggregate(version, request, Limits())

        assert aggregate(version, request, Limits()).groups[0].rows == 100
        assert not LEDGER.claimed["plans"]

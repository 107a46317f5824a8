"""Plans by indexes, beside the indexes of each file asked one by one."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.answers import KEEP, SKIP
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, KINDS
from app.file_index.stacked_index import FileIndex
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import KeepReason, SkipStep
from app.planning.request.requests import SelectionForm
from app.planning.scan.index_filter import in_file_schema
from app.predicates.binding import bind
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.text import read_text
from app.table import TableSchema
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, Value, parse_type
from app.types.values import to_float32
from tests.examples import examples
from tests.file_index.strategies import columns, leaves
from tests.planning.strategies import leaf
from tests.row_matches import matches
from tests.tables import (
    MadeTable,
    MadeTables,
    entry,
    file_of,
    index_of,
    names_of,
    no_statistics,
    payload,
    unreadable,
)

NUMBER, NAME = DataField(0, "number", parse_type("INT")), DataField(1, "name", parse_type("STRING"))
FIELDS = (NUMBER, NAME)


class Indexed(NamedTuple):
    """A data file: its number of rows, its container if it has one, and where that lies."""

    rows: int
    container: bytes | None
    is_embedded: bool


def table(warehouse: MadeTables, files: Sequence[Indexed], manifests: int) -> MadeTable:
    made = warehouse.make(FIELDS)
    entries = [_entry(made, at, file) for at, file in enumerate(files)]
    made.commit(*(entries[part::manifests] for part in range(manifests)))
    return made


def _entry(made: MadeTable, at: int, file: Indexed) -> ManifestEntry:
    members = {"row_count": file.rows, "embedded_index": file.container, **no_statistics()}
    embedded = entry(file_name=f"data-{at}", **members)
    return embedded if file.is_embedded or file.container is None else made.beside(embedded)


@st.composite
def containers(draw: st.DrawFn, values: Mapping[DataField, Sequence[Value | None]]) -> bytes:
    listed = {
        field.name: [
            (kind, payload(kind, rows, field))
            for kind in KINDS.values()
            if kind.takes(field.type) and draw(st.booleans())
        ]
        for field, rows in values.items()
    }
    return container.write(listed)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Indexed], list[Value | None], list[Value | None]]:
    """Return the files of a table, and all values of its columns."""
    files: list[Indexed] = []
    numbers: list[Value | None] = [None]
    names: list[Value | None] = [None]
    for _ in range(draw(st.integers(1, 5))):
        # A file without rows has no matching one, whatever its index says.
        number, name = ([None, *draw(columns(field.type))] for field in FIELDS)
        count = draw(st.integers(1, min(len(number), len(name), 8)))
        rows = {NUMBER: number[-count:], NAME: name[-count:]}
        content = draw(containers(rows)) if draw(st.integers(0, 4)) else None
        files.append(Indexed(count, content, draw(st.booleans())))
        numbers += rows[NUMBER]
        names += rows[NAME]
    return files, numbers, names


@st.composite
def filters(
    draw: st.DrawFn, numbers: Sequence[Value | None], names: Sequence[Value | None]
) -> BoundPredicate:
    """Return a filter over these columns, its literals often taken from them."""
    simple = leaves(NUMBER, numbers) | leaves(NAME, names) | st.just(Unknown("f(name)"))

    def joined(children: st.SearchStrategy[BoundPredicate]) -> st.SearchStrategy[BoundPredicate]:
        several = st.lists(children, min_size=2, max_size=3).map(tuple)
        return several.map(BoundAnd) | several.map(BoundOr)

    found: BoundPredicate = draw(st.recursive(simple, joined, max_leaves=5))
    return found


def rows_one_by_one(predicate: BoundPredicate, files: Sequence[Indexed]) -> dict[str, set[int]]:
    """Return the rows that the indexes of each file leave, of files that they do not rule out."""
    found = {}
    for at, file in enumerate(files):
        nothing = container.write({})
        index = FileIndex.read(nothing if file.container is None else file.container)
        answer = KEEP if file.container is None else evaluate(predicate, index, row_count=file.rows)
        if answer is not SKIP:
            found[f"data-{at}"] = set(range(file.rows) if answer is KEEP else answer.positions)
    return found


def rows_of(plan: Plan) -> dict[str, set[int]]:
    return {
        file.file_name: set(range(file.row_count) if file.selection is None else file.selection)
        for file in plan.files
    }


@given(data=st.data())
@examples(25)
def test_plans_keep_what_the_indexes_of_each_file_leave(warehouse: MadeTables, data: st.DataObject) -> None:
    files, numbers, names = data.draw(tables())
    made = table(warehouse, files, data.draw(st.integers(1, 2)))
    for _ in range(4):
        predicate = data.draw(filters(numbers, names))
        expected = rows_one_by_one(predicate, files)

        plan = made.plan_bound(warehouse.service, predicate)
        explained = made.plan_bound(warehouse.service, predicate, explain=True)
        counted = made.plan_bound(warehouse.service, predicate, selection=SelectionForm.COUNT)
        without_rows = made.plan_bound(warehouse.service, predicate, selection=SelectionForm.NONE)

        assert rows_of(plan) == rows_of(explained) == expected
        assert names_of(plan.files) == names_of(explained.files) == names_of(without_rows.files)
        assert [file.selected_rows for file in counted.files] == [
            len(rows) for rows in rows_of(plan).values()
        ]
        assert {file.reason for file in explained.skipped_files} <= {SkipStep.FILE_INDEX}
        assert all("are kept undecided" in each for each in plan.warnings)


SOUND = index_of({NUMBER: [1, 2, 3]}, BITMAP)


@pytest.mark.parametrize("broken", [SOUND[:-60], b"", bytes(40)], ids=["cut", "empty", "without magic"])
def test_a_broken_index_keeps_its_file_alone_and_is_told_once(warehouse: MadeTables, broken: bytes) -> None:
    files = [Indexed(3, content, embedded) for content in (SOUND, broken) for embedded in (True, False)]
    made = table(warehouse, files, 1)

    for explain in (False, True):
        plan = made.plan(warehouse.service, "number = 7 OR number = 8", explain=explain)

        assert unreadable(plan) == names_of(plan.files) == ["data-2", "data-3"]
        assert [warning.split()[3] for warning in plan.warnings] == ["data-2", "data-3"]
        assert all(file.residual and file.selection is None for file in plan.files)


def test_an_index_of_another_number_of_rows_is_not_believed(warehouse: MadeTables) -> None:
    made = table(warehouse, [Indexed(rows, SOUND, is_embedded=True) for rows in (4, 3)], 1)

    plan = made.plan(warehouse.service, "number = 7")

    assert unreadable(plan) == names_of(plan.files) == ["data-0"]
    assert "expected the 4 rows of the data file, found 3" in plan.warnings[0]


def test_where_only_rows_can_tell_rows_are_asked_whatever_is_wanted(warehouse: MadeTables) -> None:
    """Both parts have rows in the file, but no row has both."""
    content = index_of({NUMBER: [1, 2, 2], NAME: [b"a", b"b", b"b"]}, BITMAP)
    made = table(warehouse, [Indexed(3, content, is_embedded) for is_embedded in (True, False)], 1)

    for form in SelectionForm:
        assert not made.plan(warehouse.service, "number = 1 AND name = 'b'", selection=form).files
        assert len(made.plan(warehouse.service, "number = 2 AND name = 'b'", selection=form).files) == 2


@pytest.mark.parametrize(
    ("written", "reason", "warnings"),
    [
        (
            "upper(name) = 'B'",
            KeepReason.NOT_DECIDABLE,
            ["no file is pruned by upper(name) = 'B' (at position 0): upper is a function"],
        ),
        (
            "number = 1 AND upper(name) = 'B'",
            KeepReason.MATCHED,
            ["no file is pruned by upper(name) = 'B' (at position 15): upper is a function"],
        ),
        (
            "name = 20261102",
            KeepReason.NOT_DECIDABLE,
            ["no file is pruned by name = 20261102 (at position 0): name holds text"],
        ),
        (
            "name = '20261102'",
            KeepReason.NO_INDEX,
            ["1 files are kept undecided, since none of them has bounds or an index that decide name ="],
        ),
    ],
)
def test_a_reason_tells_whether_an_index_could_help(
    warehouse: MadeTables, written: str, reason: KeepReason, warnings: list[str]
) -> None:
    made = warehouse.make(FIELDS)
    made.commit([file_of("data", {NUMBER: [1]}, BITMAP, bounded=False)])

    plan = made.plan(warehouse.service, written)

    assert [file.reason for file in plan.files] == [reason]
    assert len(plan.warnings) == len(warnings)
    assert all(map(str.startswith, plan.warnings, warnings))


def test_a_plan_of_files_that_nobody_can_see_says_so(warehouse: MadeTables) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    made = warehouse.make(FIELDS, primary_key=FIELDS[:1], options=options)
    made.commit([entry(file_name="data", row_count=1, level=0, **no_statistics())])

    plan = made.plan(warehouse.service)

    assert (len(plan.files), plan.summary.files_invisible) == (0, 1)
    assert ["1 files are invisible" in each for each in plan.warnings] == [True]


def test_a_table_that_does_not_want_its_indexes_read_is_planned_without(warehouse: MadeTables) -> None:
    made = warehouse.make(FIELDS, options={"file-index.read.enabled": "false"})
    made.commit([file_of("data", {NUMBER: [1]}, BITMAP, bounded=False)])

    (file,) = made.plan(warehouse.service, "number = 7").files

    assert (file.reason, file.selection) == (KeepReason.NO_INDEX, None)


_FLOAT_TENTH = to_float32(0.1)


def schema(*columns: tuple[int, str, str]) -> TableSchema:
    return TableSchema(
        0, tuple(DataField(number, name, parse_type(written)) for number, name, written in columns)
    )


def rewritten(sql: str, now: TableSchema, written: TableSchema) -> BoundPredicate:
    return in_file_schema(bind(read_text(sql), now.fields), now, written)


def test_a_column_added_since_is_null_in_the_file() -> None:
    written, now = schema((0, "a", "INT")), schema((0, "a", "INT"), (1, "b", "INT"))

    assert rewritten("b IS NULL", now, written) == ALWAYS_TRUE
    for sql in ("b IS NOT NULL", "b = 1", "b <> 1", "b NOT IN (1, 2)", "b > 0"):
        assert rewritten(sql, now, written) == ALWAYS_FALSE


def test_a_column_dropped_and_added_again_is_another_one() -> None:
    written, now = schema((0, "a", "INT"), (1, "b", "INT")), schema((0, "a", "INT"), (2, "b", "INT"))

    assert rewritten("b = 1", now, written) == ALWAYS_FALSE
    assert rewritten("b IS NULL", now, written) == ALWAYS_TRUE


def test_a_renamed_column_is_asked_by_its_old_name() -> None:
    written, now = schema((0, "old", "INT")), schema((0, "new", "INT"))

    assert rewritten("new = 1", now, written) == BoundLeaf(Operator.EQUAL, written.fields[0], (1,))


def test_columns_that_swapped_names_are_not_confused() -> None:
    written = schema((0, "a", "INT"), (1, "b", "INT"))
    now = schema((0, "b", "INT"), (1, "a", "INT"))

    found = rewritten("a = 1 AND b = 2", now, written)

    a_is_now_b = BoundLeaf(Operator.EQUAL, written.fields[1], (1,))
    b_is_now_a = BoundLeaf(Operator.EQUAL, written.fields[0], (2,))
    assert found == BoundAnd((a_is_now_b, b_is_now_a))


def test_numbers_that_became_text_are_unknown() -> None:
    written, now = schema((0, "t", "INT")), schema((0, "t", "STRING"))

    for sql in ("t = '1'", "t > '1'", "t LIKE '1%'"):
        assert isinstance(rewritten(sql, now, written), Unknown)


def test_an_unknown_part_does_not_hide_what_is_known() -> None:
    written = schema((0, "t", "INT"), (1, "a", "INT"))
    now = schema((0, "t", "STRING"), (1, "a", "INT"))
    known = BoundLeaf(Operator.EQUAL, written.fields[1], (1,))

    both = rewritten("t = '1' AND a = 1", now, written)
    either = rewritten("t = '1' OR a = 1", now, written)

    assert isinstance(both, BoundAnd)
    assert known in both.children
    assert isinstance(either, BoundOr)
    assert matches(either, {0: 5, 1: 2}) is None


def test_a_key_of_a_renamed_map_is_asked_by_the_maps_old_name() -> None:
    written, now = schema((0, "old", "MAP<STRING, INT>")), schema((0, "new", "MAP<STRING, INT>"))
    key = DataField(0, "new[k]", parse_type("INT"))

    found = in_file_schema(BoundLeaf(Operator.EQUAL, key, (1,)), now, written)

    assert found == BoundLeaf(Operator.EQUAL, DataField(0, "old[k]", parse_type("INT")), (1,))


def test_a_key_of_a_map_whose_values_changed_type_is_unknown() -> None:
    written, now = schema((0, "m", "MAP<STRING, INT>")), schema((0, "m", "MAP<STRING, BIGINT>"))
    key = DataField(0, "m[k]", parse_type("BIGINT"))

    assert isinstance(in_file_schema(BoundLeaf(Operator.EQUAL, key, (1,)), now, written), Unknown)


def _scaled(digits: int) -> Callable[[Any], Any]:
    return lambda unscaled: int(unscaled * 10**digits)


_INTS = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-3, 3)
_LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | _INTS | st.sampled_from([-(1 << 31) - 1, 1 << 31])
_FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, _FLOAT_TENTH, math.nan, math.inf])
_DOUBLES = st.one_of(
    st.floats(),
    _FLOATS,
    _INTS.map(float),
    _FLOATS.map(lambda number: math.nextafter(number, 0.0)),
    st.sampled_from([0.1, 0.5, 1e300, 2147483647.5, -2147483648.5]),
)
_DECIMALS = st.integers(-(10**9) + 1, 10**9 - 1) | st.integers(-300, 300)
_WIDE_DECIMALS = st.integers(-(10**20) + 1, 10**20 - 1) | st.integers(-30_000, 30_000)
_COMPARISONS = (
    *(Operator.EQUAL, Operator.NOT_EQUAL, Operator.LESS_THAN, Operator.LESS_OR_EQUAL),
    *(Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL, Operator.IN, Operator.NOT_IN, Operator.BETWEEN),
    *(Operator.IS_NULL, Operator.IS_NOT_NULL),
)


@pytest.mark.parametrize(
    ("old_type", "new_type", "old_values", "literals", "cast"),
    [
        ("INT", "BIGINT", _INTS, _LONGS, int),
        ("INT", "DOUBLE", _INTS, _DOUBLES, float),
        ("FLOAT", "DOUBLE", _FLOATS, _DOUBLES, float),
        ("INT", "DECIMAL(20, 2)", _INTS, _WIDE_DECIMALS, _scaled(2)),
        ("DECIMAL(9, 2)", "DECIMAL(20, 4)", _DECIMALS, _WIDE_DECIMALS, _scaled(2)),
    ],
)
@given(data=st.data(), operator=st.sampled_from(_COMPARISONS))
def test_an_old_value_is_judged_as_its_cast(
    old_type: str,
    new_type: str,
    old_values: st.SearchStrategy[Any],
    literals: st.SearchStrategy[Any],
    cast: Callable[[Any], Any],
    operator: Operator,
    data: st.DataObject,
) -> None:
    written, now = schema((0, "c", old_type)), schema((0, "c", new_type))
    old = data.draw(st.none() | old_values)
    value = None if old is None else cast(old)
    near = literals if value is None else literals | st.just(value)
    original = leaf(operator, now.fields[0], data.draw(st.lists(near, min_size=2, max_size=4)))

    found = in_file_schema(original, now, written)

    assert matches(found, {0: old}) in (None, matches(original, {0: value})), str(found)


@pytest.mark.parametrize("written_type", ["CHAR(2)", "CHAR(4)", "VARCHAR(3)"])
def test_a_column_that_is_char_today_is_asked_for_every_form(written_type: str) -> None:
    written, now = schema((0, "c", written_type)), schema((0, "c", "CHAR(4)"))

    found = rewritten("c = 'c3'", now, written)

    assert found == BoundLeaf(Operator.IN, written.fields[0], (b"c3", b"c3 ", b"c3  "))


@pytest.mark.parametrize("today", ["STRING", "VARCHAR(8)"])
def test_a_column_that_was_char_once_is_asked_for_the_text_itself(today: str) -> None:
    # Readers leave the blanks that were stored.
    written, now = schema((0, "c", "CHAR(4)")), schema((0, "c", today))

    assert rewritten("c = 'c3'", now, written) == BoundLeaf(Operator.EQUAL, written.fields[0], (b"c3",))


@pytest.mark.parametrize("written_type", ["STRING", "CHAR(8)", "INT"])
def test_indexes_of_values_that_are_cut_today_are_not_asked(written_type: str) -> None:
    written, now = schema((0, "c", written_type)), schema((0, "c", "CHAR(4)"))

    assert isinstance(rewritten("c = 'abcd'", now, written), Unknown)

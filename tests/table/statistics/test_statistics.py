"""Statistics of files in the columns of a plan: held to their definition file by file, and case by case."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.predicates.model import BoundLeaf, Operator
from app.predicates.verdicts import Verdict, leaf_verdicts
from app.table import TableSchema
from app.table.manifests.manifest_entry import ManifestEntry, RowStatistics
from app.table.statistics.statistics import StatisticsRows, key_bounds, trusted_bounds, value_bounds
from app.types import DataField, Value, parse_type
from app.types.binary_row.row import read_row, serialize_row
from app.types.bytes_column import BytesColumn
from app.types.data_types import FLOATING_ROOTS
from tests.examples import examples
from tests.file_bounds import FileBounds, by_file, column_bounds
from tests.tables import entry, manifest

ROWS = 10
INT, STRING = parse_type("INT"), parse_type("STRING")


def schema(
    *columns: tuple[int, str, str], schema_id: int = 0, primary_keys: tuple[str, ...] = ()
) -> TableSchema:
    fields = tuple(DataField(number, name, parse_type(text)) for number, name, text in columns)
    return TableSchema(schema_id, fields, primary_keys=primary_keys)


def stored(
    types: list[Any], low: Sequence[Value | None], high: Sequence[Value | None], nulls: Sequence[int | None]
) -> RowStatistics:
    return RowStatistics(serialize_row(low, types), serialize_row(high, types), tuple(nulls))


def of_values(column: int, file_schema: TableSchema, present: TableSchema, **changes: Any) -> FileBounds:
    """Return what the value statistics of one file say of a column."""
    files = manifest([entry(row_count=ROWS, **changes)])
    (found,) = by_file(value_bounds(files, np.array([0]), present.by_id[column], lambda _: file_schema))
    return found


OLD = schema((0, "a", "INT"), (1, "b", "STRING"))
BOTH = stored([INT, STRING], [1, b"x"], [5, b"z"], [0, 2])


def test_columns_of_row_tracking_are_passed_over() -> None:
    some = stored([parse_type("BIGINT"), INT], [0, 1], [9, 5], [0, 0])
    found = of_values(0, OLD, OLD, value_statistics=some, write_columns=("_ROW_ID", "a"))
    assert found == FileBounds(1, 5, 0, ROWS)


@pytest.mark.parametrize(
    ("nulls", "known"), [([None, 2], None), ([11, 2], None), ([-1, 2], None), ([10, 2], 10), ([], None)]
)
def test_null_counts_that_make_no_sense_are_unknown(nulls: list[int | None], known: int | None) -> None:
    some = stored([INT, STRING], [1, b"x"], [5, b"z"], nulls)
    assert of_values(0, OLD, OLD, value_statistics=some).null_count == known


def test_an_unsafe_cast_leaves_only_what_nulls_say() -> None:
    narrowed = schema((0, "a", "TINYINT"), (1, "b", "INT"), schema_id=1)
    some = stored([INT, STRING], [1, None], [5, None], [0, ROWS])
    assert of_values(0, OLD, narrowed, value_statistics=some) == FileBounds(None, None, None, ROWS)
    assert of_values(1, OLD, narrowed, value_statistics=some) == FileBounds(None, None, ROWS, ROWS)


def test_columns_without_values_have_null_counts_only() -> None:
    nested = schema((0, "a", "ARRAY<INT>"))
    some = stored([parse_type("ARRAY<INT>")], [None], [None], [3])
    assert of_values(0, nested, nested, value_statistics=some) == FileBounds(None, None, 3, ROWS)


@pytest.mark.parametrize(
    "changes",
    [
        {"value_statistics_columns": ("a", "nope")},
        {"value_statistics_columns": ("a",)},
        {"value_statistics": RowStatistics(b"", b"", ())},
        {"value_statistics": RowStatistics(BOTH.min_values, BOTH.max_values, (0,))},
        {"value_statistics": RowStatistics(BOTH.min_values, BOTH.max_values[:-9], (0, 0))},
    ],
)
def test_statistics_that_do_not_fit_their_columns(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptMetadataError, match=r"data-1\.parquet"):
        of_values(0, OLD, OLD, **{"value_statistics": BOTH, **changes})


@pytest.mark.parametrize("wrong", [True, False])
def test_of_files_whose_statistics_are_dropped_only_their_schema_is_known(wrong: bool) -> None:
    """Statistics of another file need not even have the columns of this one."""
    strange = RowStatistics(b"strange", b"", (1, 2, 3, 4, 5)) if wrong else BOTH
    entries = [
        entry(row_count=ROWS, value_statistics=each, key_statistics=each) for each in (BOTH, strange, BOTH)
    ]
    files, dropped = manifest(entries), np.array([False, True, False])
    files.value_statistics = files.value_statistics.without(dropped)
    files.key_statistics = files.key_statistics.without(dropped)
    later = schema((0, "a", "INT"), (1, "b", "STRING"), (2, "c", "INT"), schema_id=1)
    keyed = schema((0, "a", "INT"), (1, "b", "STRING"), primary_keys=("a", "b"))
    rows = np.arange(3)

    of_a, of_c = (value_bounds(files, rows, later.by_id[column], lambda _: OLD) for column in (0, 2))
    of_key = key_bounds(files, rows, keyed.by_id[0], lambda _: keyed)

    known, nothing = FileBounds(1, 5, 0, ROWS), FileBounds(None, None, None, ROWS)
    assert by_file(of_a) == by_file(of_key) == [known, nothing, known]
    assert by_file(of_c) == [FileBounds(None, None, ROWS, ROWS)] * 3
    assert files.entry(1).file.value_statistics == RowStatistics(b"", b"", (None,) * len(strange.null_counts))


def test_keys() -> None:
    keyed = schema((0, "a", "INT"), (1, "b", "STRING"), (2, "c", "INT"), primary_keys=("b", "a"))
    statistics = stored([STRING, INT], [b"a", 1], [b"b", 2], [0, 0])
    files = manifest([entry(row_count=ROWS, key_statistics=statistics)])

    def of_keys(column: int) -> list[FileBounds]:
        return by_file(key_bounds(files, np.array([0]), keyed.by_id[column], lambda _: keyed))

    assert of_keys(0) == [FileBounds(1, 2, 0, ROWS)]
    assert of_keys(1) == [FileBounds(b"a", b"b", 0, ROWS)]
    assert of_keys(2) == [FileBounds(None, None, None, ROWS)]


SCHEMAS = (
    schema((0, "a", "INT"), (1, "b", "VARCHAR(9)"), (2, "r", "FLOAT"), (3, "d", "DATE")),
    schema((0, "a", "BIGINT"), (1, "name", "STRING"), (2, "r", "DOUBLE"), (4, "b", "INT"), schema_id=1),
    schema(
        (4, "b", "DECIMAL(30, 12)"),
        (0, "a", "BIGINT"),
        (3, "d", "TIMESTAMP(6)"),
        (1, "name", "STRING"),
        (2, "r", "DOUBLE"),
        schema_id=2,
    ),
)
PRESENT = SCHEMAS[-1]
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-5, 5),
    "VARCHAR": st.binary(max_size=9),
    "FLOAT": st.sampled_from([math.nan, -0.0, 1.5]),
    "DOUBLE": st.sampled_from([math.nan, -math.inf, 2.5]),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "DECIMAL": st.integers(-(10**30) + 1, 10**30 - 1) | st.integers(-5, 5),
    "TIMESTAMP": st.integers(-5, 5).map(lambda micros: micros * 1000)
    | st.sampled_from([-(10**6), 10**6, 2**63 // 10**6 * 10**6]),
}


@st.composite
def files(draw: st.DrawFn) -> ManifestEntry:
    written = draw(st.sampled_from(SCHEMAS))
    names = draw(st.none() | st.lists(st.sampled_from(sorted(written.by_name)), unique=True).map(tuple))
    columns = written.fields if names is None else [written.by_name[name] for name in names]
    values = st.tuples(*(st.none() | VALUES[column.type.root] for column in columns))
    count = st.none() | st.integers(0, 3)
    counts = st.lists(count, min_size=len(columns), max_size=len(columns))
    statistics = stored(
        [column.type for column in columns], draw(values), draw(values), draw(counts | st.builds(list))
    )
    dense = draw(st.booleans())
    return entry(
        schema_id=written.id,
        row_count=draw(st.integers(0, 3)),
        file_name=draw(st.sampled_from(["data-1.orc", "data-1.parquet", "x", "parquet"])),
        value_statistics=statistics,
        value_statistics_columns=names if dense else None,
        write_columns=None if dense else names,
    )


def definition(each: ManifestEntry, column: DataField) -> FileBounds:
    """Return what one file's statistics say of a column of ``PRESENT``."""
    file, written = each.file, SCHEMAS[each.file.schema_id]
    may_hold_nan = column.type.root in FLOATING_ROOTS and not file.file_name.endswith(".parquet")
    if column.id not in written.by_id:
        return FileBounds(None, None, file.row_count, file.row_count, may_hold_nan)
    names = file.value_statistics_columns
    if names is None:
        names = file.write_columns
    columns = list(written.fields) if names is None else [written.by_name[name] for name in names]
    ids = [one.id for one in columns]
    if column.id not in ids:
        return FileBounds(None, None, None, file.row_count, may_hold_nan)
    slot = ids.index(column.id)
    types = [one.type for one in columns]
    ends = [
        read_row(row, types)[slot]
        for row in (file.value_statistics.min_values, file.value_statistics.max_values)
    ]
    nulls = file.value_statistics.null_counts[slot] if file.value_statistics.null_counts else None
    if nulls is not None and nulls > file.row_count:
        nulls = None
    if any(isinstance(end, float) and math.isnan(end) for end in ends):
        ends = [None, None]
    # A single value that is the bounds is not NaN.
    may_hold_nan &= not (file.row_count == 1 and ends[0] is not None and ends[0] == ends[1])
    factors = {("INT", "DECIMAL"): 10**12, ("DATE", "TIMESTAMP"): 86_400 * 10**9}
    factor = factors.get((types[slot].root, column.type.root))
    if factor is not None:
        ends = [None if end is None else int(end) * factor for end in ends]
    if column.type.root == "TIMESTAMP" and file.file_name.endswith(".orc") and ends[1] is not None:
        ends[1] = int(ends[1]) + 999_999 * (int(ends[1]) % 1_000_000 == 0)
    return FileBounds(ends[0], ends[1], nulls, file.row_count, may_hold_nan)


@examples(150)
@given(st.lists(files(), max_size=6), st.data())
def test_many_files_at_once_are_read_like_each_by_itself(
    entries: list[ManifestEntry], data: st.DataObject
) -> None:
    columns = manifest(entries)
    rows = data.draw(st.lists(st.integers(0, len(entries) - 1), unique=True)) if entries else []
    read_before = StatisticsRows()
    for column in PRESENT.fields:
        bounds = value_bounds(columns, np.array(rows, np.int64), column, SCHEMAS.__getitem__, read_before)
        assert by_file(bounds) == [definition(entries[row], column) for row in rows]


RATIO = DataField(0, "ratio", parse_type("FLOAT"))
EQUALS_HALF = BoundLeaf(Operator.EQUAL, RATIO, (0.5,))
ABOVE_TEN = BoundLeaf(Operator.GREATER_THAN, RATIO, (10.0,))
IS_NAN = BoundLeaf(Operator.EQUAL, RATIO, (math.nan,))

FORMATS = [b"data-1.orc", b"data-1.avro", b"data-1.parquet"]


def verdicts(leaf: BoundLeaf, stated: FileBounds, names: list[bytes]) -> list[int]:
    bounds = column_bounds(RATIO.type, [stated] * len(names))
    found: list[int] = leaf_verdicts(leaf, trusted_bounds(bounds, RATIO.type, BytesColumn.of(names))).tolist()
    return found


@pytest.mark.parametrize("stated", [(math.nan, math.nan), (math.nan, 1.0), (0.0, math.nan)])
@pytest.mark.parametrize("leaf", [EQUALS_HALF, ABOVE_TEN, IS_NAN])
def test_a_bound_that_is_nan_says_nothing(stated: tuple[float, float], leaf: BoundLeaf) -> None:
    assert verdicts(leaf, FileBounds(*stated, 2, 48), FORMATS) == [Verdict.SOME] * 3


@pytest.mark.parametrize("leaf", [ABOVE_TEN, IS_NAN])
def test_only_of_parquet_the_maximum_has_no_nan_above_it(leaf: BoundLeaf) -> None:
    found = verdicts(leaf, FileBounds(0.0, 1.0, 0, 48), FORMATS)

    assert found == [Verdict.SOME, Verdict.SOME, Verdict.NONE]


def test_a_column_of_nulls_stays_decided_whatever_its_format() -> None:
    assert verdicts(EQUALS_HALF, FileBounds(None, None, 48, 48), FORMATS) == [Verdict.NONE] * 3


SECOND = 10**9
LATEST = 2**63 // 10**6 * 10**6


MICROS, NANOS = ("TIMESTAMP(6)", "TIMESTAMP_LTZ(4)"), ("TIMESTAMP(9)", "TIMESTAMP_LTZ(7)")


@pytest.mark.parametrize(
    ("names", "high", "in_orc", "elsewhere"),
    [
        (MICROS, SECOND, SECOND + 999_999, SECOND),
        (MICROS, 0, 999_999, 0),
        (MICROS, -SECOND, -SECOND + 999_999, -SECOND),
        (MICROS, LATEST, LATEST + 999_999, LATEST),
        (MICROS, SECOND + 1000, SECOND + 1000, SECOND + 1000),
        (MICROS, -1000, -1000, -1000),
        (MICROS, None, None, None),
        (NANOS, SECOND, SECOND + 999_999, SECOND + 999),
        (NANOS, SECOND + 5_000, SECOND + 5_999, SECOND + 5_999),
        (NANOS, -1_000, -1, -1),
        (NANOS, LATEST, LATEST + 999_999, LATEST + 999),
        (NANOS, SECOND + 1, SECOND + 1, SECOND + 1),
        (NANOS, None, None, None),
    ],
)
def test_a_maximum_of_whole_milliseconds_in_orc_and_of_whole_microseconds_stands_for_all_of_them(
    names: tuple[str, str], high: int | None, in_orc: int | None, elsewhere: int | None
) -> None:
    for data_type in map(parse_type, names):
        stated = FileBounds(-SECOND, high, 0, 5)

        found = trusted_bounds(column_bounds(data_type, [stated] * 3), data_type, BytesColumn.of(FORMATS))

        assert by_file(found) == [replace(stated, high=end) for end in (in_orc, elsewhere, elsewhere)]


@pytest.mark.parametrize("name", ["TIMESTAMP(3)", "TIMESTAMP_LTZ(0)", "DATE", "BIGINT"])
def test_columns_without_fractions_of_milliseconds_are_trusted_in_orc(name: str) -> None:
    bounds = column_bounds(parse_type(name), [FileBounds(0, SECOND, 0, 5)])

    assert trusted_bounds(bounds, parse_type(name), BytesColumn.of([b"data-1.orc"])) is bounds

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.table.bounds_cast import bounds_cast
from app.table.row_statistics import RowStatistics
from app.table.schema import TableSchema
from app.table.statistics import ColumnStatistics, key_range, key_statistics, value_statistics
from app.types import DataField, Value, parse_type
from app.types.binary_row import serialize_row
from tests.table.entries import data_file

ROWS = 10
INT, STRING = parse_type("INT"), parse_type("STRING")


def schema(
    *columns: tuple[int, str, str], schema_id: int = 0, primary_keys: tuple[str, ...] = ()
) -> TableSchema:
    fields = tuple(DataField(number, name, parse_type(text)) for number, name, text in columns)
    return TableSchema(schema_id, fields, primary_keys=primary_keys)


def stored(
    types: list[Any], low: list[Value | None], high: list[Value | None], nulls: list[int | None]
) -> RowStatistics:
    return RowStatistics(serialize_row(low, types), serialize_row(high, types), tuple(nulls))


OLD = schema((0, "a", "INT"), (1, "b", "STRING"))
BOTH = stored([INT, STRING], [1, b"x"], [5, b"z"], [0, 2])


def test_columns_of_the_same_schema() -> None:
    found = value_statistics(data_file(value_statistics=BOTH), OLD, OLD)
    assert found == {0: ColumnStatistics(1, 5, 0, ROWS), 1: ColumnStatistics(b"x", b"z", 2, ROWS)}


def test_columns_are_matched_by_id_and_not_by_name() -> None:
    swapped = schema((1, "a", "STRING"), (0, "b", "BIGINT"), schema_id=1)
    found = value_statistics(data_file(value_statistics=BOTH), OLD, swapped)
    assert found == {0: ColumnStatistics(1, 5, 0, ROWS), 1: ColumnStatistics(b"x", b"z", 2, ROWS)}


def test_a_name_given_again_to_a_new_column_says_nothing_of_the_old_one() -> None:
    again = schema((2, "a", "INT"), (1, "b", "STRING"), schema_id=1)
    found = value_statistics(data_file(value_statistics=BOTH), OLD, again)
    assert found[2] == ColumnStatistics(None, None, ROWS, ROWS)
    assert found[2].all_null
    assert set(found) == {1, 2}


def test_dense_statistics_leave_other_columns_unknown() -> None:
    file = data_file(value_statistics=stored([STRING], [b"x"], [b"z"], [2]), value_statistics_columns=("b",))
    found = value_statistics(file, OLD, OLD)
    assert found == {0: ColumnStatistics(None, None, None, ROWS), 1: ColumnStatistics(b"x", b"z", 2, ROWS)}
    assert not found[0].all_null


def test_no_statistics_at_all() -> None:
    found = value_statistics(data_file(value_statistics_columns=()), OLD, OLD)
    assert set(found.values()) == {ColumnStatistics(None, None, None, ROWS)}


def test_a_file_of_some_columns_says_nothing_of_the_others() -> None:
    file = data_file(value_statistics=stored([STRING], [b"x"], [b"z"], [2]), write_columns=("b",))
    found = value_statistics(file, OLD, OLD)
    assert found == {0: ColumnStatistics(None, None, None, ROWS), 1: ColumnStatistics(b"x", b"z", 2, ROWS)}


def test_columns_of_row_tracking_are_passed_over() -> None:
    types = [parse_type("BIGINT"), INT]
    file = data_file(value_statistics=stored(types, [0, 1], [9, 5], [0, 0]), write_columns=("_ROW_ID", "a"))
    assert value_statistics(file, OLD, OLD)[0] == ColumnStatistics(1, 5, 0, ROWS)


@pytest.mark.parametrize(
    ("nulls", "known"), [([None, 2], None), ([11, 2], None), ([-1, 2], None), ([10, 2], 10)]
)
def test_null_counts_that_make_no_sense_are_unknown(nulls: list[int | None], known: int | None) -> None:
    file = data_file(value_statistics=stored([INT, STRING], [1, b"x"], [5, b"z"], nulls))
    assert value_statistics(file, OLD, OLD)[0].null_count == known


def test_an_unsafe_cast_leaves_only_what_nulls_say() -> None:
    narrowed = schema((0, "a", "TINYINT"), (1, "b", "INT"), schema_id=1)
    file = data_file(value_statistics=stored([INT, STRING], [1, None], [5, None], [0, ROWS]))
    found = value_statistics(file, OLD, narrowed)
    assert found == {0: ColumnStatistics(None, None, None, ROWS), 1: ColumnStatistics(None, None, ROWS, ROWS)}


@pytest.mark.parametrize(
    "changes",
    [
        {"value_statistics_columns": ("b", "nope")},
        {"value_statistics_columns": ("b",)},
        {"value_statistics": RowStatistics(b"", b"", ())},
        {"value_statistics": RowStatistics(BOTH.min_values, BOTH.max_values, (0,))},
        {"value_statistics": RowStatistics(BOTH.min_values, BOTH.max_values[:-9], (0, 0))},
    ],
)
def test_statistics_that_do_not_fit_their_columns(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptMetadataError):
        value_statistics(data_file(**{"value_statistics": BOTH, **changes}), OLD, OLD)


def test_keys() -> None:
    keyed = schema((0, "a", "INT"), (1, "b", "STRING"), primary_keys=("b", "a"))
    types = [STRING, INT]
    file = data_file(
        key_statistics=stored(types, [b"a", 1], [b"b", 2], [0, 0]),
        min_key=serialize_row([b"a", 2], types),
        max_key=serialize_row([b"b", 1], types),
    )
    assert key_range(file, keyed) == ((b"a", 2), (b"b", 1))
    assert key_statistics(file, keyed, keyed) == {
        1: ColumnStatistics(b"a", b"b", 0, ROWS),
        0: ColumnStatistics(1, 2, 0, ROWS),
    }


class TestBoundsCast:
    @pytest.mark.parametrize(
        ("written", "present", "bound", "expected"),
        [
            ("INT", "INT NOT NULL", 7, 7),
            ("TINYINT", "BIGINT", -7, -7),
            ("INT", "DOUBLE", 2147483647, 2147483647.0),
            ("SMALLINT", "FLOAT", 32767, 32767.0),
            ("INT", "DECIMAL(12, 2)", 7, 700),
            ("FLOAT", "DOUBLE", 1.5, 1.5),
            ("DECIMAL(10, 2)", "DECIMAL(12, 4)", 123, 12300),
            ("CHAR(3)", "STRING", b"abc", b"abc"),
            ("VARCHAR(3)", "VARCHAR(9)", b"abc", b"abc"),
            ("BINARY(3)", "BYTES", b"abc", b"abc"),
            ("DATE", "TIMESTAMP(6)", 1, 86_400_000_000_000),
            ("TIMESTAMP(3)", "TIMESTAMP(9)", 1_000_000, 1_000_000),
            ("TIME(0)", "TIME(3)", 1000, 1000),
        ],
    )
    def test_safe(self, written: str, present: str, bound: Value, expected: Value) -> None:
        cast = bounds_cast(parse_type(written), parse_type(present))
        assert cast is not None
        assert cast(bound) == expected
        assert type(cast(bound)) is type(expected)

    @pytest.mark.parametrize(
        ("written", "present"),
        [
            ("BIGINT", "INT"),
            ("BIGINT", "DOUBLE"),
            ("INT", "FLOAT"),
            ("INT", "DECIMAL(11, 2)"),
            ("INT", "STRING"),
            ("DOUBLE", "FLOAT"),
            ("DOUBLE", "BIGINT"),
            ("DECIMAL(10, 2)", "DECIMAL(10, 4)"),
            ("DECIMAL(10, 2)", "DECIMAL(12, 1)"),
            ("DECIMAL(10, 2)", "DOUBLE"),
            ("STRING", "VARCHAR(3)"),
            ("STRING", "BYTES"),
            ("STRING", "INT"),
            ("TIMESTAMP(9)", "TIMESTAMP(3)"),
            ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
            ("TIMESTAMP(3)", "DATE"),
            ("DATE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
            ("BOOLEAN", "INT"),
        ],
    )
    def test_unsafe(self, written: str, present: str) -> None:
        assert bounds_cast(parse_type(written), parse_type(present)) is None

    @given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
    def test_order_is_kept(self, first: int, second: int) -> None:
        for present in ("BIGINT", "DOUBLE", "DECIMAL(14, 4)"):
            cast = bounds_cast(INT, parse_type(present))
            assert cast is not None
            assert (cast(first) < cast(second)) == (first < second)  # type: ignore[operator]

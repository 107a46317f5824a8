"""Filters in the schema that a file was written with, against rows cast to the schema of the plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.scan.schema_evolution import in_file_schema
from app.predicates.binding.binding import bind
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
from app.predicates.sql.reader import read_sql
from app.predicates.verdicts import matches
from app.table.schema.schema import TableSchema
from app.types import DataField, parse_type
from app.types.values import to_float32
from tests.planning.strategies import leaf

_FLOAT_TENTH = to_float32(0.1)


def schema(*columns: tuple[int, str, str]) -> TableSchema:
    return TableSchema(
        0, tuple(DataField(number, name, parse_type(written)) for number, name, written in columns)
    )


def rewritten(sql: str, now: TableSchema, written: TableSchema) -> BoundPredicate:
    return in_file_schema(bind(read_sql(sql), now.fields), now, written)


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


def test_a_column_dropped_since_is_nobodys_concern() -> None:
    written, now = schema((0, "a", "INT"), (1, "gone", "INT")), schema((0, "a", "INT"))

    assert rewritten("a = 1", now, written) == BoundLeaf(Operator.EQUAL, written.fields[0], (1,))


@pytest.mark.parametrize(
    ("sql", "in_old_type"),
    [
        ("wide = 4294967296", ALWAYS_FALSE),
        ("wide > 4294967296", ALWAYS_FALSE),
        ("wide IN (4294967296, 8589934592)", ALWAYS_FALSE),
    ],
)
def test_a_literal_beyond_the_old_integer_type_decides(sql: str, in_old_type: BoundPredicate) -> None:
    written, now = schema((0, "wide", "INT")), schema((0, "wide", "BIGINT"))

    assert rewritten(sql, now, written) == in_old_type


@pytest.mark.parametrize("sql", ["wide < 4294967296", "wide <> 4294967296", "wide >= -4294967296"])
def test_a_comparison_that_every_old_value_passes_still_leaves_nulls_out(sql: str) -> None:
    written, now = schema((0, "wide", "INT")), schema((0, "wide", "BIGINT"))

    found = rewritten(sql, now, written)

    assert matches(found, {0: None}) is False
    assert all(matches(found, {0: value}) for value in (-(1 << 31), 0, (1 << 31) - 1))


def test_a_double_literal_that_is_no_float_equals_no_old_value() -> None:
    written, now = schema((0, "d", "FLOAT")), schema((0, "d", "DOUBLE"))

    equal = rewritten("d = 0.1D", now, written)
    greater = rewritten("d > 0.1D", now, written)

    assert matches(equal, {0: _FLOAT_TENTH}) is False
    assert matches(greater, {0: _FLOAT_TENTH}) is True
    assert matches(rewritten("d < 0.1D", now, written), {0: _FLOAT_TENTH}) is False


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
    Operator.EQUAL,
    Operator.NOT_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN,
    Operator.GREATER_OR_EQUAL,
    Operator.IN,
    Operator.NOT_IN,
    Operator.BETWEEN,
    Operator.IS_NULL,
    Operator.IS_NOT_NULL,
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

    assert matches(found, {0: old}) is matches(original, {0: value}), str(found)


@given(value=_FLOATS.filter(math.isfinite))
def test_the_float_that_widening_kept_exact_still_equals_itself(value: float) -> None:
    written, now = schema((0, "d", "FLOAT")), schema((0, "d", "DOUBLE"))
    assert Fraction(value) == Fraction(to_float32(value))

    found = in_file_schema(BoundLeaf(Operator.EQUAL, now.fields[0], (value,)), now, written)

    assert matches(found, {0: value}) is True


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

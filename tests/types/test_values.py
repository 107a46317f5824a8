import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types import parse_type, sql_key
from app.types.values import integer_range, is_comparable, nearest_float32, next_float32, to_float32


def test_nan_is_one_value_above_all_others() -> None:
    key: Any = sql_key(parse_type("DOUBLE"))

    assert key(math.nan) == key(-math.nan)
    assert key(math.nan) > key(math.inf)
    assert key(-0.0) == key(0.0)


def test_strings_stand_in_the_order_of_their_bytes() -> None:
    key: Any = sql_key(parse_type("STRING"))

    assert key("\uffff".encode()) < key("😀".encode())


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("TINYINT", -128, 127),
        ("SMALLINT", -32_768, 32_767),
        ("INT", -(2**31), 2**31 - 1),
        ("BIGINT", -(2**63), 2**63 - 1),
    ],
)
def test_ranges_of_integers(written: str, low: int, high: int) -> None:
    assert integer_range(parse_type(written)) == (low, high)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_nothing_lies_between_neighbours(value: float) -> None:
    above = next_float32(value, math.inf)

    assert above > value
    assert next_float32(above, -math.inf) == value
    middle = value / 2 + above / 2
    assert math.isinf(above) or to_float32(middle) in (value, above)


@given(st.floats(width=32, min_value=-(2.0**126), max_value=2.0**126))
def test_numbers_are_rounded_once(value: float) -> None:
    above = next_float32(value, math.inf)
    middle, hair = (Fraction(value) + Fraction(above)) / 2, Fraction(1, 2**1000)

    assert nearest_float32(middle - hair) == value
    assert nearest_float32(middle + hair) == above
    assert nearest_float32(middle) == to_float32(float(middle))


def test_the_ends_of_32_bits() -> None:
    assert to_float32(1e39) == math.inf
    assert to_float32(-1e39) == -math.inf
    assert nearest_float32(Fraction(10**400)) == math.inf
    assert nearest_float32(Fraction(-(10**400))) == -math.inf
    assert next_float32(math.inf, math.inf) == math.inf
    assert next_float32(0.0, -math.inf) == -(2.0**-149)
    assert math.isnan(next_float32(math.nan, math.inf))


@pytest.mark.parametrize(
    ("written", "expected"),
    [("INT", True), ("BYTES", True), ("ARRAY<INT>", False), ("ROW<a INT>", False), ("VARIANT", False)],
)
def test_what_can_be_compared(written: str, *, expected: bool) -> None:
    assert is_comparable(parse_type(written)) is expected

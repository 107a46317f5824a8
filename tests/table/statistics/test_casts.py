"""Bounds follow a changed type only where that keeps every value and the order of all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.table.statistics.casts import bounds_cast
from app.types import Value, parse_type
from tests.file_bounds import value_array


@pytest.mark.parametrize(
    ("written", "present", "bound", "expected"),
    [
        ("INT", "INT NOT NULL", 7, 7),
        ("TINYINT", "BIGINT", -7, -7),
        ("INT", "DOUBLE", 2147483647, 2147483647.0),
        ("SMALLINT", "FLOAT", 32767, 32767.0),
        ("INT", "DECIMAL(12, 2)", 7, 700),
        ("BIGINT", "DECIMAL(38, 19)", 7, 7 * 10**19),
        ("BIGINT", "DECIMAL(38, 19)", 0, 0),
        ("FLOAT", "DOUBLE", 1.5, 1.5),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", 123, 12300),
        ("DECIMAL(10, 2)", "DECIMAL(38, 20)", -123, -123 * 10**18),
        ("DECIMAL(30, 2)", "DECIMAL(38, 4)", 2**70, 2**70 * 100),
        ("CHAR(3)", "STRING", b"abc", b"abc"),
        ("VARCHAR(3)", "VARCHAR(9)", b"abc", b"abc"),
        ("BINARY(3)", "BYTES", b"abc", b"abc"),
        ("DATE", "TIMESTAMP(6)", 1, 86_400_000_000_000),
        ("DATE", "TIMESTAMP(6)", -(2**31), -(2**31) * 86_400_000_000_000),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", 1_000_000, 1_000_000),
        ("TIME(0)", "TIME(3)", 1000, 1000),
    ],
)
def test_safe(written: str, present: str, bound: Value, expected: Value) -> None:
    cast = bounds_cast(parse_type(written), parse_type(present))
    assert cast is not None
    (found,) = cast(value_array(parse_type(written), [bound])).tolist()
    assert found == expected
    assert type(found) is type(expected)


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
def test_unsafe(written: str, present: str) -> None:
    assert bounds_cast(parse_type(written), parse_type(present)) is None


INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(INTEGERS, min_size=2, max_size=2),
    st.sampled_from(["BIGINT", "DECIMAL(38, 19)", "DECIMAL(24, 4)"]),
)
def test_order_is_kept(bounds: list[Value], present: str) -> None:
    cast = bounds_cast(parse_type("BIGINT"), parse_type(present))
    assert cast is not None
    first, second = cast(value_array(parse_type("BIGINT"), bounds)).tolist()
    assert (first < second) == (bounds[0] < bounds[1])  # type: ignore[operator] # both are integers

"""Arrays of values compare as their values do, one by one, under SQL's order."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types import DataType, Value, parse_type, sql_key
from app.types.values import (
    concat,
    count_below,
    count_up_to,
    equal,
    group_rows,
    less,
    memory_bytes,
    placeholders,
    starts_with,
)
from tests.examples import examples
from tests.file_bounds import value_array

VALUES: dict[str, st.SearchStrategy[Value]] = {
    "BOOLEAN": st.booleans(),
    "BIGINT": st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    "DECIMAL(38, 0)": st.integers(-3, 3) | st.sampled_from([-(2**63) - 1, 2**63, 10**37, -(10**37)]),
    "DOUBLE": st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5]),
    "STRING": st.binary(max_size=3) | st.sampled_from([b"", b"\0", b"a", b"a\0", b"\xff"]),
}


@st.composite
def lists_of_one_type(draw: st.DrawFn) -> tuple[DataType, list[Value], list[Value]]:
    written = draw(st.sampled_from(sorted(VALUES)))
    length = draw(st.integers(0, 12))
    lists = st.lists(VALUES[written], min_size=length, max_size=length)
    return parse_type(written), draw(lists), draw(lists)


@examples(300)
@given(lists_of_one_type())
def test_comparing_two_arrays(case: tuple[DataType, list[Value], list[Value]]) -> None:
    data_type, left, right = case
    key: Any = sql_key(data_type)
    arrays = value_array(data_type, left), value_array(data_type, right)
    pairs = list(zip(map(key, left), map(key, right), strict=True))

    assert less(*arrays).tolist() == [one < other for one, other in pairs]
    assert equal(*arrays).tolist() == [one == other for one, other in pairs]


@examples(300)
@given(lists_of_one_type())
def test_comparing_an_array_with_one_value(case: tuple[DataType, list[Value], list[Value]]) -> None:
    data_type, values, literals = case
    key: Any = sql_key(data_type)
    array = value_array(data_type, values)

    for literal in literals:
        assert less(array, literal).tolist() == [key(value) < key(literal) for value in values]
        assert less(literal, array).tolist() == [key(literal) < key(value) for value in values]


@examples(300)
@given(lists_of_one_type())
def test_counting_literals(case: tuple[DataType, list[Value], list[Value]]) -> None:
    data_type, values, unordered = case
    key: Any = sql_key(data_type)
    literals = [each for _, each in sorted({key(each): each for each in unordered}.items())]
    array = value_array(data_type, values)

    assert count_below(array, literals).tolist() == [
        sum(key(literal) < key(value) for literal in literals) for value in values
    ]
    assert count_up_to(array, literals).tolist() == [
        sum(key(literal) <= key(value) for literal in literals) for value in values
    ]


def test_literals_beyond_the_array_of_integers_are_counted() -> None:
    literals = [-(2**70), -(2**63), 0, 2**63 - 1, 2**63, 2**70]
    array = np.array([-(2**63), 0, 2**63 - 1])

    assert count_below(array, literals).tolist() == [1, 2, 3]
    assert count_up_to(array, literals).tolist() == [2, 3, 4]


def test_nulls_of_strings_are_never_proven() -> None:
    array = pa.array([None, b"ab"], pa.large_binary())

    assert less(array, b"z").tolist() == [False, True]
    assert equal(array, array).tolist() == [False, True]
    assert starts_with(array, b"a").tolist() == [False, True]
    assert starts_with(array, b"").tolist() == [False, True]


@pytest.mark.parametrize("written", sorted(VALUES))
def test_taking_and_joining(written: str) -> None:
    data_type = parse_type(written)
    values: list[Value] = [b"one", b"", b"three"] if written == "STRING" else [1, 0, 1]
    array = value_array(data_type, values)

    joined = concat([array.take(np.array([2, 0])), array])

    assert joined.tolist() == [values[2], values[0], *values]


def test_integers_that_fit_join_with_those_that_do_not() -> None:
    joined = concat([np.array([1]), np.array([2**70], object)])

    assert joined.tolist() == [1, 2**70]
    assert less(joined, 5).tolist() == [True, False]
    assert memory_bytes(joined) > memory_bytes(np.array([1, 2]))


@pytest.mark.parametrize("written", [*VALUES, "FLOAT", "BYTES", "DATE", "TIMESTAMP(9)", "ARRAY<INT>"])
def test_placeholders_join_with_values(written: str) -> None:
    data_type = parse_type(written)
    some: Value = b"x" if written in ("STRING", "BYTES") else True if written == "BOOLEAN" else 1

    joined = concat([placeholders(data_type, 2), value_array(data_type, [some])])

    assert len(joined) == 3
    assert joined.tolist()[2] == some


CODES = st.integers(-1, 1) | st.sampled_from([-(2**63), 2**63 - 1])


@given(st.lists(st.tuples(CODES, CODES, st.just(7)), max_size=12))
def test_groups(rows: list[tuple[int, int, int]]) -> None:
    codes = np.array(rows, np.int64).reshape(len(rows), 3)

    groups = [group.tolist() for group in group_rows(*codes.T)]

    assert sorted(row for group in groups for row in group) == list(range(len(rows)))
    assert all(group == sorted(group) for group in groups)
    assert all(len({rows[row] for row in group}) == 1 for group in groups)
    assert len(groups) == len(set(rows))

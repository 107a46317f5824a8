"""Pinned keys against brute force: no row that matches has a key that is not among them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.keys.candidates import MAX_KEYS, pinned_keys
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
from app.predicates.verdicts import matches
from app.types import DataField, Value
from tests.planning.strategies import FIELDS, NAME, NUMBER, RATIO, leaf, pool, predicates

_ALL_ROWS = [
    dict(zip((field.id for field in FIELDS), values, strict=True))
    for values in product(*((None, *pool(field.type)) for field in FIELDS))
]


def equals(field: DataField, *values: Value) -> BoundLeaf:
    return leaf(Operator.IN, field, values)


def stored(key: Sequence[object]) -> tuple[str, ...]:
    """A key as its bytes tell it apart: the two zeros differ."""
    return tuple(repr(value) for value in key)


def matching_keys(predicate: BoundPredicate, fields: Sequence[DataField]) -> Iterator[tuple[str, ...]]:
    for row in _ALL_ROWS:
        if matches(predicate, row) is not False:
            yield stored([row[field.id] for field in fields])


@given(
    predicate=predicates(with_unknown=True),
    fields=st.lists(st.sampled_from(FIELDS), min_size=1, unique_by=lambda field: field.id),
)
def test_every_matching_row_has_a_pinned_key(predicate: BoundPredicate, fields: list[DataField]) -> None:
    keys = pinned_keys(predicate, fields)

    if keys is not None:
        assert set(matching_keys(predicate, fields)) <= {stored(key) for key in keys}


@given(
    per_field=st.tuples(
        *(st.lists(st.sampled_from(pool(field.type)), min_size=1, max_size=3) for field in (NUMBER, NAME))
    )
)
def test_equalities_of_every_column_pin_just_their_product(per_field: tuple[list[Value], ...]) -> None:
    predicate = BoundAnd((equals(NUMBER, *per_field[0]), equals(NAME, *per_field[1])))

    keys = pinned_keys(predicate, (NUMBER, NAME))

    assert keys is not None
    assert set(keys) == set(product(*per_field))
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("literal", [0.0, -0.0])
def test_zero_pins_both_of_its_stored_forms(literal: float) -> None:
    keys = pinned_keys(equals(RATIO, literal), (RATIO,))

    assert keys is not None
    assert sorted(map(stored, keys)) == [("-0.0",), ("0.0",)]


@pytest.mark.parametrize("others", [(), (1.5,)])
def test_nan_pins_nothing(others: tuple[float, ...]) -> None:
    assert pinned_keys(equals(RATIO, math.nan, *others), (RATIO,)) is None


def test_a_contradiction_pins_no_key() -> None:
    assert pinned_keys(BoundAnd((equals(NUMBER, 1), equals(NUMBER, 2))), (NUMBER,)) == []
    assert pinned_keys(ALWAYS_FALSE, FIELDS) == []


@pytest.mark.parametrize(
    "predicate",
    [
        ALWAYS_TRUE,
        Unknown("f(number) = 1"),
        BoundLeaf(Operator.BETWEEN, NUMBER, (1, 2)),
        BoundLeaf(Operator.IS_NULL, NUMBER),
        equals(NAME, b"a"),
        BoundOr((equals(NUMBER, 1), equals(NAME, b"a"))),
        BoundOr((equals(NUMBER, 1), Unknown("f(number)"))),
    ],
    ids=str,
)
def test_what_leaves_a_column_open_pins_nothing(predicate: BoundPredicate) -> None:
    assert pinned_keys(predicate, (NUMBER,)) is None


def test_an_unknown_part_beside_an_equality_leaves_the_equality_to_pin() -> None:
    assert pinned_keys(BoundAnd((equals(NUMBER, 1), Unknown("f(name)"))), (NUMBER,)) == [(1,)]


def test_more_keys_than_are_worth_trying_pin_nothing() -> None:
    many = BoundLeaf(Operator.IN, NUMBER, tuple(range(MAX_KEYS)))
    too_many = BoundLeaf(Operator.IN, NUMBER, tuple(range(MAX_KEYS + 1)))
    too_large_a_product = BoundAnd((many, equals(NAME, b"a", b"ab")))

    assert pinned_keys(many, (NUMBER,)) == [(number,) for number in range(MAX_KEYS)]
    assert pinned_keys(too_many, (NUMBER,)) is None
    assert pinned_keys(too_large_a_product, (NUMBER, NAME)) is None

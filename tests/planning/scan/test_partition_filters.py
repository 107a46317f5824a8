"""Filters inside a partition, and filters cut down to some columns, against whole rows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.planning.scan.partition_pruning import only_on, specialise
from app.predicates.model import (
    BoundLeaf,
    BoundPredicate,
    Constant,
    leaves,
)
from tests.planning.strategies import FIELDS, predicates, rows
from tests.row_matches import matches


def inside(predicate: BoundPredicate, partition: dict[int, Any]) -> BoundPredicate:
    """The filter inside of a partition, each of its tests on partition columns decided by brute force."""
    tests = [each for each in leaves(predicate) if isinstance(each, BoundLeaf)]
    decided = {id(test): matches(test, partition) is True for test in tests if test.field.id in partition}
    return specialise(predicate, decided)


def field_ids(predicate: BoundPredicate) -> set[int]:
    """Ids of the columns that a filter tests."""
    return {each.field.id for each in leaves(predicate) if isinstance(each, BoundLeaf)}


_SOME_IDS = st.sets(st.sampled_from([field.id for field in FIELDS])).map(frozenset)


@given(predicate=predicates(with_unknown=True), row=rows(), partition_ids=_SOME_IDS)
def test_inside_its_partition_a_row_is_judged_as_before(
    predicate: BoundPredicate, row: dict[int, Any], partition_ids: frozenset[int]
) -> None:
    partition = {each: row[each] for each in partition_ids}

    assert matches(inside(predicate, partition), row) is matches(predicate, row)


@given(predicate=predicates(), row=rows(), partition_ids=_SOME_IDS)
def test_no_partition_column_is_left(
    predicate: BoundPredicate, row: dict[int, Any], partition_ids: frozenset[int]
) -> None:
    left = inside(predicate, {each: row[each] for each in partition_ids})

    assert not field_ids(left) & partition_ids
    if field_ids(predicate) <= partition_ids:
        assert isinstance(left, Constant)


@given(predicate=predicates(with_unknown=True), row=rows(), kept_ids=_SOME_IDS)
def test_what_satisfies_the_filter_satisfies_its_part_on_some_columns(
    predicate: BoundPredicate, row: dict[int, Any], kept_ids: frozenset[int]
) -> None:
    part = only_on(predicate, kept_ids)

    assert field_ids(part) <= kept_ids
    if matches(predicate, row) is not False:
        assert matches(part, {each: row[each] for each in kept_ids}) is True


@given(predicate=predicates(), row=rows())
def test_the_part_on_all_columns_is_the_filter(predicate: BoundPredicate, row: dict[int, Any]) -> None:
    assert matches(only_on(predicate, frozenset(range(len(FIELDS)))), row) is matches(predicate, row)

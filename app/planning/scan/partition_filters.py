"""A filter as seen inside one partition.

Every file of a partition has the same values in the partition columns, so the leaves on those columns are
decided for the partition; what remains is the filter on the other columns. This is partition pruning (the
filter became false), and more: ``(dt = 'a' AND x = 1) OR (dt = 'b' AND x = 2)`` is ``x = 1`` inside
``dt = 'a'``, which statistics, buckets and indexes can then use.

Filters nest deeply; ``map`` walks them with one Python frame a level, where a comprehension would take two.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import assert_never

from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Constant,
    Unknown,
)
from app.predicates.simplify import conjunction, disjunction


def specialise(predicate: BoundPredicate, decided: Mapping[int, bool]) -> BoundPredicate:
    """The filter with the leaves on partition columns decided.

    Args:
        predicate: the filter, bound to the planning schema.
        decided: whether a leaf holds in the partition, by the ``id`` of the leaf: equal leaves may stand in
            a filter more than once, and comparing long lists of literals costs more than deciding twice.
    """
    match predicate:
        case BoundLeaf():
            holds = decided.get(id(predicate))
            return predicate if holds is None else ALWAYS_TRUE if holds else ALWAYS_FALSE
        case BoundAnd(children):
            return conjunction(list(map(partial(specialise, decided=decided), children)))
        case BoundOr(children):
            return disjunction(list(map(partial(specialise, decided=decided), children)))
        case Constant() | Unknown():
            return predicate
        case _:
            assert_never(predicate)


def only_on(predicate: BoundPredicate, field_ids: frozenset[int]) -> BoundPredicate:
    """A weaker filter that reads the given columns only: what satisfies the filter satisfies it."""
    match predicate:
        case BoundLeaf(field=field):
            return predicate if field.id in field_ids else ALWAYS_TRUE
        case BoundAnd(children):
            return conjunction(list(map(partial(only_on, field_ids=field_ids), children)))
        case BoundOr(children):
            return disjunction(list(map(partial(only_on, field_ids=field_ids), children)))
        case Constant():
            return predicate
        case Unknown():
            return ALWAYS_TRUE
        case _:
            assert_never(predicate)

"""Tests of a column by a literal whose place is :class:`app.predicates.places.Regions`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from app.predicates.model import BoundLeaf, BoundPredicate, Operator
from app.predicates.places import united
from app.predicates.simplify import conjunction, disjunction

if TYPE_CHECKING:
    from app.predicates.places import Regions, Stretch
    from app.types import DataField

_LESS: Final = frozenset({Operator.LESS_THAN, Operator.LESS_OR_EQUAL, Operator.NOT_EQUAL})
_EQUAL: Final = frozenset({Operator.LESS_OR_EQUAL, Operator.EQUAL, Operator.GREATER_OR_EQUAL})
_GREATER: Final = frozenset({Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL, Operator.NOT_EQUAL})


def in_regions(operator: Operator, field: DataField, regions: Regions) -> BoundPredicate:
    """A comparison by ``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=``: the value lies in one of its regions."""
    chosen = chain(
        regions.less if operator in _LESS else (),
        regions.equal if operator in _EQUAL else (),
        regions.greater if operator in _GREATER else (),
    )
    return disjunction([_in_stretch(field, stretch) for stretch in united(chosen)])


def _in_stretch(field: DataField, stretch: Stretch) -> BoundPredicate:
    low, high = stretch
    if low is None and high is None:
        return BoundLeaf(Operator.IS_NOT_NULL, field)
    if low is not None and high == low + 1:
        return BoundLeaf(Operator.EQUAL, field, (low,))
    parts = []
    if low is not None:
        parts.append(BoundLeaf(Operator.GREATER_OR_EQUAL, field, (low,)))
    if high is not None:
        parts.append(BoundLeaf(Operator.LESS_THAN, field, (high,)))
    return conjunction(parts)

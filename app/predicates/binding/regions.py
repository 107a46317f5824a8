"""Tests of a column by a literal whose place is :class:`app.predicates.binding.places.Regions`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from app.predicates.binding.places import Stretch, overlap, united
from app.predicates.model import NEGATIONS, BoundLeaf, BoundPredicate, Operator
from app.predicates.simplify import disjunction

if TYPE_CHECKING:
    from app.predicates.binding.places import Regions
    from app.types import DataField

_LESS: Final = frozenset({Operator.LESS_THAN, Operator.LESS_OR_EQUAL, Operator.NOT_EQUAL})
_EQUAL: Final = frozenset({Operator.LESS_OR_EQUAL, Operator.EQUAL, Operator.GREATER_OR_EQUAL})
_GREATER: Final = frozenset({Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL, Operator.NOT_EQUAL})


def in_regions(operator: Operator, field: DataField, regions: Regions) -> BoundPredicate:
    """A comparison by ``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=``: the value lies in one of its regions."""
    return disjunction([_in_stretch(field, stretch) for stretch in _chosen(operator, regions)])


def in_doubt(operator: Operator, regions: Regions) -> bool:
    """Whether a value satisfies the comparison by one meaning of the literal, and by another does not."""
    others = _chosen(NEGATIONS[operator], regions)
    return any(overlap(one, other) for one in _chosen(operator, regions) for other in others)


def _chosen(operator: Operator, regions: Regions) -> list[Stretch]:
    return united(
        chain(
            regions.less if operator in _LESS else (),
            regions.equal if operator in _EQUAL else (),
            regions.greater if operator in _GREATER else (),
        )
    )


def _in_stretch(field: DataField, stretch: Stretch) -> BoundPredicate:
    match stretch:
        case Stretch(low=int(low), high=int(high)) if high > low + 1:
            return BoundLeaf(Operator.BETWEEN, field, (low, high - 1))
        case Stretch(low=int(low), high=int()):
            return BoundLeaf(Operator.EQUAL, field, (low,))
        case Stretch(low=int(low)):
            return BoundLeaf(Operator.GREATER_OR_EQUAL, field, (low,))
        case Stretch(high=int(high)):
            return BoundLeaf(Operator.LESS_THAN, field, (high,))
        case _:
            return BoundLeaf(Operator.IS_NOT_NULL, field)

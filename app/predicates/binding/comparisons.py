"""Binds one test of one column to an equivalent predicate.

The position of the literal (:mod:`app.predicates.binding.places`) turns a comparison into one with a value of
the column's type, or decides it for every value that is not NULL. With ``b`` and ``a`` the values below and
above a gap:

========  ==============  ==================  ==================
test      exact value v   gap                 gap beyond an end
========  ==============  ==================  ==================
``=``     ``= v``         false               false
``<>``    ``<> v``        IS NOT NULL         IS NOT NULL
``<``     ``< v``         ``<= b``            false or IS NOT NULL
``<=``    ``<= v``        ``<= b``            false or IS NOT NULL
``>``     ``> v``         ``>= a``            false or IS NOT NULL
``>=``    ``>= v``        ``>= a``            false or IS NOT NULL
========  ==============  ==================  ==================

A literal whose place is regions of values (:class:`app.predicates.binding.places.Regions`) becomes tests of
stretches. Where a literal may mean several things, the result covers all of them and is joined with an
unknown part, so that nothing counts as proven.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Final

from app.errors import FilterError
from app.predicates.binding.fitting import are_rounded, fit, fit_list
from app.predicates.binding.places import Doubt, Exact, Gap, Nowhere, Place, Regions, Stretch, overlap, united
from app.predicates.binding.reasons import why_undecided
from app.predicates.binding.time_fitting import TIME_ROOTS, as_instants, shown_alike
from app.predicates.like import Wildcard, read_pattern, write_pattern
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    NEGATIONS,
    BoundLeaf,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.simplify import conjunction, disjunction, value_list
from app.predicates.unbound import Leaf, Literal, LiteralKind
from app.types import FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, DataField, TypeRoot, Value, sql_key, to_json
from app.types.session_zone import SessionZone
from app.types.values import nearest_float32

_LESS: Final = frozenset({Operator.LESS_THAN, Operator.LESS_OR_EQUAL, Operator.NOT_EQUAL})
_EQUAL: Final = frozenset({Operator.LESS_OR_EQUAL, Operator.EQUAL, Operator.GREATER_OR_EQUAL})
_GREATER: Final = frozenset({Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL, Operator.NOT_EQUAL})
_ORDERS: Final = (_LESS | _EQUAL | _GREATER) - {Operator.EQUAL, Operator.NOT_EQUAL}


def in_regions(operator: Operator, field: DataField, regions: Regions) -> BoundPredicate:
    """Bind a comparison by ``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=`` to the regions that satisfy it."""
    return disjunction([in_stretch(field, stretch) for stretch in _chosen(operator, regions)])


def in_doubt(operator: Operator, regions: Regions) -> bool:
    """Return True if some value satisfies the comparison by one meaning of the literal but not by another."""
    opposites = _chosen(NEGATIONS[operator], regions)
    return any(overlap(one, other) for one in _chosen(operator, regions) for other in opposites)


def _chosen(operator: Operator, regions: Regions) -> list[Stretch]:
    return united(
        chain(
            regions.less if operator in _LESS else (),
            regions.equal if operator in _EQUAL else (),
            regions.greater if operator in _GREATER else (),
        )
    )


def in_stretch(field: DataField, stretch: Stretch) -> BoundPredicate:
    """Test that an integer value lies in a stretch."""
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


# Types whose values have a single text form, both in Spark's casts and in JSON answers.
_PLAIN_TEXT_ROOTS: Final = frozenset({*INTEGER_BITS, TypeRoot.BOOLEAN, TypeRoot.DATE})


_NUMBER_KINDS: Final = frozenset({LiteralKind.NUMBER, LiteralKind.FLOAT, LiteralKind.DOUBLE})


def compare(leaf: Leaf, operator: Operator, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    """Bind ``leaf`` to ``field``, with ``operator`` in place of its own.

    FilterError: a literal does not fit the column's type.
    """
    match operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return BoundLeaf(operator, field)
        case Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.CONTAINS | Operator.LIKE:
            return _text_test(leaf, operator, field)
        case Operator.IN | Operator.NOT_IN if (fitted := fit_list(leaf.literals, field.type)) is not None:
            return _listed(operator, fitted, field)
        case Operator.IN | Operator.NOT_IN if are_rounded(leaf.literals, field.type):
            return undecided(leaf, field)
        case Operator.IN:
            return _one_of(leaf, field, zone)
        case Operator.NOT_IN:
            return _none_of(leaf, field, zone)
        case Operator.BETWEEN:
            return _between(leaf, field, zone)
        case _:
            return _ordered(operator, field, fit(leaf.literals[0], field, zone), leaf)


def undecided(leaf: Leaf, field: DataField) -> Unknown:
    """Return ``leaf`` as an unknown part, with the reason."""
    return Unknown(leaf.text, reason=why_undecided(leaf, field))


def unproven(leaf: Leaf, doubts: Collection[Doubt | None] = ()) -> Unknown:
    """Return the unknown part to join to a test that covers every meaning of ``leaf``."""
    return Unknown(leaf.text, lacks_time_zone=Doubt.TIME_ZONE in doubts)


def _ordered(operator: Operator, field: DataField, place: Place, leaf: Leaf) -> BoundPredicate:
    match place:
        case Nowhere.NULL:
            return ALWAYS_FALSE
        case Nowhere.UNDECIDED:
            return undecided(leaf, field)
        case Exact(bool(value)) if operator is Operator.NOT_EQUAL:
            return BoundLeaf(Operator.EQUAL, field, (not value,))
        case Exact(value):
            return BoundLeaf(operator, field, (value,))
        case Gap(nearest=None, folds=True) if operator in _ORDERS:
            return _folded(_compare_with_gap(operator, field, place), field, leaf)
        case Gap(nearest=None):
            return _compare_with_gap(operator, field, place)
        case Gap():
            return conjunction([_compare_with_gap(operator, field, place), unproven(leaf)])
        case Regions(doubt=doubt) if in_doubt(operator, place):
            return conjunction([in_regions(operator, field, place), unproven(leaf, (doubt,))])
        case Regions():
            return in_regions(operator, field, place)


def _folded(test: BoundPredicate, field: DataField, leaf: Leaf) -> BoundPredicate:
    if test == ALWAYS_FALSE:
        return test
    # Spark's analyzer (DecimalPrecision) turns `i < 99999999999999999999` into TRUE, also for NULL; other
    # readers do not. NULL is covered, not proven.
    return disjunction([test, conjunction([BoundLeaf(Operator.IS_NULL, field), unproven(leaf)])])


def _compare_with_gap(operator: Operator, field: DataField, gap: Gap) -> BoundPredicate:
    match operator:
        case Operator.EQUAL:
            return ALWAYS_FALSE if gap.nearest is None else BoundLeaf(operator, field, (gap.nearest,))
        case Operator.NOT_EQUAL:
            return BoundLeaf(Operator.IS_NOT_NULL, field)
        case Operator.LESS_THAN | Operator.LESS_OR_EQUAL:
            inclusive = operator is Operator.LESS_OR_EQUAL
            return _bounded_by_gap(
                Operator.LESS_OR_EQUAL, field, gap.below, gap.above, gap.nearest if inclusive else None
            )
        case _:
            inclusive = operator is Operator.GREATER_OR_EQUAL
            return _bounded_by_gap(
                Operator.GREATER_OR_EQUAL, field, gap.above, gap.below, gap.nearest if inclusive else None
            )


def _bounded_by_gap(
    operator: Operator, field: DataField, near: Value | None, far: Value | None, nearest: Value | None
) -> BoundPredicate:
    """Select all values on one side of a gap, up to ``near`` or to the ``nearest`` value beyond."""
    if far is None:
        return BoundLeaf(Operator.IS_NOT_NULL, field)
    end = near if nearest is None else nearest
    return ALWAYS_FALSE if end is None else BoundLeaf(operator, field, (end,))


def _listed(operator: Operator, values: Sequence[Value], field: DataField) -> BoundPredicate:
    if operator is Operator.IN:
        return value_list(Operator.EQUAL, operator, field, values) if values else ALWAYS_FALSE
    if not values:
        return BoundLeaf(Operator.IS_NOT_NULL, field)
    return value_list(Operator.NOT_EQUAL, operator, field, values)


def _one_of(leaf: Leaf, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    values: list[Value] = []
    tests: list[BoundPredicate] = []
    doubts: set[Doubt] = set()
    as_text = field.type.root not in STRING_ROOTS and _holds_text(leaf)
    literals = _in_common_type(leaf.literals, field, zone)
    for literal in literals:
        match _fit_listed(literal, field, zone, as_text=as_text):
            case Nowhere.UNDECIDED:
                return undecided(replace(leaf, literals=literals), field)
            case Exact(value):
                values.append(value)
                doubts |= set() if not as_text or _reads_back(literal, value, field) else {Doubt.MEANING}
            case Gap(nearest=value) if value is not None:
                values.append(value)
                doubts.add(Doubt.MEANING)
            case Regions(doubt=doubt) as place:
                tests.append(in_regions(Operator.EQUAL, field, place))
                doubts |= {doubt} if doubt and in_doubt(Operator.EQUAL, place) else set()
            # NULL in a list only turns false into NULL, which excludes the row, too.
            case _:
                pass
    if values:
        tests.append(value_list(Operator.EQUAL, Operator.IN, field, values))
    test = disjunction(tests)
    return conjunction([test, unproven(leaf, doubts)]) if doubts else test


def _none_of(leaf: Leaf, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    if not leaf.literals:
        return ALWAYS_TRUE
    literals = _in_common_type(leaf.literals, field, zone)
    places = [fit(literal, field, zone) for literal in literals]
    # NOT IN is never true for a list with NULL.
    if Nowhere.NULL in places:
        return ALWAYS_FALSE
    as_text = field.type.root not in STRING_ROOTS and _holds_text(leaf)
    values: list[Value] = []
    tests: list[BoundPredicate] = [BoundLeaf(Operator.IS_NOT_NULL, field)]
    doubts: set[Doubt] = set()
    for literal, place in zip(literals, places, strict=True):
        match place:
            case Exact(value) if not as_text or _reads_back(literal, value, field):
                values.append(value)
            case Gap(nearest=None):
                pass
            case Regions(doubt=None) if not as_text:
                tests.append(in_regions(Operator.NOT_EQUAL, field, place))
            case Regions(doubt=Doubt() as doubt):
                doubts.add(doubt)
            case _:
                doubts.add(Doubt.MEANING)
    if values and field.type.root is TypeRoot.BOOLEAN:
        tests = [BoundLeaf(Operator.EQUAL, field, (not value,)) for value in values]
    elif values:
        tests[0] = value_list(Operator.NOT_EQUAL, Operator.NOT_IN, field, values)
    test = conjunction(tests)
    fitted_leaf = replace(leaf, literals=literals)
    return conjunction([test, _rest(fitted_leaf, field, places, doubts)]) if doubts else test


def _rest(leaf: Leaf, field: DataField, places: Sequence[Place], doubts: Collection[Doubt]) -> Unknown:
    return undecided(leaf, field) if Nowhere.UNDECIDED in places else unproven(leaf, doubts)


def _fit_listed(literal: Literal, field: DataField, zone: SessionZone | None, *, as_text: bool) -> Place:
    """Fit a literal of IN; where Spark may compare as text, the place covers values with equal text."""
    if not as_text:
        return fit(literal, field, zone)
    if field.type.root is TypeRoot.FLOAT and literal.kind in _NUMBER_KINDS:
        return fit(replace(literal, kind=LiteralKind.STRING, value=str(literal.value)), field, zone)
    place = fit(literal, field, zone)
    is_time = field.type.root in TIME_ROOTS and place is not Nowhere.NULL
    return shown_alike(literal, place, field.type, zone) if is_time else place


def _in_common_type(
    literals: Sequence[Literal], field: DataField, zone: SessionZone | None
) -> Sequence[Literal]:
    """Convert the literals of a list as Spark does: all to floating point, or to instants, if one is."""
    kinds = {literal.kind for literal in literals}
    if LiteralKind.TIMESTAMP_LTZ in kinds and field.type.root in TIME_ROOTS:
        return [as_instants(literal, zone) for literal in literals]
    floating = kinds & {LiteralKind.FLOAT, LiteralKind.DOUBLE}
    if not floating or field.type.root in FLOATING_ROOTS:
        return literals
    return [_as_floating(literal, max(floating)) for literal in literals]


def _as_floating(literal: Literal, kind: LiteralKind) -> Literal:
    if literal.kind is not LiteralKind.NUMBER or not isinstance(literal.value, Decimal):
        return literal
    number = float(literal.value) if kind is LiteralKind.DOUBLE else nearest_float32(Fraction(literal.value))
    return replace(literal, kind=kind, value=number)


def _holds_text(leaf: Leaf) -> bool:
    # In some modes Spark compares a list with a text as text throughout.
    return any(literal.kind is LiteralKind.STRING for literal in leaf.literals)


def _reads_back(literal: Literal, value: Value, field: DataField) -> bool:
    """Return True if a literal equals its value also where Spark compares as text."""
    if field.type.root is TypeRoot.DATE and literal.kind is LiteralKind.DATE:
        return True
    written = str(to_json(value, field.type)).lower()
    shown = literal.value if isinstance(literal.value, str) else str(literal.value).lower()
    return field.type.root in _PLAIN_TEXT_ROOTS and shown == written


def _between(leaf: Leaf, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    low, high = leaf.literals
    from_low = _ordered(Operator.GREATER_OR_EQUAL, field, fit(low, field, zone), leaf)
    to_high = _ordered(Operator.LESS_OR_EQUAL, field, fit(high, field, zone), leaf)
    match from_low, to_high:
        case (
            BoundLeaf(operator=Operator.GREATER_OR_EQUAL, literals=(first,)),
            BoundLeaf(operator=Operator.LESS_OR_EQUAL, literals=(last,)),
        ):
            return value_range(field, first, last)
        case _:
            return conjunction([from_low, to_high])


def value_range(field: DataField, low: Value, high: Value) -> BoundPredicate:
    """Bind ``field BETWEEN low AND high``: false if swapped, ``=`` if equal."""
    key = sql_key(field.type)
    if key(low) == key(high):
        return BoundLeaf(Operator.EQUAL, field, (low,))
    return BoundLeaf(Operator.BETWEEN, field, (low, high)) if key(low) < key(high) else ALWAYS_FALSE  # type: ignore[operator] # keys of one type


def _text_test(leaf: Leaf, operator: Operator, field: DataField) -> BoundPredicate:
    literal = leaf.literals[0]
    if field.type.root not in STRING_ROOTS and literal.kind is LiteralKind.JSON:
        raise FilterError(
            f"{operator} tests strings, but {field.name} is {field.type}",
            column=field.name,
            position=leaf.column.position,
        )
    place = fit(literal, field, None) if field.type.root in STRING_ROOTS else Nowhere.UNDECIDED
    match place:
        case Nowhere.NULL:
            return ALWAYS_FALSE
        case Exact(bytes(text)):
            return like_test(text, field) if operator is Operator.LIKE else _affix(operator, text, field)
        case _:
            return undecided(leaf, field)


def _affix(operator: Operator, text: bytes, field: DataField) -> BoundPredicate:
    # Every string starts with, ends with and contains the empty string.
    return BoundLeaf(operator, field, (text,)) if text else BoundLeaf(Operator.IS_NOT_NULL, field)


def like_test(pattern: bytes, field: DataField) -> BoundPredicate:
    """Bind LIKE, or a simpler equivalent test."""
    pieces = read_pattern(pattern.decode())
    match pieces:
        case ():
            return BoundLeaf(Operator.EQUAL, field, (b"",))
        case (bytes(text),):
            return BoundLeaf(Operator.EQUAL, field, (text,))
        case (Wildcard.ANY,):
            return BoundLeaf(Operator.IS_NOT_NULL, field)
        case (bytes(text), Wildcard.ANY):
            return BoundLeaf(Operator.STARTS_WITH, field, (text,))
        case (Wildcard.ANY, bytes(text)):
            return BoundLeaf(Operator.ENDS_WITH, field, (text,))
        case (Wildcard.ANY, bytes(text), Wildcard.ANY):
            return BoundLeaf(Operator.CONTAINS, field, (text,))
        case _:
            return BoundLeaf(Operator.LIKE, field, (write_pattern(pieces),))

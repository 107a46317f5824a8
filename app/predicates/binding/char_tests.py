"""Turns one test of a CHAR(n) column into a predicate on the values as they are stored.

How literals and values are padded before they are compared is a *reading*. Nobody here knows how the one who
asks reads, where it depends on more than the filter:

=======================================  ====================================================================
test                                     readings
=======================================  ====================================================================
``=``, ``<>``, ``<`` ..., IN of SQL      both sides padded, as Spark does by default (and with
                                         ``spark.sql.readSideCharPadding`` off)
the same of JSON                         also as stored: engines compare what they are given
BETWEEN                                  all three: Spark 4.0 leaves its literals as they are beside padded
                                         values, Spark 3 pads them too
tests of a key of a map                  likewise
LIKE, STARTS_WITH, ENDS_WITH, CONTAINS   padded values, and values as stored; see below
=======================================  ====================================================================

The predicate keeps every value that passes in any of the readings. Where they differ, it is joined with an
unknown part, so that nobody takes it for proven.

The pattern of LIKE and the others stays as it is, while Spark pads values to n characters: on CHAR(4) ``c
LIKE 'c3'`` matches nothing and ``c LIKE 'c3%'`` every form of ``'c3'``. Where a session sets
``spark.sql.readSideCharPadding`` to false, the pattern meets values as they are stored. Both are covered.

A padded value matches a pattern if what is stored matches the pattern without as many characters at its end
as there are blanks of padding. The end of a pattern can only stand for blanks where it is a blank, ``_`` or
``%``, so that there are few such patterns: ``'c3 %'`` and ``'c3'`` for ``'c3 %'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, assert_never, final

from app.predicates.binding.char_values import (
    BELOW_BLANK,
    BLANK,
    PaddingRoom,
    Standing,
    stand_as_stored,
    stand_beside_padded,
    stand_padded,
)
from app.predicates.binding.comparisons import like_test, undecided, unproven, value_range
from app.predicates.binding.fitting import fit
from app.predicates.binding.places import Exact, Nowhere, Place
from app.predicates.like import ANY, ONE, Pieces, Wildcard, read_pattern, write_pattern
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, BoundLeaf, BoundPredicate, Operator
from app.predicates.simplify import conjunction, disjunction, value_list
from app.predicates.unbound import Leaf, LiteralKind
from app.types import DataField

Unit: TypeAlias = str | Wildcard


_STANDS_FOR_BLANKS: Final = (BLANK, ONE, ANY)


@dataclass(frozen=True, slots=True)
class StoredPatterns:
    """Patterns for values as they are stored.

    Attributes:
        patterns: every value that matches, padded or as it is stored, matches one of them.
        exact: whether the stored values that match one of them are just those that match when padded, and
            just those that match as they are stored.
    """

    patterns: tuple[bytes, ...]
    exact: bool


def stored_patterns(pieces: Pieces, length: int, room: PaddingRoom) -> StoredPatterns:
    """What a pattern for padded values means for stored ones.

    Args:
        pieces: the pattern.
        length: n of the column's type.
        room: gives room for the patterns; without room, one that matches more stands for all of them.
    """
    units: list[Unit] = []
    for piece in pieces:
        units.extend(piece.decode() if isinstance(piece, bytes) else (piece,))
    is_fixed = ANY not in units
    if is_fixed and len(units) != length:
        # A value of so many characters is not padded; if these are less than n, it only is if nobody pads.
        return StoredPatterns((write_pattern(pieces),), exact=len(units) > length)
    ends = [len(units)]
    end = len(units)
    while end and units[end - 1] in _STANDS_FOR_BLANKS:
        end -= 1
        # Whatever matches without the % matches with it.
        if units[end] is not ANY:
            ends.append(end)
    if not room.take(ends):
        return StoredPatterns((_written([*units[:end], ANY]),), exact=False)
    exact = len(ends) == 1 and (is_fixed or units[-1] is ANY)
    return StoredPatterns(tuple(_written(units[:each]) for each in ends), exact)


def _written(units: Sequence[Unit]) -> bytes:
    return write_pattern(tuple(unit if isinstance(unit, Wildcard) else unit.encode() for unit in units))


@final
class _Reading(Enum):
    """What is padded before a literal and a value are compared."""

    BOTH_PADDED = "both sides, to the longer one"
    VALUE_PADDED = "the value, to the length of its type"
    AS_STORED = "neither"


_ALL_READINGS: Final = tuple(_Reading)
_MOST_BEGINNINGS: Final = 100
_TEXT_TESTS: Final = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE})


def compare_char(leaf: Leaf, operator: Operator, field: DataField, room: PaddingRoom) -> BoundPredicate:
    """The meaning of ``leaf`` on ``field``, with ``operator`` in place of its own.

    Args:
        leaf: the test.
        operator: any but the NULL tests.
        field: a column of CHAR, or a key of a map to CHAR.
        room: gives room for the forms in which literals may be stored.

    Raises:
        FilterError: a literal does not fit the column's type.
    """
    places = [fit(literal, field, None) for literal in leaf.literals]
    if operator is Operator.NOT_IN and not places:
        return ALWAYS_TRUE
    nulls = places.count(Nowhere.NULL)
    if nulls and operator is not Operator.IN:
        return ALWAYS_FALSE
    texts = [text for text in map(_text, places) if text is not None]
    if len(texts) + nulls < len(places):
        return undecided(leaf, field)
    if not texts:
        return ALWAYS_FALSE
    if operator in _TEXT_TESTS:
        return _text_test(leaf, operator, texts[0], field, room)
    if operator is Operator.BETWEEN:
        return _between(leaf, field, texts, room)
    found = _in_all_readings(leaf, operator, field, texts, room)
    # Spark 4.0 overlooks as many literals of a list as there are NULLs in it.
    return conjunction([found, unproven(leaf)]) if nulls else found


def outside_char(leaf: Leaf, field: DataField, room: PaddingRoom) -> BoundPredicate:
    """NOT BETWEEN; arguments and errors as above."""
    parts: list[BoundPredicate] = []
    for operator, literal in zip((Operator.LESS_THAN, Operator.GREATER_THAN), leaf.literals, strict=True):
        place = fit(literal, field, None)
        text = _text(place)
        if text is not None:
            parts.append(_in_all_readings(leaf, operator, field, [text], room))
        elif place is not Nowhere.NULL:
            return undecided(leaf, field)
    return disjunction(parts)


def _text(place: Place) -> str | None:
    """The text that a literal is; None for NULL and for what is no text."""
    return place.value.decode() if isinstance(place, Exact) and isinstance(place.value, bytes) else None


def _readings(leaf: Leaf, field: DataField) -> tuple[_Reading, ...]:
    # Fields of map keys are named so; of columns, those that happen to be named so are meant in more ways.
    if leaf.operator is Operator.BETWEEN or field.name.endswith("]"):
        return _ALL_READINGS
    if any(literal.kind is LiteralKind.JSON for literal in leaf.literals):
        return _Reading.BOTH_PADDED, _Reading.AS_STORED
    return (_Reading.BOTH_PADDED,)


def _stand(reading: _Reading, text: str, length: int, longest: int, room: PaddingRoom) -> Standing | None:
    match reading:
        case _Reading.BOTH_PADDED:
            return stand_padded(text, length, longest, room)
        case _Reading.VALUE_PADDED:
            return stand_beside_padded(text, length, room)
        case _Reading.AS_STORED:
            return stand_as_stored(text)
        case _:
            assert_never(reading)


def _in_all_readings(
    leaf: Leaf, operator: Operator, field: DataField, texts: Sequence[str], room: PaddingRoom
) -> BoundPredicate:
    """A comparison with a text, or with a list of texts."""
    length, longest = field.type.precision, max(map(len, texts))
    doubt = unproven(leaf)
    found: list[BoundPredicate] = []
    for reading in _readings(leaf, field):
        stands: list[Standing] = []
        for text in texts:
            stand = _stand(reading, text, length, longest, room)
            if stand is None:
                return conjunction([_roughly(operator, field, texts), doubt])
            stands.append(stand)
        test = _test(operator, field, stands)
        found.append(conjunction([test, doubt]) if stands[0].cut else test)
    if all(test == found[0] for test in found):
        return found[0]
    return conjunction([disjunction(found), doubt])


def _test(operator: Operator, field: DataField, stands: Sequence[Standing]) -> BoundPredicate:
    """A comparison in one reading, as :mod:`app.predicates.binding.char_values` has it.

    Where Spark cuts longer values, the result holds for all that pass and some more.
    """
    stand, targets = stands[0], [each.target for each in stands]
    equal = [value for each in stands for value in each.equal]
    found: BoundPredicate
    end: Operator
    match operator:
        case Operator.EQUAL | Operator.IN:
            found = _one_of(field, equal)
            return disjunction([found, _begin_with(field, targets)]) if stand.cut else found
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            return _none_of(field, equal)
        case Operator.LESS_THAN:
            return _without(_leaf(operator, field, stand), stand, stand.not_below)
        case Operator.LESS_OR_EQUAL:
            end = Operator.LESS_THAN if stand.target in stand.above else operator
            found = _without(_leaf(end, field, stand), stand, stand.above)
            return disjunction([found, _begin_with(field, targets)]) if stand.cut else found
        case Operator.GREATER_THAN:
            end = Operator.GREATER_OR_EQUAL if stand.target in stand.above else operator
            return _with(_leaf(end, field, stand), stand, stand.above)
        case _:
            return _with(_leaf(operator, field, stand), stand, stand.not_below)


def _leaf(operator: Operator, field: DataField, stand: Standing) -> BoundLeaf:
    return BoundLeaf(operator, field, (stand.target,))


def _without(leaf: BoundLeaf, stand: Standing, values: Sequence[bytes]) -> BoundPredicate:
    """A comparison with the target, but for some of the values up to it."""
    others = [value for value in values if value != stand.target]
    return conjunction([leaf, _none_of(leaf.field, others)]) if others else leaf


def _with(leaf: BoundLeaf, stand: Standing, values: Sequence[bytes]) -> BoundPredicate:
    """A comparison with the target, and some of the values up to it."""
    return disjunction([leaf, _one_of(leaf.field, [value for value in values if value != stand.target])])


def _one_of(field: DataField, values: Sequence[bytes]) -> BoundPredicate:
    return value_list(Operator.EQUAL, Operator.IN, field, values) if values else ALWAYS_FALSE


def _none_of(field: DataField, values: Sequence[bytes]) -> BoundPredicate:
    if not values:
        return BoundLeaf(Operator.IS_NOT_NULL, field)
    return value_list(Operator.NOT_EQUAL, Operator.NOT_IN, field, values)


def _begin_with(field: DataField, beginnings: Sequence[bytes]) -> BoundPredicate:
    """What begins with one of some texts, and of many also what lies between them."""
    if len(beginnings) <= _MOST_BEGINNINGS:
        return disjunction([_begins(field, each) for each in beginnings])
    first, last = min(beginnings), max(beginnings)
    to_last = disjunction([BoundLeaf(Operator.LESS_OR_EQUAL, field, (last,)), _begins(field, last)])
    return conjunction([BoundLeaf(Operator.GREATER_OR_EQUAL, field, (first,)), to_last])


def _begins(field: DataField, beginning: bytes) -> BoundPredicate:
    return like_test(write_pattern((beginning, ANY)), field)


def _roughly(operator: Operator, field: DataField, texts: Sequence[str]) -> BoundPredicate:
    """What a comparison leaves in any reading, without the forms in which the literals may be stored.

    Every form of a literal begins with its part before the blanks at its end.
    """
    stems = [text.rstrip(BLANK).encode() for text in texts]
    match operator:
        case Operator.EQUAL | Operator.IN:
            return _begin_with(field, stems)
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            return BoundLeaf(Operator.IS_NOT_NULL, field)
        case Operator.LESS_THAN | Operator.LESS_OR_EQUAL:
            below = BoundLeaf(Operator.LESS_THAN, field, (stems[0],))
            return disjunction([below, _begin_with(field, stems)])
        case _:
            # No value is above it only when padded but one that it goes on from with less than a blank.
            before_controls = next(iter(BELOW_BLANK.split(texts[0], maxsplit=1))).rstrip(BLANK)
            return BoundLeaf(Operator.GREATER_OR_EQUAL, field, (before_controls.encode(),))


def _between(leaf: Leaf, field: DataField, texts: Sequence[str], room: PaddingRoom) -> BoundPredicate:
    """One range that holds those of all readings, and the few values before it that are in it when padded."""
    low, high = texts
    doubt = unproven(leaf)
    length = field.type.precision
    from_low, to_high = (
        [_stand(reading, text, length, len(text), room) for reading in _readings(leaf, field)]
        for text in texts
    )
    starts = [stand for stand in from_low if stand is not None]
    ends = [stand for stand in to_high if stand is not None]
    if len(starts) < len(from_low) or len(ends) < len(to_high):
        rough = [
            _roughly(Operator.GREATER_OR_EQUAL, field, [low]),
            _roughly(Operator.LESS_OR_EQUAL, field, [high]),
        ]
        return conjunction([*rough, doubt])
    start, end = min(each.target for each in starts), max(each.target for each in ends)
    found = [value_range(field, start, end)]
    before = {value for each in starts for value in each.not_below if value < start and value <= end}
    found.append(_one_of(field, sorted(before)))
    if any(each.cut for each in ends):
        found.append(_begin_with(field, [end]))
    certain = all(each == starts[0] for each in starts) and all(each == ends[0] for each in ends)
    return disjunction(found) if certain else conjunction([disjunction(found), doubt])


def _text_test(
    leaf: Leaf, operator: Operator, text: str, field: DataField, room: PaddingRoom
) -> BoundPredicate:
    found = stored_patterns(_pieces(operator, text), field.type.precision, room)
    test = disjunction([like_test(pattern, field) for pattern in found.patterns])
    return test if found.exact else conjunction([test, unproven(leaf)])


def _pieces(operator: Operator, text: str) -> Pieces:
    if operator is Operator.LIKE:
        return read_pattern(text)
    if not text:
        return (ANY,)
    match operator:
        case Operator.STARTS_WITH:
            return text.encode(), ANY
        case Operator.ENDS_WITH:
            return ANY, text.encode()
        case _:
            return ANY, text.encode(), ANY

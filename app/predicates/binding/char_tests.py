"""Binds a test of a CHAR(n) column to a predicate on the stored values.

Spark pads a column's values to n characters when it reads them, and the shorter side of a comparison.
*Stored* values may be padded fully, partly or not at all, depending on the writer (Spark and Flink pad, the
Java API does not check), and may even exceed n. Bounds, indexes and key hashes are of stored bytes.

A reader's padding depends on more than the filter: ``spark.sql.readSideCharPadding``, releases (BETWEEN),
keys of maps, and engines that compare the JSON form of a filter literally. So

==================================  ==========================================================================
``=``, ``<>``, IN, NOT IN           the forms in which a literal may be stored: ``'c3'``, ``'c3 '`` and
                                    ``'c3  '`` for ``'c3'`` on CHAR(4). Exact for columns in SQL, and for
                                    literals of n characters without a blank at their end
``c LIKE 'c3%'``, CONTAINS ``'c3'`` exact where padding does not meet the end of the pattern
everything else                     a wider range or pattern that holds every value which passes in some
                                    reading, and nothing is proven
==================================  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.predicates.binding.comparisons import like_test, undecided, unproven
from app.predicates.binding.fitting import fit
from app.predicates.binding.places import Exact, Nowhere, Place
from app.predicates.like import ANY, ONE, Pieces, Wildcard, read_pattern, write_pattern
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, TEXT_TESTS, BoundLeaf, BoundPredicate, Operator
from app.predicates.simplify import conjunction, disjunction, value_list
from app.predicates.unbound import Leaf, LiteralKind
from app.types import DataField

BLANK: Final = " "
MAX_BYTES: Final = 16 * 1024 * 1024
# Approximate overhead of a Python value besides its bytes.
_VALUE_BYTES: Final = 64
_MOST_BEGINNINGS: Final = 100
_BELOW_BLANK: Final = re.compile(r"[\x00-\x1f]")
_STANDS_FOR_BLANKS: Final = (BLANK, ONE, ANY)
_EQUALITIES: Final = frozenset({Operator.EQUAL, Operator.IN})
_INEQUALITIES: Final = frozenset({Operator.NOT_EQUAL, Operator.NOT_IN})


@dataclass(slots=True)
class PaddingRoom:
    """Memory budget for the stored forms of all literals of a filter."""

    # A literal of one character on CHAR(255) has 255 forms, and a filter may have many thousand literals.
    _free_bytes: int = MAX_BYTES

    def take(self, size: int) -> bool:
        """Reserve ``size`` bytes and return True, or return False if they do not fit."""
        if size > self._free_bytes:
            return False
        self._free_bytes -= size
        return True


def compare_char(leaf: Leaf, operator: Operator, field: DataField, room: PaddingRoom) -> BoundPredicate:
    """Bind ``leaf`` to ``field``, with ``operator`` (any but the NULL tests) in place of its own.

    ``field`` is a CHAR column, or a key of a map to CHAR. FilterError: a literal does not fit the column's
    type.
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
    if operator in TEXT_TESTS:
        return _text_test(leaf, operator, texts[0], field)
    if operator in _EQUALITIES or operator in _INEQUALITIES:
        test = _equality(leaf, operator, field, texts, room)
        # Spark 4.0 overlooks as many literals of a list as there are NULLs in it.
        return conjunction([test, unproven(leaf)]) if nulls else test
    if operator is Operator.BETWEEN:
        ends = [_from(texts[0], field), _up_to(texts[1], field)]
        return conjunction([*ends, unproven(leaf)])
    is_upper = operator in (Operator.LESS_THAN, Operator.LESS_OR_EQUAL)
    return conjunction([(_up_to if is_upper else _from)(texts[0], field), unproven(leaf)])


def outside_char(leaf: Leaf, field: DataField, room: PaddingRoom) -> BoundPredicate:
    """Bind NOT BETWEEN. FilterError: a literal does not fit the column's type."""
    low, high = (Leaf(leaf.operator, leaf.column, (literal,), leaf.text) for literal in leaf.literals)
    below = compare_char(low, Operator.LESS_THAN, field, room)
    return disjunction([below, compare_char(high, Operator.GREATER_THAN, field, room)])


def _text(place: Place) -> str | None:
    return place.value.decode() if isinstance(place, Exact) and isinstance(place.value, bytes) else None


def _equality(
    leaf: Leaf, operator: Operator, field: DataField, texts: Sequence[str], room: PaddingRoom
) -> BoundPredicate:
    length = field.type.precision
    # If a literal is longer, Spark cuts values to its length.
    fits = max(map(len, texts)) <= length
    forms = _stored_forms(texts, length, room) if fits else None
    if forms is None:
        stems = [text.rstrip(BLANK).encode() for text in texts]
        rough = BoundLeaf(Operator.IS_NOT_NULL, field) if operator in _INEQUALITIES else _begin(field, stems)
        return conjunction([rough, unproven(leaf)])
    is_plain = not field.name.endswith("]") and all(
        literal.kind is not LiteralKind.JSON for literal in leaf.literals
    )
    is_certain = is_plain or all(len(text.rstrip(BLANK)) == length for text in texts)
    if operator in _EQUALITIES:
        test = value_list(Operator.EQUAL, Operator.IN, field, forms)
    elif is_certain:
        test = value_list(Operator.NOT_EQUAL, Operator.NOT_IN, field, forms)
    else:
        test = BoundLeaf(Operator.IS_NOT_NULL, field)
    return test if is_certain else conjunction([test, unproven(leaf)])


def _stored_forms(texts: Sequence[str], length: int, room: PaddingRoom) -> list[bytes] | None:
    """Pad each text with every number of blanks up to ``length`` characters; None if memory runs out."""
    forms: list[bytes] = []
    for stem in {text.rstrip(BLANK) for text in texts}:
        count = length - len(stem) + 1
        if not room.take(count * (_VALUE_BYTES + (len(stem) + length) // 2)):
            return None
        forms.extend(stem.ljust(end).encode() for end in range(len(stem), length + 1))
    return forms


def _up_to(text: str, field: DataField) -> BoundPredicate:
    """Cover every value that some reader finds less than a text or equal to it, and more."""
    stem = text.rstrip(BLANK).encode()
    return disjunction([BoundLeaf(Operator.LESS_THAN, field, (stem,)), _begin(field, [stem])])


def _from(text: str, field: DataField) -> BoundPredicate:
    """Cover every value that some reader finds greater than a text or equal to it, and more."""
    # Padding lifts a value above the text only if the text continues it with a character below the blank.
    before_controls = _BELOW_BLANK.split(text, maxsplit=1)[0].rstrip(BLANK)
    return BoundLeaf(Operator.GREATER_OR_EQUAL, field, (before_controls.encode(),))


def _begin(field: DataField, beginnings: Sequence[bytes]) -> BoundPredicate:
    """Match values that begin with one of some texts; of many texts also the values between them."""
    if len(beginnings) <= _MOST_BEGINNINGS:
        return disjunction([like_test(write_pattern((beginning, ANY)), field) for beginning in beginnings])
    last = max(beginnings)
    to_last = disjunction([BoundLeaf(Operator.LESS_OR_EQUAL, field, (last,)), _begin(field, [last])])
    return conjunction([BoundLeaf(Operator.GREATER_OR_EQUAL, field, (min(beginnings),)), to_last])


def _text_test(leaf: Leaf, operator: Operator, text: str, field: DataField) -> BoundPredicate:
    units: list[str | Wildcard] = []
    for piece in _pieces(operator, text):
        units.extend(piece.decode() if isinstance(piece, bytes) else (piece,))
    # Blanks at the end of the pattern may meet padding, so stored values may end differently there.
    end = len(units)
    while end and units[end - 1] in _STANDS_FOR_BLANKS:
        end -= 1
    open_units = [*units[:end], ANY]
    pattern = write_pattern(
        tuple(unit if isinstance(unit, Wildcard) else unit.encode() for unit in open_units)
    )
    test = like_test(pattern, field)
    return test if open_units == units else conjunction([test, unproven(leaf)])


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

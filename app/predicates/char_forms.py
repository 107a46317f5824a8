"""Tests of CHAR(n) columns by all stored forms of a value.

Writers pad values with blanks fully, partly or not at all (Spark and Flink pad, the Java API does not
check), and bounds, indexes and key hashes are of stored bytes: ``'c3'`` on CHAR(4) may be stored as ``'c3'``,
``'c3 '`` or ``'c3  '``. So ``=``, ``<>``, IN and NOT IN become tests of all stored forms. In the JSON form of
a filter, engines compare literals with stored bytes: a literal shorter than n proves no row there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.errors import FilterError
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, BoundLeaf, BoundPredicate, Operator, Unknown
from app.predicates.simplify import conjunction, disjunction, value_list
from app.predicates.unbound import Leaf, LiteralKind
from app.types import DataField, parse_json

BLANK: Final = " "
MAX_BYTES: Final = 16 * 1024 * 1024
_TOO_LONG: Final = "a text is longer than the column's CHAR, and only some readers cut it"
_TOO_MANY: Final = "the padded forms of all texts take too much memory: write fewer texts in one filter"
_MOST_BEGINNINGS: Final = 100
# Approximate overhead of a Python value besides its bytes.
_VALUE_BYTES: Final = 64


@dataclass(slots=True)
class FormRoom:
    """Memory budget for the stored forms of all literals of a filter."""

    # A literal of one character on CHAR(255) has 255 forms, and a filter may have many thousand literals.
    _free_bytes: int = MAX_BYTES

    def take(self, size: int) -> bool:
        """Reserve ``size`` bytes and return True, or return False if they do not fit."""
        if size > self._free_bytes:
            return False
        self._free_bytes -= size
        return True


def compare_char(leaf: Leaf, operator: Operator, field: DataField, room: FormRoom) -> BoundPredicate:
    """Bind ``leaf`` to ``field``, a CHAR column or a map key to CHAR, by ``=``, ``<>``, IN or NOT IN.

    Raises FilterError if a literal does not fit the column's type.
    """
    is_negation = operator in (Operator.NOT_EQUAL, Operator.NOT_IN)
    texts = [_text(literal.value, literal.position, field) for literal in leaf.literals]
    nulls = texts.count(None)
    if not texts:
        return ALWAYS_TRUE if is_negation else ALWAYS_FALSE
    if nulls == len(texts) or (nulls and is_negation):
        return ALWAYS_FALSE
    stems = {text.rstrip(BLANK) for text in texts if text is not None}
    length = field.type.precision
    if max(len(text) for text in texts if text is not None) > length:
        unknown = Unknown(leaf.text, leaf.column.position, reason=_TOO_LONG)
        if is_negation or len(stems) > _MOST_BEGINNINGS:
            return unknown
        # A reader may compare beginnings only. No row can match that begins with none of the stems.
        begin = [BoundLeaf(Operator.STARTS_WITH, field, (stem.encode(),)) for stem in stems if stem]
        return unknown if len(begin) < len(stems) else conjunction([disjunction(begin), unknown])
    forms: list[bytes] = []
    for stem in stems:
        count = length - len(stem) + 1
        if not room.take(count * (_VALUE_BYTES + (len(stem) + length) // 2)):
            return Unknown(leaf.text, leaf.column.position, reason=_TOO_MANY)
        forms.extend(stem.ljust(end).encode() for end in range(len(stem), length + 1))
    is_text = all(literal.kind is LiteralKind.STRING for literal in leaf.literals)
    # An uncertain test proves no row. Spark 4.0 overlooks as many literals of a list as it has NULLs.
    is_certain = not nulls and (
        (is_text and not field.name.endswith("]")) or all(len(stem) == length for stem in stems)
    )
    if not is_negation:
        test = value_list(Operator.EQUAL, Operator.IN, field, forms)
    elif is_certain:
        test = value_list(Operator.NOT_EQUAL, Operator.NOT_IN, field, forms)
    else:
        test = BoundLeaf(Operator.IS_NOT_NULL, field)
    return test if is_certain else conjunction([test, Unknown(leaf.text, leaf.column.position)])


def _text(written: object, position: int | None, field: DataField) -> str | None:
    try:
        value = parse_json(written, field.type)
    except FilterError as error:
        raise FilterError(str(error), column=field.name, position=position) from error
    return value.decode() if isinstance(value, bytes) else None

"""Tests that readers may understand differently. Binding makes them unknown, so that every row is kept.

==========================================  ==================================================================
test                                        why readers differ
==========================================  ==================================================================
TIMESTAMP_LTZ with text without an offset   the session's time zone decides which instant the text is
TIMESTAMP or DATE with an offset            the session's time zone decides which local time the text is
a number with text in quotes, and reversed  casts differ between engines and their modes
CHAR by ``<``, BETWEEN, LIKE and so on      some readers pad values, others do not
a timestamp with more than six digits       Spark cuts timestamps to microseconds, also those of a column
==========================================  ==================================================================

Binding adds numbers that FLOAT rounds or that are beyond a type (:data:`ROUNDED`, :data:`BEYOND`).
"""

from __future__ import annotations

import re
from typing import Final

from app.predicates.model import NULL_TESTS, TEXT_TESTS, Operator
from app.predicates.unbound import Leaf, ListedKind, Literal, LiteralKind, LiteralList
from app.types import BINARY_ROOTS, FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, DataField, TypeRoot
from app.types.json_values import any_decimal, has_offset

PADDED_KEYS: Final = "a key of CHAR may be stored with or without trailing blanks"
WITHOUT_OPPOSITE: Final = "the negation of a text test is not decided"
BEYOND: Final = "the number is beyond the column's type, where readers differ about NULL"
ROUNDED: Final = "FLOAT rounds a number of the list, and readers compare it in 32 or in 64 bits"
_GIVE_OFFSET: Final = (
    "the column holds instants, and a local time is one only in a time zone: give an offset, such as "
    "'2025-08-01T12:30:00Z' or '+05:30' at its end"
)
_NO_OFFSET: Final = "the column holds local times without a zone: omit the offset"
_CUT: Final = (
    "Spark cuts timestamps to microseconds: write at most six digits of a second, and compare a finer column "
    "by >= or <"
)
_FINE: Final = re.compile(r"\.\d{6}0*[1-9]")
_MICROSECONDS: Final = 6
# Cutting values to the microseconds of a literal does not change these tests.
_CUT_ALIKE: Final = frozenset({Operator.GREATER_OR_EQUAL, Operator.LESS_THAN})
_EQUALITIES: Final = frozenset({Operator.EQUAL, Operator.NOT_EQUAL, Operator.IN, Operator.NOT_IN})
_EXACT: Final = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS})
_NUMERIC: Final = _EXACT | FLOATING_ROOTS
_CLOCKS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TIMES: Final = frozenset({LiteralKind.DATE, LiteralKind.TIMESTAMP})


def doubt_of(leaf: Leaf, field: DataField) -> str | None:
    """Return why readers differ about a test of ``field``, and a remedy. Return None if they agree."""
    if leaf.operator in NULL_TESTS:
        return None
    if field.type.root is TypeRoot.CHAR and leaf.operator not in _EQUALITIES:
        return f"{field.name} is {field.type}, which only some readers pad: compare it by =, <> or IN"
    if leaf.operator in TEXT_TESTS and field.type.root not in STRING_ROOTS:
        return None  # binding refuses it
    literals = leaf.literals
    if isinstance(literals, LiteralList) and literals.kind is ListedKind.INTEGER:
        literals = literals[:1]  # one stands for all, which are of one kind
    values = [literal for literal in literals if literal.value is not None]
    doubts = (_doubt_of_literal(literal, field) for literal in values)
    is_cut = field.type.root in _CLOCKS and any(_is_cut(leaf.operator, literal, field) for literal in values)
    return next(filter(None, doubts), _CUT if is_cut else None)


def _is_cut(operator: Operator, literal: Literal, field: DataField) -> bool:
    # JSON of an engine holds values as the engine compares them, already cut.
    if literal.kind is LiteralKind.JSON:
        return False
    is_fine = field.type.precision > _MICROSECONDS and operator not in _CUT_ALIKE
    return is_fine or _FINE.search(str(literal.value)) is not None


def _doubt_of_literal(literal: Literal, field: DataField) -> str | None:
    kind, value, root = literal.kind, literal.value, field.type.root
    match root:
        case TypeRoot.TIMESTAMP_LTZ:
            return _GIVE_OFFSET if has_offset(value) is False else None
        case TypeRoot.TIMESTAMP:
            return _NO_OFFSET if has_offset(value) else None
        case TypeRoot.DATE if kind is LiteralKind.TIMESTAMP or has_offset(value):
            return f"{field.name} is a DATE, but the literal is a timestamp: write the day, '2025-08-01'"
        case _ if root in _NUMERIC and kind is LiteralKind.STRING and _is_number(value):
            return f"{field.name} is {field.type}, and readers convert text differently: omit the quotes"
        case _ if root in _EXACT and kind is LiteralKind.NUMBER and isinstance(value, float):
            return (
                f"{field.name} is {field.type}, but a number with an exponent is a DOUBLE: write its digits"
            )
        case _ if root in BINARY_ROOTS and kind is LiteralKind.STRING:
            return f"{field.name} is {field.type}, but the literal is text: write X'...' with its digits"
        case _ if root in STRING_ROOTS and (kind is LiteralKind.NUMBER or kind in _TIMES):
            return f"{field.name} holds text, and readers cast it differently: write the literal in quotes"
        case _:
            return None


def _is_number(text: object) -> bool:
    try:
        any_decimal(text)
    except ValueError:
        return False
    return True

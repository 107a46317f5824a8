"""Explains why a test of a column is not decided, and what to write instead."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from app.predicates.binding.fitting import fit
from app.predicates.binding.places import Nowhere
from app.predicates.binding.time_fitting import TIME_ROOTS
from app.predicates.model import TEXT_TESTS
from app.predicates.sql.reasons import line_instead
from app.predicates.unbound import Call, ColumnFunction, Leaf, Literal, LiteralKind
from app.types import BINARY_ROOTS, INTEGER_BITS, NESTED_ROOTS, STRING_ROOTS, DataField, TypeRoot
from app.types.civil_time import date_text, epoch_days

PADDED_KEYS: Final = "a key of CHAR may be stored with or without trailing blanks"
LIST_OF_MOMENTS: Final = "the time of the query can be compared only by =, <, > or BETWEEN"
WITHOUT_OPPOSITE: Final = "the opposite of a test of text is not decided"

_NUMBERS: Final = frozenset({LiteralKind.NUMBER, LiteralKind.FLOAT, LiteralKind.DOUBLE})
_TIMES: Final = frozenset({LiteralKind.DATE, LiteralKind.TIMESTAMP_NTZ, LiteralKind.TIMESTAMP_LTZ})
_EXACT_ROOTS: Final = frozenset({*INTEGER_BITS, TypeRoot.DECIMAL})
_TEXT_WITH_NUMBER: Final = (
    "it compares text with a number, so that Spark casts every value of the column; write the number as "
    "text, in quotes, if the column holds it so"
)
_SHORT_NUMBER: Final = 40
_DATE_DIGITS: Final = 8


def why_undecided(leaf: Leaf, field: DataField) -> str:
    """Explain why a leaf is not decided: one of its literals has no place among the field's values."""
    root = field.type.root
    if root in NESTED_ROOTS:
        return f"{field.name} is {field.type}, of which indexes know NULL alone"
    if leaf.operator in TEXT_TESTS and root not in STRING_ROOTS:
        return f"it tests text, and {field.name} is {field.type}, which Spark casts: compare it by =, < or >"
    # The time zone does not decide whether a literal has a place.
    unplaced = [literal for literal in leaf.literals if fit(literal, field, None) is Nowhere.UNDECIDED]
    literal = (unplaced or leaf.literals)[0]
    return _why(literal, field) or _general(literal, field)


def why_not_within(call: Call, field: DataField) -> str:
    """Explain why a test of a function of a field is not decided, and suggest a test of the field."""
    roots = {ColumnFunction.MONTH: TIME_ROOTS, ColumnFunction.SUBSTRING: STRING_ROOTS}
    has_line = field.type.root in roots.get(call.function, TIME_ROOTS | STRING_ROOTS)
    return (
        f"Spark computes the {call.function} of each value of {field.name}, which is {field.type}: write "
        f"{line_instead(call.function if has_line else '', field.name)}"
    )


def _why(literal: Literal, field: DataField) -> str | None:
    kind, root = literal.kind, field.type.root
    match literal.value:
        case float(number) if root in _EXACT_ROOTS:
            return (
                f"{number!r} is a {kind}, and Spark casts {field.name}, which is {field.type}, to "
                f"compare it: write {_plain(number)}"
            )
        case Decimal() if root is TypeRoot.DECIMAL or root in INTEGER_BITS:
            return f"the number has so many digits that Spark rounds {field.name}, or it, to compare them"
        case Decimal() as number if root in TIME_ROOTS:
            return (
                f"Spark compares no number with {field.name}, which is {field.type}: write {_as_time(number)}"
            )
        case str(text) if root in TIME_ROOTS:
            return f"'{text:.40}' is a time of today, or has nanoseconds: write its day, and microseconds"
        case str(text) if root in _EXACT_ROOTS or root is TypeRoot.BOOLEAN:
            return f"what number '{text:.40}' is depends on settings of Spark: write it without quotes"
        case _ if root in STRING_ROOTS and kind in _NUMBERS:
            return _TEXT_WITH_NUMBER
        case _ if root in STRING_ROOTS and kind in (*_TIMES, LiteralKind.BOOLEAN):
            return (
                f"it compares text with a {kind}, so that Spark casts every value of the column; write it as "
                f"text, in quotes, if the column holds it so"
            )
        case _:
            return None


def _general(literal: Literal, field: DataField) -> str:
    if field.type.root is TypeRoot.TIME:
        return f"{field.name} is {field.type}, of which SQL has no literals here: send the filter as JSON"
    suggestion = "X'..'" if field.type.root in BINARY_ROOTS else f"a literal of {field.type}"
    return f"{field.name} is {field.type}, and the literal a {literal.kind}: write {suggestion}"


def _plain(number: float) -> str:
    text = format(Decimal(repr(number)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if len(text) <= _SHORT_NUMBER else "it with all of its digits"


def _as_time(number: Decimal) -> str:
    digits = str(number)
    if len(digits) == _DATE_DIGITS and digits.isdecimal():
        try:
            day = epoch_days(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
        except ValueError:
            pass
        else:
            return f"'{date_text(day)}'"
    return "a date in quotes, such as '2025-08-01'"

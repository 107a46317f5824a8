"""pypaimon's predicates as filters of the service, which evaluates them as Spark does.

A test is sent if no row that passes it in pypaimon fails it in Spark: its literals must be exact values of
the column's type. Other tests are omitted and count as true, so that more files are kept.

===========================  ===============================================================================
never sent                   since in pypaimon
===========================  ===============================================================================
NaN; NULL outside ``in``     ``notEqual`` finds rows
0.1 of FLOAT                 ``f < 0.7`` compares 64 bits, where Spark's literal has 32
``notIn`` of floats          -0.0 and 0.0 differ
BINARY(n), TIME              their semantics have not been compared
TIMESTAMP(7) to (9)          rows are compared without their nanoseconds
wall clocks of an instant    the session's zone is unknown
``or`` of partition columns  rows are not filtered by it
and others
===========================  ===============================================================================
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping
from ctypes import c_float
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

Predicate: TypeAlias = Any
"""pypaimon has no stubs."""

_TEXT_TESTS: Final = frozenset({"startsWith", "endsWith", "contains", "like"})
_TYPE: Final = re.compile(r"(\w+)(?:\((\d+)(?:, *(\d+))?\))?( WITH LOCAL TIME ZONE)?(?: NOT NULL)?")
_BITS: Final = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_KINDS: Final = {"BOOLEAN": bool, "BYTES": bytes, "VARBINARY": bytes, "DATE": dt.date}
_TEXTS: Final = ("STRING", "VARCHAR", "CHAR")


def to_json(predicate: Predicate, types: Mapping[str, str], keys: Collection[str]) -> dict[str, Any] | None:
    """Return a filter that holds for every row that passes a predicate, or None.

    Types are texts by column.
    """
    method, literals = predicate.method, predicate.literals or []
    if method in ("and", "or"):
        sent = [child for child in (to_json(each, types, keys) for each in literals) if child is not None]
        is_mixed = len({name in keys for name in _columns(predicate)}) > 1
        if not sent or (method == "or" and (is_mixed or len(sent) < len(literals))):
            return None
        return {"kind": "COMPOUND", "function": method.upper(), "children": sent}
    if method == "in":
        literals = [literal for literal in literals if literal is not None]
    type_ = _TYPE.fullmatch(types.get(predicate.field, ""))
    if type_ is None or not (literals or method in ("isNull", "isNotNull")):
        return None
    is_text, is_float = type_[1] in _TEXTS, type_[1] in ("FLOAT", "DOUBLE")
    differs = (method in _TEXT_TESTS and not is_text) or (method == "notIn" and is_float)
    if differs or not all(_is_value(literal, *type_.groups()) for literal in literals):
        return None
    return {
        "kind": "LEAF",
        "transform": {"name": "FIELD_REF", "fieldRef": {"name": predicate.field}},
        "function": re.sub("([A-Z])", r"_\1", method).upper(),
        "literals": [_in_utc(literal) for literal in literals],
    }


def _columns(predicate: Predicate) -> set[str]:
    is_leaf = predicate.method not in ("and", "or")
    return {predicate.field} if is_leaf else set().union(*map(_columns, predicate.literals or []))


def _is_value(value: Any, root: str, first: str | None, second: str | None, local: str | None) -> bool:
    kind = type(value)
    match root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return kind is int and -(1 << _BITS[root]) <= value < 1 << _BITS[root]
        case "FLOAT" | "DOUBLE" if kind in (int, float):
            return bool(value == (c_float(value).value if root == "FLOAT" else float(value)))
        case "DECIMAL" if kind in (int, Decimal) and Decimal(value).is_finite():
            # Counting more digits would take long.
            is_small = abs(Decimal(value).adjusted()) <= 2 * int(first or 10)
            unscaled = Fraction(value) * 10 ** int(second or 0) if is_small else Fraction(1, 2)
            return unscaled.denominator == 1 and abs(unscaled) < 10 ** int(first or 10)
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind is dt.datetime:
            cut, is_local = 6 - int(first or 6), bool(local) or root == "TIMESTAMP_LTZ"
            return cut >= 0 and (value.tzinfo is not None) == is_local and value.microsecond % 10**cut == 0
    return kind is (str if root in _TEXTS else _KINDS.get(root))


def _in_utc(literal: Any) -> Any:
    """Convert an instant to UTC, since offsets of historical zones have seconds."""
    return literal.astimezone(dt.UTC) if isinstance(literal, dt.datetime) and literal.tzinfo else literal

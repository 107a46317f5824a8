"""Iceberg's expressions, read as unbound predicates (:mod:`app.predicates.unbound`).

A file is kept if any client could find a row in it, and clients differ. Iceberg's own expressions have no
NULL result: NOT is pushed down to the tests, and NULL satisfies a negated ``eq``, ``in``, ``starts-with`` or
``is-nan``. Clients that pass their filter to Arrow or SQL exclude those rows. So a predicate here is true for
every row that some client accepts. It is *exact* if all clients accept the same rows. Otherwise it proves no
row, and clients get the filter as a *residual* to apply themselves.

========================  ===================================================================================
expression                predicate
========================  ===================================================================================
``eq in lt gt-eq`` ...    this comparison; ``<=`` for ``<``, ``>=`` for ``>`` if the literal is *wide*: zero,
                          as Java orders -0.0 and 0.0, or a number that a FLOAT cannot hold
NOT ``gt``, ``gt-eq``     ``lt-eq``, ``lt``; of FLOAT and DOUBLE ``OR = NaN``, since NaN fails the comparison
``not-eq``, ``not-in``    ``IS NULL OR`` this test
``starts-with``           this test; negated it is unknown
``is-null``, ``not-null`` this test
``is-nan``                ``= NaN``, true in SQL's order; negated it is ``IS NULL OR <>``
transforms, functions,    unknown; so are tests of two columns, of fields within a column, of metadata columns
tests of two literals     and of names that are not one column to all clients (:mod:`app.iceberg.schema`)
========================  ===================================================================================

Expressions come in two spellings: ``term`` with ``value`` or ``values``, where a text names a column, and
``child``, ``left`` and ``right``, where a text is a literal and a column is a ``reference``. PyIceberg 0.12
reads only the first (docs/decisions/iceberg.md).

========================  =========================================================
column                    literals
========================  =========================================================
BOOLEAN                   a boolean, or its text
integers                  a whole number, or its text
FLOAT, DOUBLE, DECIMAL    a number, or its text
CHAR, VARCHAR             text
BINARY, VARBINARY         text of hexadecimal digits
DATE                      ``"2025-08-01"``, or days since 1970
TIMESTAMP                 ISO text without a zone, or microseconds since 1970
TIMESTAMP_LTZ             ISO text with a zone, or microseconds since 1970
========================  =========================================================

Java writes dates and timestamps as numbers. PyIceberg writes numbers with a point as text. Clients round
literals outside the column's values in different ways: such tests are unknown. So are tests with a literal of
another kind, such as a timestamp for a DATE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context
from typing import Any, Final, NamedTuple, final

from app.errors import FilterError
from app.iceberg.schema import ReadColumns
from app.predicates.model import Operator
from app.predicates.unbound import (
    And,
    ColumnName,
    FilterLimits,
    Leaf,
    Literal,
    LiteralCount,
    LiteralKind,
    Or,
    Predicate,
    TruthValue,
    Undecidable,
    listed_literals,
)
from app.suggestions import hint
from app.types import (
    FLOATING_ROOTS,
    INTEGER_BITS,
    NESTED_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    TypeRoot,
    parse_json,
)
from app.types.civil_time import NANOS_PER_MICRO, NANOS_PER_MILLI, read_timestamp
from app.types.json_values import MAX_NUMBER_TEXT, any_decimal, is_integer
from app.types.values import integer_range, to_float32
from app.work import check_deadline

_OPERATORS: Final = {
    "eq": Operator.EQUAL,
    "not-eq": Operator.NOT_EQUAL,
    "lt": Operator.LESS_THAN,
    "gt-eq": Operator.GREATER_OR_EQUAL,
    "gt": Operator.GREATER_THAN,
    "lt-eq": Operator.LESS_OR_EQUAL,
    "starts-with": Operator.STARTS_WITH,
    "in": Operator.IN,
    "not-in": Operator.NOT_IN,
    "is-null": Operator.IS_NULL,
    "not-null": Operator.IS_NOT_NULL,
}
_OPPOSITES: Final = (
    ("is-null", "not-null"),
    ("is-nan", "not-nan"),
    ("eq", "not-eq"),
    ("lt", "gt-eq"),
    ("gt", "lt-eq"),
    ("starts-with", "not-starts-with"),
    ("in", "not-in"),
)
_NEGATIONS: Final = dict((*_OPPOSITES, *(pair[::-1] for pair in _OPPOSITES)))
_FLIPPED: Final = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}
_WIDER: Final = {"lt": "lt-eq", "gt": "gt-eq"}

_TRUE: Final = TruthValue(True)  # noqa: FBT003 - clear from the name
_FALSE: Final = TruthValue(False)  # noqa: FBT003 - clear from the name
_UNKNOWN: Final = Undecidable("a test about which Iceberg clients differ, or not of one column")
_NAN: Final = Literal(LiteralKind.JSON, "NaN")

_EXACT: Final = Context(prec=2 * MAX_NUMBER_TEXT + 100)
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_NOT_FINITE: Final = frozenset({"nan", "inf", "infinity"})


@dataclass(frozen=True, slots=True)
class ReadExpression:
    """A predicate, None if every row satisfies it. ``exact``: every client accepts exactly its rows."""

    predicate: Predicate | None
    exact: bool


def read_expression(written: object, columns: ReadColumns, limits: FilterLimits) -> ReadExpression:
    """Read an expression from parsed JSON.

    Raises FilterError if it is malformed, names no column, or has a literal that cannot be compared with the
    column. Raises LimitExceededError if it is too long, nested too deeply, or has too many literals.
    """
    limits.check_size(written)
    reader = _Reader(columns, limits)
    predicate = reader.read(written, negated=False, depth=0)
    return ReadExpression(None if predicate == _TRUE else predicate, reader.exact)


@final
class _Reader:
    """Reads one expression. ``exact`` stays true while every part is exact."""

    def __init__(self, columns: ReadColumns, limits: FilterLimits) -> None:
        self.exact = True
        self._columns = columns
        self._limits = limits
        self._literals = LiteralCount(limits)

    def read(self, written: object, *, negated: bool, depth: int) -> Predicate:
        match written:
            case bool(value) | {"type": "literal", "value": bool(value)}:
                return TruthValue(value is not negated)
            case {"type": "true" | "false" as name}:
                return TruthValue((name == "true") is not negated)
            case {"type": "not", "child": child}:
                self._limits.check_depth(depth + 1)
                return self.read(child, negated=not negated, depth=depth + 1)
            case {"type": "and" | "or" as name, "left": _, "right": _}:
                return self._compound(name, written, negated=negated, depth=depth)
            case {"type": "and" | "or" | "not" as name}:
                raise FilterError(f"{name} has {'a child' if name == 'not' else 'left and right'}")
            case {"type": str(name), **members}:
                return self._test(name.lower().replace("_", "-"), members, negated=negated)
            case _:
                raise FilterError(f"expected an expression with a type, found {written!r:.100}")

    def _compound(self, name: str, written: object, *, negated: bool, depth: int) -> Predicate:
        self._limits.check_depth(depth + 1)
        # A long chain of one connective nests as deep as it is long, so it is flattened without recursion.
        parts: list[object] = []
        pending = [written]
        while pending:
            match pending.pop():
                case {"type": str(same), "left": left, "right": right} if same == name:
                    pending += [right, left]
                case part:
                    parts.append(part)
        children = [self.read(part, negated=negated, depth=depth + 1) for part in parts]
        is_and = (name == "and") is not negated
        decisive, neutral = (_FALSE, _TRUE) if is_and else (_TRUE, _FALSE)
        if decisive in children:
            return decisive
        rest = tuple(child for child in children if child != neutral)
        if len(rest) <= 1:
            return rest[0] if rest else neutral
        return And(rest) if is_and else Or(rest)

    def _test(self, name: str, members: Mapping[Any, object], *, negated: bool) -> Predicate:
        check_deadline()
        if name not in _NEGATIONS:
            tests = hint(name, sorted(_NEGATIONS), plural="tests")
            raise FilterError(f"{name!r:.100} is not a test of expressions{tests}")
        if negated:
            name = _NEGATIONS[name]
        match name:
            case "is-null" | "not-null" | "is-nan" | "not-nan":
                field = self._column(members, "child")
                return self._unknown() if field is None else self._unary(name, field)
            case "in" | "not-in":
                field, values = self._column(members, "child"), _values(members.get("values"))
                self._literals.add(len(values))
                return self._unknown() if field is None else self._set(name, field, values)
            case _:
                return self._comparison(name, members, negated=negated)

    def _comparison(self, name: str, members: Mapping[str, object], *, negated: bool) -> Predicate:
        if "term" in members:
            if "value" not in members:
                raise FilterError(f"{name} compares a term with a value")
            field, literal = self._column(members, "term"), members["value"]
        elif "left" in members and "right" in members:
            left, right = members["left"], members["right"]
            if _is_literal(left) and not _is_literal(right) and name in _FLIPPED:
                left, right, name = right, left, _FLIPPED[name]
            fields = [
                self._column({"child": side}, "child") for side in (left, right) if not _is_literal(side)
            ]
            field, literal = (fields[0], right) if fields and _is_literal(right) else (None, None)
        else:
            raise FilterError(f"{name} compares left with right, or a term with a value")
        if field is None:
            return self._unknown()
        test = self._compare(name, field, _value(literal))
        if negated and field.type.root in FLOATING_ROOTS and name in ("lt", "lt-eq"):
            # By IEEE 754 NaN fails the comparison, so it satisfies the negation.
            return Or((test, self._unary("is-nan", field)))
        return test

    def _column(self, members: Mapping[str, object], member: str) -> DataField | None:
        """Resolve the tested column. Return None for an expression over columns."""
        match members.get("term", members.get(member)):
            case str(name) if "term" in members:
                return self._columns.named(name)
            case {"type": "reference", "name": str(name)} | {"type": "reference", "term": str(name)}:
                return self._columns.named(name)
            case {"type": "reference", "id": int(number)}:
                return self._columns.of_id(number)
            case {"type": "transform", "transform": str(transform), "term": term}:
                field = self._column({"term": term}, "term")
                return field if transform == "identity" else None
            case {"type": "apply", "arguments": [*_]}:
                return None
            case other if "term" not in members and _is_literal(other):
                return None
            case other:
                raise FilterError(f"expected a reference to a column, found {other!r:.100}")

    def _unary(self, name: str, field: DataField) -> Predicate:
        if name in _OPERATORS:
            return _leaf(name, field)
        is_float = field.type.root in FLOATING_ROOTS
        if name == "is-nan":
            return _leaf("eq", field, (_NAN,)) if is_float else _FALSE
        self.exact = False
        return _or_null("not-eq", field, (_NAN,)) if is_float else _TRUE

    def _compare(self, name: str, field: DataField, literal: object) -> Predicate:
        _check_comparable(field)
        if name.endswith("starts-with"):
            if field.type.root not in STRING_ROOTS or not isinstance(literal, str):
                raise FilterError(f"{name} tests text, and {field.name} is {field.type}", column=field.name)
            if name != "starts-with":
                return self._unknown()
        fitted = fit_literal(literal, field)
        if fitted is None:
            return self._unknown()
        self._note(field, fitted, is_order=name not in ("eq", "starts-with"))
        literals = (Literal(LiteralKind.JSON, fitted.value),)
        if name == "not-eq":
            self.exact = False
            return self._unknown() if fitted.wide else _or_null(name, field, literals)
        return _leaf(_WIDER.get(name, name) if fitted.wide else name, field, literals)

    def _set(self, name: str, field: DataField, values: Sequence[object]) -> Predicate:
        _check_comparable(field)
        fitted = [fit_literal(value, field) for value in values]
        if not fitted:
            return TruthValue(name == "not-in")
        placed = [literal for literal in fitted if literal is not None]
        if len(placed) < len(fitted) or (name == "not-in" and any(literal.wide for literal in placed)):
            return self._unknown()
        for literal in placed:
            self._note(field, literal, is_order=False)
        literals = listed_literals(LiteralKind.JSON, [literal.value for literal in placed])
        if name == "in":
            return _leaf(name, field, literals)
        self.exact = False
        return _or_null(name, field, literals)

    def _note(self, field: DataField, fitted: Fitted, *, is_order: bool) -> None:
        """Clear ``exact`` if clients may differ about a test: NaN, zeros, or CHAR with trailing blanks."""
        root = field.type.root
        differs = fitted.wide or root is TypeRoot.CHAR or (is_order and root in FLOATING_ROOTS)
        self.exact = self.exact and not differs

    def _unknown(self) -> Predicate:
        self.exact = False
        return _UNKNOWN


def _check_comparable(field: DataField) -> None:
    if field.type.root in NESTED_ROOTS:
        raise FilterError(f"{field.name} is {field.type}, which cannot be compared")


def _is_literal(written: object) -> bool:
    return not isinstance(written, dict) or written.get("type") == "literal"


def _value(written: object) -> object:
    match written:
        case {"type": "literal", "value": bool() | int() | float() | str() as value}:
            return value
        case dict() | list() | None:
            raise FilterError(f"expected a literal, found {written!r:.100}")
        case value:
            return value


def _values(written: object) -> list[object]:
    match written:
        case {"type": "literals", "values": [*values]} | [*values]:
            return [_value(value) for value in values]
        case _:
            raise FilterError(f"expected a list of literals as values, found {written!r:.100}")


def _leaf(name: str, field: DataField, literals: Sequence[Literal] = ()) -> Leaf:
    return Leaf(_OPERATORS[name], ColumnName((field.name,)), literals, f"{name} of {field.name}")


def _or_null(name: str, field: DataField, literals: Sequence[Literal]) -> Predicate:
    return Or((_leaf("is-null", field), _leaf(name, field, literals)))


class Fitted(NamedTuple):
    """A literal in a column's type. ``wide``: some clients compare with a neighbouring number instead."""

    value: object
    wide: bool = False


def fit_literal(value: object, field: DataField) -> Fitted | None:
    """Fit a JSON scalar to a column of a simple type. Return None if clients interpret it differently.

    Raises FilterError if it cannot be compared with the column.
    """
    data_type = field.type
    try:
        fitted = _fit(value, data_type)
        if fitted is not None and data_type.root not in TIMESTAMP_ROOTS:
            parse_json(fitted.value, data_type)
    except (ValueError, FilterError) as error:
        raise FilterError(
            f"{value!r:.100} cannot be compared with {field.name}, which is {data_type}: {error}",
            column=field.name,
        ) from error
    return fitted


def _fit(value: object, data_type: DataType) -> Fitted | None:
    root = data_type.root
    if root in INTEGER_BITS:
        number = any_decimal(value)
        low, high = integer_range(data_type)
        is_held = number == number.to_integral_value() and low <= number <= high
        return Fitted(int(number)) if is_held else None
    if root in FLOATING_ROOTS:
        return _floating(value, root)
    if root in TIMESTAMP_ROOTS:
        return _timestamp(value, root)
    if root is TypeRoot.DECIMAL:
        scaled = any_decimal(value).scaleb(data_type.scale, _EXACT)
        if scaled != scaled.to_integral_value() or abs(scaled) >= 10**data_type.precision:
            return None
    elif root is TypeRoot.DATE:
        if isinstance(value, str) and "T" in value:
            read_timestamp(value)
            return None
        if isinstance(value, int) and not -_INT32 <= value < _INT32:
            return None
    return Fitted(value)


def _floating(value: object, root: TypeRoot) -> Fitted | None:
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in _NOT_FINITE:
        return None
    number = float(any_decimal(value))
    held = to_float32(number) if root is TypeRoot.FLOAT else number
    # Java orders -0.0 before 0.0. For a FLOAT, some clients compare the nearest value, others the number.
    return Fitted(held, wide=held == 0 or held != number) if math.isfinite(held) else None


def _timestamp(value: object, root: TypeRoot) -> Fitted | None:
    has_zone = root is TypeRoot.TIMESTAMP_LTZ
    if isinstance(value, int) and is_integer(value):
        if not -_INT64 <= value < _INT64:
            return None
        nanos = value * NANOS_PER_MICRO
        millis, below = divmod(nanos, NANOS_PER_MILLI)
        return Fitted({"$ms": millis, "$nanos": below})
    if not isinstance(value, str):
        raise ValueError("expected a timestamp")  # noqa: TRY004 - turned into one error for all
    read = read_timestamp(value)
    is_another = (read.zone is not None) is not has_zone or read.clock % NANOS_PER_MICRO
    return None if is_another else Fitted(value)

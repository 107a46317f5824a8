"""Reads Iceberg's expressions as predicates of Paimon's JSON form, which :mod:`app.predicates` knows.

A file is kept if any client could find a row in it, and clients differ. Iceberg's own expressions know no
NULL as a result: NOT is pushed down to the tests, and a negated ``eq``, ``in``, ``starts-with`` or ``is-nan``
is met by NULL, as is every other test that excludes. Clients that hand their filter to Arrow or SQL leave
those rows out. So a predicate here is met by every row that one of them takes; where they may differ it is
not *exact*, and is never told to be proven.

========================  ===================================================================================
expression                predicate
========================  ===================================================================================
``eq in lt gt-eq`` ...    the same; of zeros, which Java orders, and of numbers that a FLOAT cannot hold, the
                          wider test
``not-eq``, ``not-in``    ``IS NULL OR`` the same
``starts-with``           the same; negated it is unknown
``is-null``, ``not-null`` the same
``is-nan``                ``= NaN``, which in SQL's order NaN equals; negated it is ``IS NULL OR <>``
transforms, functions,    unknown, as are tests of two columns, of fields within a column, of metadata columns
tests of two literals     and of names that are not one column to all clients (:mod:`app.iceberg.columns`)
========================  ===================================================================================

Expressions come in two spellings: ``term`` with ``value`` or ``values``, where a text names a column, and
``child``, ``left`` and ``right``, where a text is a literal and a column is a ``reference``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from app.errors import FilterError
from app.iceberg.columns import ReadColumns
from app.iceberg.literals import Fitted, fit_literal
from app.predicates.unbound import FilterLimits, LiteralCount
from app.storage import check_deadline
from app.suggestions import hint
from app.types import DataField, Json, TypeRoot
from app.types.data_types import FLOATING_ROOTS, NESTED_ROOTS, STRING_ROOTS

Written: TypeAlias = Mapping[str, Json]

_UNARY: Final = {"is-null": "not-null", "is-nan": "not-nan"}
_COMPARISONS: Final = {
    "eq": "not-eq",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "starts-with": "not-starts-with",
}
_SETS: Final = {"in": "not-in"}
_NEGATIONS: Final = {
    one: other
    for pairs in (_UNARY, _COMPARISONS, _SETS)
    for pair in pairs.items()
    for one, other in (pair, pair[::-1])
}
_UNARY_NAMES: Final = frozenset({*_UNARY, *_UNARY.values()})
_SET_NAMES: Final = frozenset({*_SETS, *_SETS.values()})
_FLIPPED: Final = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}
_FUNCTIONS: Final = {
    "eq": "EQUAL",
    "not-eq": "NOT_EQUAL",
    "lt": "LESS_THAN",
    "lt-eq": "LESS_OR_EQUAL",
    "gt": "GREATER_THAN",
    "gt-eq": "GREATER_OR_EQUAL",
    "starts-with": "STARTS_WITH",
}
_WIDER: Final = {"lt": "lt-eq", "gt": "gt-eq"}


@dataclass(frozen=True, slots=True)
class ReadExpression:
    """An expression as a predicate.

    Attributes:
        predicate: of Paimon's JSON form; None for one that every row meets.
        exact: whether every client takes just the rows that meet it.
    """

    predicate: Written | None
    exact: bool


def read_expression(written: object, columns: ReadColumns, limits: FilterLimits) -> ReadExpression:
    """The predicate that stands for an expression.

    Args:
        written: parsed JSON.
        columns: which it names.
        limits: how deep it may nest, and how many literals its lists may have.

    Raises:
        FilterError: it has not the shape of an expression, names no column, or has a literal that the column
            cannot be compared with.
        LimitExceededError: it nests too deeply, or has too many literals.
    """
    reader = _Reader(columns, limits)
    predicate = reader.read(written, negated=False, depth=0)
    return ReadExpression(None if predicate == _TRUE else predicate, reader.exact)


@final
class _Reader:
    """Reads one expression.

    Attributes:
        exact: whether every part so far was.
    """

    def __init__(self, columns: ReadColumns, limits: FilterLimits) -> None:
        self.exact = True
        self._columns = columns
        self._limits = limits
        self._literals = LiteralCount(limits)

    def read(self, written: object, *, negated: bool, depth: int) -> Written:
        """An expression, or what is true where it is not."""
        match written:
            case bool(value):
                return _constant(value is not negated)
            case {"type": "true" | "false" as name}:
                return _constant((name == "true") is not negated)
            case {"type": "literal", "value": bool(value)}:
                return _constant(value is not negated)
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

    def _compound(self, name: str, written: object, *, negated: bool, depth: int) -> Written:
        """Chains of one name are as long as lists, and nest in expressions only."""
        self._limits.check_depth(depth + 1)
        parts: list[object] = []
        pending = [written]
        while pending:
            match pending.pop():
                case {"type": str(same), "left": left, "right": right} if same == name:
                    pending += [right, left]
                case part:
                    parts.append(part)
        read = [self.read(part, negated=negated, depth=depth + 1) for part in parts]
        return _joined(read, is_and=(name == "and") is not negated)

    def _test(self, name: str, members: Mapping[Any, object], *, negated: bool) -> Written:
        check_deadline()
        if name not in _NEGATIONS:
            tests = hint(name, sorted(_NEGATIONS), what="tests")
            raise FilterError(f"{name!r:.100} is no test of an expression{tests}")
        if negated:
            name = _NEGATIONS[name]
        if name in _UNARY_NAMES:
            field = self._column(members, "child")
            return self._unknown() if field is None else self._unary(name, field)
        if name in _SET_NAMES:
            field, values = self._column(members, "child"), _values(members.get("values"))
            self._literals.add(len(values))
            return self._unknown() if field is None else self._set(name, field, values)
        return self._comparison(name, members)

    def _comparison(self, name: str, members: Mapping[str, object]) -> Written:
        if "term" in members:
            if "value" not in members:
                raise FilterError(f"{name} compares a term with a value")
            field, literal = self._column(members, "term"), members["value"]
        elif "left" in members and "right" in members:
            left, right = members["left"], members["right"]
            if _is_literal(left) and not _is_literal(right) and name in _FLIPPED:
                left, right, name = right, left, _FLIPPED[name]
            found = [
                self._column({"child": side}, "child") for side in (left, right) if not _is_literal(side)
            ]
            field, literal = (found[0], right) if found and _is_literal(right) else (None, None)
        else:
            raise FilterError(f"{name} compares left with right, or a term with a value")
        return self._unknown() if field is None else self._compare(name, field, _value(literal))

    def _column(self, members: Mapping[str, object], member: str) -> DataField | None:
        """The column that is tested; None where that is not a column, but something made of some."""
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

    def _unary(self, name: str, field: DataField) -> Written:
        is_float = field.type.root in FLOATING_ROOTS
        match name:
            case "is-null":
                return _leaf("IS_NULL", field)
            case "not-null":
                return _leaf("IS_NOT_NULL", field)
            case "is-nan":
                return _leaf("EQUAL", field, "NaN") if is_float else _FALSE
            case _:
                self.exact = False
                return _or_null(field, _leaf("NOT_EQUAL", field, "NaN")) if is_float else _TRUE

    def _compare(self, name: str, field: DataField, literal: object) -> Written:
        if field.type.root in NESTED_ROOTS:
            raise FilterError(f"{field.name} is {field.type}, which nothing can be compared with")
        if name.endswith("starts-with"):
            if field.type.root not in STRING_ROOTS or not isinstance(literal, str):
                raise FilterError(f"{name} tests text, and {field.name} is {field.type}", column=field.name)
            if name != "starts-with":
                return self._unknown()
        fitted = fit_literal(literal, field)
        if fitted is None:
            return self._unknown()
        self._note(field, fitted, is_order=name not in ("eq", "starts-with"))
        if name == "not-eq":
            self.exact = False
            return (
                self._unknown() if fitted.wide else _or_null(field, _leaf("NOT_EQUAL", field, fitted.value))
            )
        name = _WIDER.get(name, name) if fitted.wide else name
        return _leaf(_FUNCTIONS[name], field, fitted.value)

    def _set(self, name: str, field: DataField, values: Sequence[object]) -> Written:
        if field.type.root in NESTED_ROOTS:
            raise FilterError(f"{field.name} is {field.type}, which nothing can be compared with")
        fitted = [fit_literal(value, field) for value in values]
        if not fitted:
            return _constant(name == "not-in")
        known = [each for each in fitted if each is not None]
        if len(known) < len(fitted) or (name == "not-in" and any(each.wide for each in known)):
            return self._unknown()
        for each in known:
            self._note(field, each, is_order=False)
        literals = [each.value for each in known]
        if name == "in":
            return _leaf("IN", field, *literals)
        self.exact = False
        return _or_null(field, _leaf("NOT_IN", field, *literals))

    def _note(self, field: DataField, fitted: Fitted, *, is_order: bool) -> None:
        """Takes down whether clients may differ about a test: of NaN, zeros, blanks at the end of CHAR."""
        root = field.type.root
        differs = fitted.wide or root is TypeRoot.CHAR or (is_order and root in FLOATING_ROOTS)
        self.exact = self.exact and not differs

    def _unknown(self) -> Written:
        self.exact = False
        return _UNKNOWN


def _is_literal(written: object) -> bool:
    match written:
        case {"type": "literal"}:
            return True
        case dict():
            return False
        case _:
            return True


def _value(written: object) -> object:
    """The value of a literal in any of its forms."""
    match written:
        case {"type": "literal", "value": value}:
            return value
        case dict() | list() | None:
            raise FilterError(f"expected a literal, found {written!r:.100}")
        case value:
            return value


def _values(written: object) -> list[object]:
    match written:
        case {"type": "literals", "values": [*values]} | [*values]:
            return [_value(each) for each in values]
        case _:
            raise FilterError(f"expected a list of literals as values, found {written!r:.100}")


def _leaf(function: str, field: DataField, *literals: Any) -> Written:
    return {
        "kind": "LEAF",
        "transform": {"name": "FIELD_REF", "fieldRef": {"name": field.name}},
        "function": function,
        "literals": list(literals),
    }


def _constant(value: bool) -> Written:  # noqa: FBT001 - the name says it
    return {"kind": "LEAF", "function": "TRUE" if value else "FALSE"}


_TRUE: Final = _constant(True)  # noqa: FBT003 - likewise
_FALSE: Final = _constant(False)  # noqa: FBT003 - likewise
_UNKNOWN: Final[Written] = {"kind": "LEAF", "function": "UNKNOWN", "transform": {"name": "EXPRESSION"}}


def _or_null(field: DataField, test: Written) -> Written:
    return _joined([_leaf("IS_NULL", field), test], is_and=False)


def _joined(parts: Sequence[Written], *, is_and: bool) -> Written:
    decisive, neutral = (_FALSE, _TRUE) if is_and else (_TRUE, _FALSE)
    if decisive in parts:
        return decisive
    rest = [part for part in parts if part != neutral]
    if not rest:
        return neutral
    if len(rest) == 1:
        return rest[0]
    return {"kind": "COMPOUND", "function": "AND" if is_and else "OR", "children": list(rest)}

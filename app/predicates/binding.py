"""Binds a predicate to the columns of a table: names become fields, literals values, NOT moves to the leaves.

NOT is pushed down by SQL's three-valued logic before literals are fitted: ``NOT (tiny = 1000)`` becomes
``tiny <> 1000`` and only then ``tiny IS NOT NULL``, so rows with NULL are excluded. A test without an
opposite (LIKE, an unknown part) is unknown when negated.

A literal is read in the column's type. A number that is not a value of an integer or decimal type is between
two values, or beyond an end. ``b`` and ``a`` are the values below and above it:

========  =========  ==============  ========================================
test      value v    between b, a    beyond an end
========  =========  ==============  ========================================
``=``     ``= v``    false           false
``<>``    ``<> v``   IS NOT NULL     IS NOT NULL
``<``     ``< v``    ``<= b``        false, or IS NOT NULL (in text unknown)
``<=``    ``<= v``   ``<= b``        as ``<``
``>``     ``> v``    ``>= a``        as ``<``
``>=``    ``>= v``   ``>= a``        as ``<``
========  =========  ==============  ========================================

A test that readers may understand differently is unknown, and keeps every row: :mod:`app.predicates.doubts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple, assert_never

from app.errors import FilterError
from app.predicates import unbound
from app.predicates.char_forms import FormRoom, compare_char
from app.predicates.doubts import BEYOND, PADDED_KEYS, ROUNDED, WITHOUT_OPPOSITE, doubt_of
from app.predicates.like import Wildcard, read_pattern, write_pattern
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    NEGATIONS,
    NULL_TESTS,
    TEXT_TESTS,
    BoundLeaf,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.names import NAMELESS, Names, Relation
from app.predicates.simplify import conjunction, disjunction, value_list
from app.predicates.unbound import Leaf, ListedKind, Literal, LiteralKind, LiteralList
from app.types import (
    FLOATING_ROOTS,
    INTEGER_BITS,
    NESTED_ROOTS,
    STRING_ROOTS,
    DataField,
    DataType,
    TypeRoot,
    Value,
    parse_json,
    sql_key,
)
from app.types.json_values import parse_decimal, parse_integer
from app.types.values import integer_range, nearest_float32, to_float32

_SCALED_ROOTS: Final = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS})
_LISTED_ROOTS: Final = {
    ListedKind.INTEGER: frozenset(INTEGER_BITS),
    ListedKind.TEXT: frozenset({TypeRoot.VARCHAR}),
}
_INCLUSIVE: Final = {
    Operator.LESS_THAN: Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN: Operator.GREATER_OR_EQUAL,
}


def bind(
    predicate: unbound.Predicate, fields: Sequence[DataField], relation: Relation = NAMELESS
) -> BoundPredicate:
    """Bind a predicate to ``fields``, in the form that :mod:`app.predicates.model` guarantees.

    Raises FilterError if a column does not exist, or a literal does not fit.
    """
    return _Binder(Names(fields, relation)).bind(predicate, negated=False)


def bind_test(leaf: Leaf, field: DataField) -> BoundPredicate:
    """Bind one test to a field. Raises FilterError if a literal does not fit."""
    return _Binder(Names(())).test(leaf, field, negated=False)


class _Binder:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._room = FormRoom()

    def bind(self, predicate: unbound.Predicate, *, negated: bool) -> BoundPredicate:
        while isinstance(predicate, unbound.Not):
            predicate, negated = predicate.child, not negated
        match predicate:
            case unbound.Leaf():
                return self._leaf(predicate, negated=negated)
            case unbound.Flag(column):
                return self._flag(column, negated=negated)
            case unbound.And(children) | unbound.Or(children):
                # map, not a comprehension, which would be one more Python frame for each level of nesting.
                bound = tuple(map(partial(self.bind, negated=negated), children))
                is_and = isinstance(predicate, unbound.And) is not negated
                return conjunction(bound) if is_and else disjunction(bound)
            case unbound.TruthValue(value):
                # NULL excludes the row, like false, with or without NOT.
                return ALWAYS_FALSE if value is None or value is negated else ALWAYS_TRUE
            case unbound.Undecidable(text, columns, position, reason):
                for column in columns:
                    self._names.tested(column)
                doubts = filter(None, map(self._names.doubt, columns))
                return Unknown(_shown(text, negated=negated), position, reason=next(doubts, reason))
            case _:
                assert_never(predicate)

    def _leaf(self, leaf: Leaf, *, negated: bool) -> BoundPredicate:
        field = self._names.tested(leaf.column)
        if field is None:
            text = _shown(leaf.text, negated=negated)
            return Unknown(text, leaf.column.position, reason=self._names.doubt(leaf.column))
        if field.type.root in NESTED_ROOTS and leaf.operator not in NULL_TESTS:
            raise FilterError(
                f"{field.name} is {field.type}, which only IS NULL and IS NOT NULL can test",
                column=field.name,
                position=leaf.column.position,
            )
        if not self._names.has_one_form(field):
            return Unknown(leaf.text, leaf.column.position, reason=PADDED_KEYS)
        return self.test(leaf, field, negated=negated)

    def _flag(self, column: unbound.ColumnName, *, negated: bool) -> BoundPredicate:
        field = self._names.tested(column)
        if field is None:
            text = f"NOT {column}" if negated else str(column)
            return Unknown(text, column.position, reason=self._names.doubt(column))
        if field.type.root is not TypeRoot.BOOLEAN:
            raise FilterError(
                f"{field.name} is {field.type}; only a BOOLEAN column is a condition by itself",
                column=field.name,
                position=column.position,
            )
        return BoundLeaf(Operator.EQUAL, field, (not negated,))

    def test(self, leaf: Leaf, field: DataField, *, negated: bool) -> BoundPredicate:
        """Bind a test of ``field``, or its negation."""
        fitted = _fit_list(leaf.literals, field.type)
        if fitted is None and (doubt := doubt_of(leaf, field)) is not None:
            return Unknown(_shown(leaf.text, negated=negated), leaf.column.position, reason=doubt)
        operator = NEGATIONS.get(leaf.operator, leaf.operator) if negated else leaf.operator
        match operator:
            case Operator.IS_NULL | Operator.IS_NOT_NULL:
                return BoundLeaf(operator, field)
            case Operator.BETWEEN:
                return _range(leaf, field, negated=negated)
            case Operator.IN | Operator.NOT_IN if fitted is not None:
                return _one_of(operator, fitted, field)
            case _ if operator in TEXT_TESTS:
                return _text_test(leaf, field, negated=negated)
            case _ if field.type.root is TypeRoot.CHAR:
                test = compare_char(leaf, operator, field, self._room)
            case Operator.IN | Operator.NOT_IN:
                return _listed(operator, leaf, field)
            case _:
                test = _compare(operator, leaf, leaf.literals[0], field)
        if leaf.null_safe and negated and not isinstance(test, Unknown):
            return disjunction([test, BoundLeaf(Operator.IS_NULL, field)])
        return test


def _shown(text: str, *, negated: bool) -> str:
    return f"NOT ({text})" if negated else text


class _Place(NamedTuple):
    """Place of a literal in a type: a value, or its neighbours. Beyond an end, one neighbour is None."""

    below: Value | None
    value: Value | None
    above: Value | None
    # The literal is not a FLOAT, and ``value`` is the nearest one.
    is_rounded: bool = False


def _place(literal: Literal, field: DataField) -> _Place:
    try:
        if field.type.root in _SCALED_ROOTS:
            return _among_steps(_number(literal, field.type), field.type)
        if literal.kind is LiteralKind.NUMBER:
            return _among_floats(literal.value, field.type)
        return _Place(None, parse_json(literal.value, field.type), None)
    except FilterError as error:
        raise FilterError(str(error), column=field.name, position=literal.position) from error


def _among_floats(number: Any, data_type: DataType) -> _Place:
    """Place a number of a filter text in FLOAT or DOUBLE. Raises FilterError for any other type."""
    if data_type.root not in FLOATING_ROOTS:
        is_flag = data_type.root is TypeRoot.BOOLEAN
        expected = "true or false" if is_flag else "text in quotes, such as 'YYYY-MM-DD'"
        raise FilterError(f"{number} is not a value of type {data_type}: expected {expected}")
    double = float(number)
    if data_type.root is TypeRoot.DOUBLE or math.isnan(double) or to_float32(double) == double:
        return _Place(None, double, None)
    return _Place(None, nearest_float32(Fraction(number)), None, is_rounded=True)


def _number(literal: Literal, data_type: DataType) -> Fraction:
    match literal.value:
        case Fraction() as number:
            return number
        case written if literal.kind is LiteralKind.NUMBER or data_type.root is TypeRoot.DECIMAL:
            return Fraction(parse_decimal(written, data_type))
        case written:
            return Fraction(parse_integer(written, data_type))


def _among_steps(number: Fraction, data_type: DataType) -> _Place:
    """Place a number among the multiples of a power of ten that an integer or decimal type holds."""
    if data_type.root is TypeRoot.DECIMAL:
        low, high = 1 - 10**data_type.precision, 10**data_type.precision - 1
    else:
        low, high = integer_range(data_type)
    scaled = number * 10**data_type.scale
    below = math.floor(scaled)
    if below < low:
        return _Place(None, None, low)
    if scaled > high:
        return _Place(high, None, None)
    return _Place(None, below, None) if below == scaled else _Place(below, None, below + 1)


def _compare(operator: Operator, leaf: Leaf, literal: Literal, field: DataField) -> BoundPredicate:
    if literal.value is None:
        return ALWAYS_FALSE
    below, value, above, is_rounded = _place(literal, field)
    if is_rounded:
        # Readers compare FLOAT in 32 or 64 bits: the test covers both, and proves nothing.
        rough = _INCLUSIVE.get(operator, operator)
        covered = (
            BoundLeaf(Operator.IS_NOT_NULL, field)
            if rough is Operator.NOT_EQUAL
            else BoundLeaf(rough, field, (value,))  # type: ignore[arg-type] # rounding gives a value
        )
        return conjunction([covered, Unknown(leaf.text, leaf.column.position)])
    if isinstance(value, bool) and operator is Operator.NOT_EQUAL:
        return BoundLeaf(Operator.EQUAL, field, (not value,))
    if value is not None:
        return BoundLeaf(operator, field, (value,))
    match operator:
        case Operator.EQUAL:
            return ALWAYS_FALSE
        case Operator.NOT_EQUAL:
            return BoundLeaf(Operator.IS_NOT_NULL, field)
        case Operator.LESS_THAN | Operator.LESS_OR_EQUAL:
            end, beyond, inclusive = below, above, Operator.LESS_OR_EQUAL
        case _:
            end, beyond, inclusive = above, below, Operator.GREATER_OR_EQUAL
    if beyond is None and literal.kind is LiteralKind.JSON:
        return BoundLeaf(Operator.IS_NOT_NULL, field)
    if beyond is None:
        return Unknown(leaf.text, leaf.column.position, reason=BEYOND)
    return ALWAYS_FALSE if end is None else BoundLeaf(inclusive, field, (end,))


def _range(leaf: Leaf, field: DataField, *, negated: bool) -> BoundPredicate:
    ends = (
        (Operator.LESS_THAN, Operator.GREATER_THAN)
        if negated
        else (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL)
    )
    low, high = (
        _compare(end, leaf, literal, field) for end, literal in zip(ends, leaf.literals, strict=True)
    )
    if negated:
        return disjunction([low, high])
    match low, high:
        case (
            BoundLeaf(operator=Operator.GREATER_OR_EQUAL, literals=(first,)),
            BoundLeaf(operator=Operator.LESS_OR_EQUAL, literals=(last,)),
        ):
            return value_range(field, first, last)
        case _:
            return conjunction([low, high])


def value_range(field: DataField, low: Value, high: Value) -> BoundPredicate:
    """Bind ``field BETWEEN low AND high``: false if swapped, ``=`` if equal."""
    key = sql_key(field.type)
    if key(low) == key(high):
        return BoundLeaf(Operator.EQUAL, field, (low,))
    return BoundLeaf(Operator.BETWEEN, field, (low, high)) if key(low) < key(high) else ALWAYS_FALSE  # type: ignore[operator] # keys of one type


def _fit_list(literals: Sequence[Literal], data_type: DataType) -> Sequence[Value] | None:
    """Convert a list to values of the type at once. Return None if literals have to be placed one by one."""
    if not isinstance(literals, LiteralList) or data_type.root not in _LISTED_ROOTS[literals.kind]:
        return None
    values: Sequence[Any] = literals.values
    if literals.kind is ListedKind.INTEGER:
        low, high = integer_range(data_type)
        fits = low <= min(values) and max(values) <= high
        return values if fits else [value for value in values if low <= value <= high]
    try:
        return [text.encode() for text in values]
    except UnicodeEncodeError:
        # Half a surrogate pair: placing one by one reports its position.
        return None


def _one_of(operator: Operator, values: Sequence[Value], field: DataField) -> BoundPredicate:
    if operator is Operator.IN:
        return value_list(Operator.EQUAL, operator, field, values) if values else ALWAYS_FALSE
    if not values:
        return BoundLeaf(Operator.IS_NOT_NULL, field)
    if field.type.root is TypeRoot.BOOLEAN:
        return conjunction([BoundLeaf(Operator.EQUAL, field, (not value,)) for value in values])
    return value_list(Operator.NOT_EQUAL, operator, field, values)


def _listed(operator: Operator, leaf: Leaf, field: DataField) -> BoundPredicate:
    if not leaf.literals:
        return ALWAYS_FALSE if operator is Operator.IN else ALWAYS_TRUE
    literals = [literal for literal in leaf.literals if literal.value is not None]
    places = [_place(literal, field) for literal in literals]
    # NOT IN is never true for a list with NULL; in IN, NULL only turns false into NULL.
    if operator is Operator.NOT_IN and len(literals) < len(leaf.literals):
        return ALWAYS_FALSE
    if any(place.is_rounded for place in places):
        return Unknown(leaf.text, leaf.column.position, reason=ROUNDED)
    return _one_of(operator, [place.value for place in places if place.value is not None], field)


def _text_test(leaf: Leaf, field: DataField, *, negated: bool) -> BoundPredicate:
    literal = leaf.literals[0]
    if field.type.root not in STRING_ROOTS:
        raise FilterError(
            f"{leaf.operator} tests strings, but {field.name} is {field.type}",
            column=field.name,
            position=leaf.column.position,
        )
    if literal.value is None:
        return ALWAYS_FALSE
    text = _place(literal, field).value
    assert isinstance(text, bytes)  # noqa: S101 - a string's value
    test = _like_test(text, field) if leaf.operator is Operator.LIKE else _affix(leaf.operator, text, field)
    if not negated:
        return test
    match test:
        case BoundLeaf(operator=Operator.EQUAL, literals=literals):
            return BoundLeaf(Operator.NOT_EQUAL, field, literals)
        case BoundLeaf(operator=Operator.IS_NOT_NULL):
            return ALWAYS_FALSE  # every string passes the test
        case _:
            return Unknown(_shown(leaf.text, negated=True), leaf.column.position, reason=WITHOUT_OPPOSITE)


def _affix(operator: Operator, text: bytes, field: DataField) -> BoundLeaf:
    # Every string starts with, ends with and contains the empty string.
    return BoundLeaf(operator, field, (text,)) if text else BoundLeaf(Operator.IS_NOT_NULL, field)


def _like_test(pattern: bytes, field: DataField) -> BoundLeaf:
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

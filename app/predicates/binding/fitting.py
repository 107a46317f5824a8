"""Fits a literal to a column's type, by Spark's rules for comparing different types.

==================  =========================================================================================
column              literals of SQL that have a place
==================  =========================================================================================
numeric, BOOLEAN    numbers, booleans, text that Spark casts
strings             strings (with anything else Spark casts the column)
binaries            binaries
DATE, timestamps    dates, timestamps, text (:mod:`app.predicates.binding.time_fitting`)
others              none
==================  =========================================================================================

JSON literals are read in the column's type. NULL has no place in any type. A list of integers for an integer
column, or of strings for VARCHAR, is fitted as a whole (a value of CHAR has several forms); any other list is
fitted literal by literal.

Integers, decimals and booleans are *scaled* types: whole multiples of a power of ten between two ends. Spark
compares them exactly with a number of SQL. For a 32 or 64-bit literal it casts the **column** to floating
point, which is exact as long as the cast loses nothing near the literal. Floating columns compare with SQL
numbers as 64-bit floats; with integers the non-ANSI mode casts the integer to 32 bits instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from app.errors import FilterError
from app.predicates.binding.places import Exact, Gap, Nowhere, Place
from app.predicates.binding.time_fitting import TIME_ROOTS, place_among_instants, place_in_times
from app.predicates.spark_text import cast_boolean, cast_integer, cast_number, to_double
from app.predicates.unbound import ListedKind, Literal, LiteralKind, LiteralList
from app.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    DataField,
    DataType,
    TypeRoot,
    Value,
    parse_json,
)
from app.types.json_values import parse_decimal, parse_instants, parse_integer
from app.types.session_zone import SessionZone
from app.types.values import integer_range, nearest_float32, next_float32, to_float32

# Digits of Spark's widest DECIMAL; comparisons that need more round one side.
_MAX_DIGITS: Final = 38

# Below this limit every integer has a distinct 32 or 64-bit float.
_EXACT_INTEGERS: Final = {LiteralKind.FLOAT: 1 << 24, LiteralKind.DOUBLE: 1 << 53}

# Decimals with at most this many digits have distinct 64-bit floats.
_INJECTIVE_DIGITS: Final = 15

_SPARK_DIGITS: Final = {TypeRoot.BOOLEAN: 1, TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10}
_LONG_DIGITS: Final = 20
_LONG_ENDS: Final = integer_range(DataType(TypeRoot.BIGINT))


def place_in_scaled(literal: Literal, data_type: DataType) -> Place:
    """Place a literal in BOOLEAN, an integer type or DECIMAL.

    FilterError: a JSON literal is not a number. ValueError: Spark cannot cast the text.
    """
    place = _place_in_scaled(literal, data_type)
    if data_type.root is not TypeRoot.BOOLEAN:
        return place
    match place:
        case Exact(value):
            return Exact(bool(value))
        case Gap(below, above):
            return Gap(None if below is None else bool(below), None if above is None else bool(above))
        case _:
            return place


def _place_in_scaled(literal: Literal, data_type: DataType) -> Place:
    value = literal.value
    match literal.kind:
        case LiteralKind.JSON if data_type.root is TypeRoot.DECIMAL:
            return _place(Fraction(parse_decimal(value, data_type)), data_type)
        case LiteralKind.JSON:
            return _place(Fraction(parse_integer(value, data_type)), data_type)
        case LiteralKind.BOOLEAN:
            return _place(Fraction(bool(value)), data_type)
        case LiteralKind.NUMBER if isinstance(value, Decimal):
            return _place_of_number(value, literal.integer_digits, data_type)
        case LiteralKind.FLOAT | LiteralKind.DOUBLE if isinstance(value, float):
            return _place_of_float(value, literal.kind, data_type)
        case LiteralKind.STRING:
            return _place_of_text(str(value), data_type)
        case _:
            return Nowhere.UNDECIDED


def _place_of_number(number: Decimal, integer_digits: int, data_type: DataType) -> Place:
    if _needed_digits([(number, integer_digits)], data_type) > _MAX_DIGITS:
        return Nowhere.UNDECIDED
    place = _place(Fraction(number), data_type)
    is_beyond = data_type.root in INTEGER_BITS and not _LONG_ENDS[0] <= number <= _LONG_ENDS[1]
    return replace(place, folds=True) if is_beyond and isinstance(place, Gap) else place


def _place_of_text(text: str, data_type: DataType) -> Place:
    if data_type.root is TypeRoot.BOOLEAN:
        return Exact(cast_boolean(text))
    place: Place = Nowhere.UNDECIDED
    if data_type.root is TypeRoot.DECIMAL:
        if (number := cast_number(text)) is not None:
            place = _place_of_float(to_double(number), LiteralKind.DOUBLE, data_type)
    elif (integer := cast_integer(text)) is not None:
        place = _place(Fraction(integer), data_type)
    # For a text that is no value of the type, modes of Spark return NULL, an error or another value.
    return Nowhere.UNDECIDED if isinstance(place, Gap) else place


def _ends(data_type: DataType) -> tuple[int, int]:
    """Return the smallest and largest value of a scaled type, DECIMAL unscaled."""
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return 0, 1
        case TypeRoot.DECIMAL:
            return 1 - 10**data_type.precision, 10**data_type.precision - 1
        case _:
            return integer_range(data_type)


def _place(number: Fraction, data_type: DataType) -> Place:
    low, high = _ends(data_type)
    scaled = number * 10**data_type.scale
    below = math.floor(scaled)
    if below < low:
        return Gap(None, low)
    if scaled > high:
        return Gap(high, None)
    return Exact(below) if below == scaled else Gap(below, below + 1)


def _needed_digits(numbers: Iterable[tuple[Decimal, int]], data_type: DataType) -> int:
    """Count digits of the DECIMAL in which Spark compares a column with numbers; 0 if all are integers."""
    integer, fraction = data_type.precision - data_type.scale, data_type.scale
    if data_type.root is not TypeRoot.DECIMAL:
        integer, fraction = _SPARK_DIGITS.get(data_type.root, _LONG_DIGITS), 0
    for number, integer_digits in numbers:
        exponent = number.as_tuple().exponent
        fraction = max(fraction, -exponent if isinstance(exponent, int) else 0)
        integer = max(integer, integer_digits, number.adjusted() + 1)
    return integer + fraction if fraction or data_type.root is TypeRoot.DECIMAL else 0


def are_rounded(literals: Iterable[Literal], data_type: DataType) -> bool:
    """Return True if Spark rounds values of a list, or of the column, to compare them in one type."""
    if data_type.root not in _SCALED_ROOTS:
        return False
    numbers = (
        (literal.value, literal.integer_digits) for literal in literals if isinstance(literal.value, Decimal)
    )
    return _needed_digits(numbers, data_type) > _MAX_DIGITS


def _place_of_float(number: float, kind: LiteralKind, data_type: DataType) -> Place:
    low, high = _ends(data_type)
    unit = 10**data_type.scale
    if math.isnan(number) or math.isinf(number):
        return Gap(None, low) if number < 0 else Gap(high, None)
    # The cast is monotone: a number far outside the type is outside its casts, too.
    far_away = abs(Fraction(number)) * unit > 2 * high + 2
    if data_type.root is not TypeRoot.DECIMAL:
        limit = _EXACT_INTEGERS[kind]
        exact = far_away or high <= limit or abs(number) < limit
        return _place(Fraction(number), data_type) if exact else Nowhere.UNDECIDED
    if far_away or data_type.precision <= _INJECTIVE_DIGITS:
        return _place_among_casts(number, data_type)
    return Nowhere.UNDECIDED


def _place_among_casts(number: float, data_type: DataType) -> Place:
    """Place a 64-bit float among the casts of a DECIMAL's values."""
    place = _place(Fraction(number), data_type)
    if isinstance(place, Gap):
        for neighbour in (place.below, place.above):
            if neighbour is not None and float(Fraction(int(neighbour), 10**data_type.scale)) == number:
                return Exact(neighbour)
    return place


def place_in_double(literal: Literal) -> Place:
    """Place an SQL literal among DOUBLE values. ValueError: Spark cannot cast the text."""
    number = _as_decimal(literal)
    return Nowhere.UNDECIDED if number is None else Exact(to_double(number))


def place_in_float(literal: Literal) -> Place:
    """Place an SQL literal among FLOAT values. ValueError: Spark cannot cast the text."""
    number = _as_decimal(literal)
    if number is None:
        return Nowhere.UNDECIDED
    double = to_double(number)
    rounded = to_float32(double)
    if math.isnan(double) or rounded == double:
        return Exact(double)
    upwards = rounded > double
    below = next_float32(rounded, -math.inf) if upwards else rounded
    above = rounded if upwards else next_float32(rounded, math.inf)
    is_integer = literal.kind is LiteralKind.NUMBER and number == number.to_integral_value()
    may_be_cast = literal.kind is LiteralKind.STRING or is_integer
    return Gap(below, above, nearest_float32(Fraction(number)) if may_be_cast else None)


def _as_decimal(literal: Literal) -> Decimal | None:
    match literal.kind:
        case LiteralKind.NUMBER | LiteralKind.BOOLEAN | LiteralKind.FLOAT | LiteralKind.DOUBLE:
            return Decimal(literal.value)  # type: ignore[arg-type] # a number by its kind
        case LiteralKind.STRING:
            return cast_number(str(literal.value))
        case _:
            return None


_SCALED_ROOTS = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS})
_LISTED_ROOTS: Final = {
    ListedKind.INTEGER: frozenset(INTEGER_BITS),
    ListedKind.TEXT: frozenset({TypeRoot.VARCHAR}),
}


def fit(literal: Literal, field: DataField, zone: SessionZone | None) -> Place:
    """Place a literal among the values of a column. FilterError: it does not fit the column's type."""
    if literal.value is None:
        return Nowhere.NULL
    try:
        return _place_of_literal(literal, field.type, zone)
    except FilterError as error:
        raise FilterError(str(error), column=field.name, position=literal.position) from error
    except ValueError as error:
        shown = f"{literal.value!r:.100}"
        message = f"{shown} cannot be compared with {field.name}, which is {field.type}: {error}"
        raise FilterError(message, column=field.name, position=literal.position) from error


def _place_of_literal(literal: Literal, data_type: DataType, zone: SessionZone | None) -> Place:
    root = data_type.root
    if literal.kind is LiteralKind.JSON:
        return _place_of_json(literal, data_type, zone)
    if root in _SCALED_ROOTS or root is TypeRoot.BOOLEAN:
        return place_in_scaled(literal, data_type)
    if root is TypeRoot.FLOAT:
        return place_in_float(literal)
    if root is TypeRoot.DOUBLE:
        return place_in_double(literal)
    if root in STRING_ROOTS and literal.kind is LiteralKind.STRING:
        return Exact(str(literal.value).encode())
    if root in BINARY_ROOTS and isinstance(literal.value, bytes):
        return Exact(literal.value)
    if root in TIME_ROOTS:
        return place_in_times(literal, data_type, zone)
    return Nowhere.UNDECIDED


def _place_of_json(literal: Literal, data_type: DataType, zone: SessionZone | None) -> Place:
    # Numbers beyond the ends or between the steps of the type are decided instead of refused.
    if data_type.root in _SCALED_ROOTS:
        return place_in_scaled(literal, data_type)
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        return place_among_instants(parse_instants(literal.value, data_type, zone))
    value = parse_json(literal.value, data_type)
    return Nowhere.NULL if value is None else Exact(value)


def fit_list(literals: Sequence[Literal], data_type: DataType) -> Sequence[Value] | None:
    """Convert a list to values of the type; None if it has to be fitted literal by literal."""
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
        # Half a surrogate pair: fitting one by one reports its position.
        return None

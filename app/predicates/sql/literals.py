"""Literals of Spark SQL: numbers with suffixes, strings with escapes, typed literals, casts of literals.

Dates and timestamps, and casts between them, are in the session's time zone. ``TIMESTAMP`` means local time
zone here, Spark's default for ``spark.sql.timestampType``. Sums of literals are evaluated where they are
exact in every mode of Spark:

============================  ======================  =========================================
left                          right                   result
============================  ======================  =========================================
INT                           INT                     INT, unless it overflows
DATE                          INT, or whole days      DATE
DATE                          months or years         DATE, at the latest the month's last day
the day of the query          days, months or years   a DATE, once the query's day is known
the instant of the query      any interval            an instant, once the query's is known
============================  ======================  =========================================

Other sums may round, overflow or depend on the session's time zone.
"""

from __future__ import annotations

import binascii
import decimal
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Final

from app.errors import FilterError
from app.predicates.spark_text import cast_date, cast_integer, cast_number, cast_timestamp, to_double
from app.predicates.sql.tokens import LIST_ITEM
from app.predicates.unbound import Interval, ListedKind, Literal, LiteralKind, LiteralList, Moment
from app.types import DataType, TypeRoot
from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_SECOND, add_months
from app.types.session_zone import Instants, SessionZone, instants_of_clock, instants_of_day, instants_of_text
from app.types.values import integer_range, nearest_float32, to_float32

# Names of date and timestamp types.
TIME_TYPES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})


def time_literal(type_name: str, text: str, position: int, zone: SessionZone | None) -> Literal | None:
    """Parse a literal of one of :data:`TIME_TYPES`; None if unsupported, ValueError if invalid."""
    if type_name == "DATE":
        return Literal(LiteralKind.DATE, cast_date(text), position)
    read = cast_timestamp(text)
    if read is None:
        return None
    if type_name != "TIMESTAMP_NTZ":
        return Literal(LiteralKind.TIMESTAMP_LTZ, instants_of_text(read, zone), position)
    # Spark's versions disagree whether a wall clock respects the zone of a text.
    return None if read.zone is not None else Literal(LiteralKind.TIMESTAMP_NTZ, read.clock, position)


def cast_to_time(literal: Literal, type_name: str, position: int, zone: SessionZone | None) -> Literal | None:
    """Evaluate ``CAST(literal AS type)``; None if unsupported, ValueError if the text is invalid."""
    match literal.kind, literal.value:
        case LiteralKind.STRING, str(text):
            return time_literal(type_name, text, position, zone)
        case LiteralKind.DATE, int(day):
            return _of_day(day, type_name, position, zone)
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return _of_clock(clock, type_name, position, zone)
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            if type_name not in ("DATE", "TIMESTAMP_NTZ"):
                return Literal(LiteralKind.TIMESTAMP_LTZ, instants, position)
            # Several possible clocks are no literal.
            if zone is None or instants.low != instants.high or not zone.is_certain(instants.low):
                return None
            return _of_clock(zone.to_clock(instants.low), type_name, position, zone)
        case _:
            return None


def _of_day(day: int, type_name: str, position: int, zone: SessionZone | None) -> Literal:
    match type_name:
        case "DATE":
            return Literal(LiteralKind.DATE, day, position)
        case "TIMESTAMP_NTZ":
            return Literal(LiteralKind.TIMESTAMP_NTZ, day * NANOS_PER_DAY, position)
        case _:
            return Literal(LiteralKind.TIMESTAMP_LTZ, instants_of_day(day, zone), position)


def _of_clock(clock: int, type_name: str, position: int, zone: SessionZone | None) -> Literal:
    match type_name:
        case "DATE":
            return Literal(LiteralKind.DATE, clock // NANOS_PER_DAY, position)
        case "TIMESTAMP_NTZ":
            return Literal(LiteralKind.TIMESTAMP_NTZ, clock, position)
        case _:
            return Literal(LiteralKind.TIMESTAMP_LTZ, instants_of_clock(clock, zone), position)


_MAX_NUMBER_TEXT: Final = 400
_NUMBER: Final = re.compile(r"([0-9.]+)([eE][+-]?[0-9]{1,5})?(BD|[LSYDF])?", re.IGNORECASE)
# Bits that the smallest value of the type needs; the sign is parsed elsewhere.
_SUFFIX_BITS: Final = {"Y": 7, "S": 15, "L": 63}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_PLAIN_ESCAPES: Final = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_SPECIAL_TIMES: Final = frozenset({"epoch", "now", "today", "tomorrow", "yesterday"})
_INTEGER_TYPES: Final = {
    "TINYINT": TypeRoot.TINYINT,
    "BYTE": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "SHORT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "LONG": TypeRoot.BIGINT,
}
_DECIMAL_TYPES: Final = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_DECIMAL_DEFAULT: Final = (10, 0)
_MAX_PRECISION: Final = 38
_EXACT: Final = decimal.Context(prec=2 * _MAX_NUMBER_TEXT + 100, rounding=decimal.ROUND_HALF_UP)


def read_number(text: str, position: int) -> Literal:
    """Parse a number without its sign. FilterError: Spark has no such literal."""
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_NUMBER_TEXT else None
    if match is None:
        raise FilterError(f"{text:.100} is out of every number's range", position=position)
    digits, exponent, suffix = match.group(1), match.group(2) or "", (match.group(3) or "").upper()
    number = Decimal(digits + exponent)
    if abs(number.adjusted()) > _MAX_NUMBER_TEXT:
        raise FilterError(f"{text:.100} is out of every number's range", position=position)
    if suffix in ("L", "S", "Y"):
        if exponent or "." in digits:
            raise FilterError(f"{text:.100} has the suffix of an integer, but is none", position=position)
        if number > 1 << _SUFFIX_BITS[suffix]:
            raise FilterError(f"{text:.100} is out of the range of its suffix", position=position)
        return Literal(LiteralKind.NUMBER, number, position)
    if suffix == "BD" or (not suffix and not exponent):
        return Literal(LiteralKind.NUMBER, number, position)
    is_float = suffix == "F"
    value = nearest_float32(Fraction(number)) if is_float else float(number)
    if math.isinf(value):
        raise FilterError(
            f"{text:.100} is out of the range of {'FLOAT' if is_float else 'DOUBLE'}", position=position
        )
    return Literal(LiteralKind.FLOAT if is_float else LiteralKind.DOUBLE, value, position)


def read_list(text: str, position: int) -> Sequence[Literal]:
    """Parse the values of a LIST token."""

    def one_by_one() -> Iterator[Literal]:
        return _read_one_by_one(text, position)

    if "'" not in text:
        try:
            return LiteralList(ListedKind.INTEGER, [*map(int, text.split(","))], one_by_one)
        except ValueError:  # numbers with a point
            return tuple(one_by_one())
    # Strings alternate with the separators between them.
    before, *parts, behind = text.split("'")
    if not before and not behind and {separator.strip() for separator in parts[1::2]} == {","}:
        return LiteralList(ListedKind.TEXT, parts[::2], one_by_one)
    return tuple(one_by_one())


def _read_one_by_one(text: str, position: int) -> Iterator[Literal]:
    for match in LIST_ITEM.finditer(text):
        item = match[0]
        if item[0] == "'":
            yield Literal(LiteralKind.STRING, item[1:-1], position + match.start())
        else:
            # As for other numbers, the position is that of the digits.
            yield Literal(LiteralKind.NUMBER, Decimal(item), position + match.start() + (item[0] == "-"))


def negate(literal: Literal) -> Literal | None:
    """Negate a literal; None where Spark has to evaluate."""
    match literal.value:
        case Decimal() as number:
            # The operator would round to the context's precision.
            return Literal(literal.kind, number.copy_negate(), literal.position, literal.integer_digits)
        case float(number):
            return Literal(literal.kind, -number, literal.position)
        case None:
            return literal
        case _:
            return None


def read_string(text: str, position: int) -> str:
    """Unescape a string token. FilterError: an escape names no character."""
    if text[0] in "rR":
        return text[2:-1]
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    try:
        unescaped = _ESCAPE.sub(_unescape, inner)
    except (ValueError, OverflowError) as error:
        raise FilterError(
            f"an escape in this string names no character: {error}", position=position
        ) from error
    # Two escapes may be the halves of one character beyond U+FFFF.
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape(match: re.Match[str]) -> str:
    short, long, octal, plain = match.groups()
    if plain is not None:
        return _PLAIN_ESCAPES.get(plain, plain)
    return chr(int(octal, 8) if octal else int(short or long, 16))


def typed_literal(type_name: str, text: str, position: int, zone: SessionZone | None) -> Literal | None:
    """Parse ``DATE '2025-08-01'`` and other typed literals, type in upper case; None if unsupported.

    FilterError: the text is no value of the type.
    """
    if text.strip().lower() in _SPECIAL_TIMES:
        return None
    try:
        match type_name:
            case "X":
                digits = text if len(text) % 2 == 0 else f"0{text}"
                return Literal(LiteralKind.BINARY, binascii.unhexlify(digits), position)
            case _ if type_name in TIME_TYPES:
                return time_literal(type_name, text, position, zone)
            case _:
                return None
    except ValueError as error:
        raise FilterError(f"{text!r:.100} is no {type_name} literal: {error}", position=position) from error


def cast_literal(
    literal: Literal, type_name: str, arguments: tuple[int, ...], position: int, zone: SessionZone | None
) -> Literal | None:
    """Evaluate ``CAST(literal AS type)`` to a date, timestamp, number or string; None where modes differ."""
    is_decimal = type_name in _DECIMAL_TYPES
    if len(arguments) > (2 if is_decimal else 0):
        return None
    if literal.kind is LiteralKind.NULL:
        return None  # a NULL of a type decides as what the other literals of a list are compared
    try:
        if type_name in TIME_TYPES:
            return cast_to_time(literal, type_name, position, zone)
        if type_name in _INTEGER_TYPES:
            return _cast_to_integer(literal, type_name, position)
        if is_decimal:
            return _cast_to_decimal(literal, arguments, position)
        if type_name in ("FLOAT", "DOUBLE"):
            return _cast_to_floating(literal, type_name, position)
    except ValueError:
        return None
    return literal if type_name == "STRING" and literal.kind is LiteralKind.STRING else None


def _number(literal: Literal) -> object:
    return cast_number(literal.value) if isinstance(literal.value, str) else literal.value


def _cast_to_integer(literal: Literal, type_name: str, position: int) -> Literal | None:
    match literal.value:
        case str(text):
            number = cast_integer(text)
        case Decimal() as exact if exact == exact.to_integral_value():
            number = int(exact)
        case _:
            return None
    low, high = integer_range(DataType(_INTEGER_TYPES[type_name]))
    if number is None or not low <= number <= high:
        return None
    return Literal(LiteralKind.NUMBER, Decimal(number), position)


def _cast_to_floating(literal: Literal, type_name: str, position: int) -> Literal | None:
    number, kind = _number(literal), LiteralKind(type_name)
    match number:
        case Decimal() if number.is_finite() and kind is LiteralKind.FLOAT:
            value = nearest_float32(Fraction(number)) if number else float(number)
        case Decimal():
            value = to_double(number)
        case float():
            value = number if kind is LiteralKind.DOUBLE else to_float32(number)
        case _:
            return None
    return Literal(kind, value, position)


def _cast_to_decimal(literal: Literal, arguments: tuple[int, ...], position: int) -> Literal | None:
    number = _number(literal)
    precision, scale = (*arguments, *_DECIMAL_DEFAULT[len(arguments) :])
    if not isinstance(number, Decimal) or not number.is_finite() or not scale <= precision <= _MAX_PRECISION:
        return None
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rounded.copy_abs().scaleb(scale, _EXACT) >= 10**precision:
        return None
    return Literal(LiteralKind.NUMBER, rounded, position, precision - scale)


_INT: Final = range(-(1 << 31), 1 << 31)
_COUNT: Final = re.compile(r"[+-]?[0-9]{1,9}")
_MOST_STEPS: Final = 8
_UNITS: Final = {
    "SECOND": Interval(nanos=NANOS_PER_SECOND),
    "MINUTE": Interval(nanos=60 * NANOS_PER_SECOND),
    "HOUR": Interval(nanos=3600 * NANOS_PER_SECOND),
    "DAY": Interval(days=1),
    "WEEK": Interval(days=7),
    "MONTH": Interval(months=1),
    "YEAR": Interval(months=12),
}


def is_int(number: int) -> bool:
    """Return True if Spark reads digits without a suffix as an INT."""
    return number in _INT


def read_interval(count: str, unit: str, *, negative: bool) -> Interval | None:
    """Parse an interval of one unit; None if unsupported."""
    one = _UNITS.get(unit.strip().upper().removesuffix("S"))
    if one is None or not _COUNT.fullmatch(count):
        return None
    return _times(one, -int(count) if negative else int(count))


def integer_literal(number: int, position: int | None) -> Literal:
    """Return the literal of an INT."""
    return Literal(LiteralKind.NUMBER, Decimal(number), position)


def added(left: Literal | int, right: object, *, negative: bool) -> Literal | int | None:
    """Evaluate ``left + right``, or ``left - right`` if ``negative``; None if unsupported."""
    match left, right:
        case int(one), int(other):
            return _int(one - other if negative else one + other)
        case Literal(), int(days):
            return _moved(left, Interval(days=-days if negative else days))
        case Literal(), Interval() as interval:
            return _moved(left, _times(interval, -1) if negative else interval)
        case _:
            return None


def multiplied(left: Literal | int, right: Literal | int) -> int | None:
    """Multiply two INTs; None if unsupported."""
    return _int(left * right) if isinstance(left, int) and isinstance(right, int) else None


def _int(number: int) -> int | None:
    return number if number in _INT else None


def _times(interval: Interval, count: int) -> Interval:
    return Interval(interval.months * count, interval.days * count, interval.nanos * count)


def _moved(literal: Literal, by: Interval) -> Literal | None:
    match literal.value:
        case int(day) if literal.kind is LiteralKind.DATE and not by.nanos:
            moved = add_months(day, by.months) + by.days
            return replace(literal, value=moved) if moved in _INT else None
        case Moment(is_date=is_date, steps=steps) as moment if (
            not (is_date and by.nanos) and len(steps) < _MOST_STEPS
        ):
            return replace(literal, value=replace(moment, steps=(*steps, by)))
        case _:
            return None

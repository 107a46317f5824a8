"""Reads JSON literals, keys and partitions as values, in every form that the HTTP contract names.

=====================  =====================================================================================
type                   forms
=====================  =====================================================================================
BOOLEAN                boolean, or its text
integers               number without a fraction, or its text
FLOAT, DOUBLE          number, its text, ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, ``"-0.0"``
DECIMAL                number, or its text
strings                string
binaries               ``{"$hex": ".."}``, ``{"$base64": ".."}``, a string of hexadecimal digits
DATE                   ``"2025-08-01"``, ``"+12345-01-01"``, epoch days, ``[y, m, d]``, ``{"$days": n}``
TIME                   ``"12:30[:15[.250]]"``, milliseconds of the day, ``[h, m[, s[, ns]]]``
TIMESTAMP              ISO text, ``[y, mo, d, h, mi[, s[, ns]]]``, ``{"$ms": n[, "$nanos": n]}``
TIMESTAMP_LTZ          ISO text with an offset, ``{"$ms": n[, "$nanos": n]}``, and a number with a point, as
                       the engine writes seconds since 1970
=====================  =====================================================================================

A number with more digits than a float keeps may be a ``decimal.Decimal``.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import math
import re
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from app.errors import FilterError
from app.types.civil_time import (
    MILLIS_PER_DAY,
    NANOS_PER_DAY,
    NANOS_PER_MILLI,
    NANOS_PER_SECOND,
    TimestampText,
    day_nanos,
    epoch_days,
    offset_nanos,
    read_clock,
    read_date,
    read_timestamp,
)
from app.types.data_types import DataType, TypeRoot
from app.types.values import Value, integer_range, to_float32

# Longest number that is read, in characters.
MAX_NUMBER_TEXT: Final = 400

_MAX_INTEGER_DIGITS: Final = 40
_INTEGER: Final = re.compile(rf"[+-]?\d{{1,{_MAX_INTEGER_DIGITS}}}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d++\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)

_EXACT_SECONDS: Final = decimal.Context(prec=2 * MAX_NUMBER_TEXT + 100)

NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT = decimal.Context(prec=2 * MAX_NUMBER_TEXT + 100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def is_integer(value: object) -> bool:
    """Return True if a JSON value is an integer. Booleans are not, though Python counts them as such."""
    return isinstance(value, int) and not isinstance(value, bool)


def any_integer(value: object) -> int:
    """Read an integer of any size, or its text. Raises ValueError if it is neither."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, decimal.Decimal) and any_decimal(value) == value.to_integral_value():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    raise ValueError("not an integer")


def any_decimal(value: object) -> decimal.Decimal:
    """Read a finite decimal with up to 400 digits on either side, or its text.

    Raises ValueError if it is neither.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
        raise ValueError("not a number")  # noqa: TRY004 - turned into one error for all
    if isinstance(value, int) and abs(value) >= 10**MAX_NUMBER_TEXT:
        raise ValueError("too many digits")
    # A JSON float stands for the digits that were written; repr gives the shortest such text.
    text = repr(value) if isinstance(value, float) else str(value).strip()
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a number")
    number = decimal.Decimal(text)
    if len(text) > MAX_NUMBER_TEXT or abs(number.adjusted()) > MAX_NUMBER_TEXT:
        raise ValueError("too many digits")
    return number


def read_json_date(value: object, _: DataType) -> int:
    """Read days since 1970-01-01. Raises ValueError if the value has no form of a date."""
    match value:
        case int(days) | {"$days": int(days)} if is_integer(days):
            pass
        case [int(year), int(month), int(day)]:
            days = epoch_days(year, month, day)
        case str(text):
            days = read_date(text.strip())
        case _:
            raise ValueError('expected "YYYY-MM-DD", epoch days, [y, m, d] or {"$days": n}')
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError("the days since 1970-01-01 have 32 bits")
    return days


def read_json_time(value: object, _: DataType) -> int:
    """Read milliseconds of the day. Raises ValueError if the value has no form of a time of day."""
    match value:
        case int(millis) if is_integer(millis) and 0 <= millis < MILLIS_PER_DAY:
            return millis
        case [int(), int(), *_]:
            nanos = _array_clock(value)
        case str(text):
            nanos = read_clock(text.strip())
        case _:
            raise ValueError('expected "HH:MM[:SS[.fraction]]", milliseconds of the day or [h, m, s, ns]')
    if nanos % NANOS_PER_MILLI:
        raise ValueError("TIME holds no digits below the millisecond")
    return nanos // NANOS_PER_MILLI


def read_json_clock(value: object, _: DataType) -> int:
    """Read a wall clock, in nanoseconds since 1970-01-01T00:00.

    Raises ValueError if the value has no form of one.
    """
    millis = _from_millis(value)
    if millis is not None:
        return millis
    written = _written(value)
    if written is None:
        raise ValueError('expected ISO text, [y, mo, d, h, mi, s, ns] or {"$ms": n, "$nanos": n}')
    if written.zone is not None:
        raise ValueError("a wall-clock time has no zone")
    return _within_millis(written.clock)


def read_json_instant(value: object, _: DataType) -> int:
    """Read an instant, in nanoseconds since 1970-01-01T00:00Z.

    Raises ValueError if the value has no form of one.
    """
    exact = _from_millis(value)
    if exact is None and isinstance(value, float | decimal.Decimal):
        exact = _within_millis(_from_seconds(any_decimal(value)))
    if exact is not None:
        return exact
    written = _written(value)
    if written is None:
        raise ValueError('expected ISO text with an offset, {"$ms": n, "$nanos": n} or seconds with a point')
    offset = offset_nanos(written.zone)
    if offset is None:
        raise ValueError("a clock is an instant only in a time zone: give an offset, such as Z or +05:30")
    return _within_millis(written.clock - offset)


def has_offset(value: object) -> bool | None:
    """Return True for a timestamp with an offset, False for one without or in a named zone, else None."""
    try:
        written = _written(value)
    except ValueError:
        return None
    return None if written is None else offset_nanos(written.zone) is not None


def _written(value: object) -> TimestampText | None:
    match value:
        case [int(year), int(month), int(day), *clock]:
            return TimestampText(epoch_days(year, month, day) * NANOS_PER_DAY + _array_clock(clock), None)
        case str(text):
            return read_timestamp(text.strip())
        case _:
            return None


def _from_seconds(written: decimal.Decimal) -> int:
    """Read an instant as the engine writes it: whole seconds, rounded down, a point, nanoseconds."""
    # Before 1970 that is not a plain decimal: half a second before is written -1.5.
    seconds = int(written)
    nanos = _EXACT_SECONDS.subtract(written, seconds).copy_abs().scaleb(9, _EXACT_SECONDS)
    if nanos != nanos.to_integral_value() or (seconds == 0 and written < 0):
        raise ValueError("the engine writes no such number of seconds")
    return seconds * NANOS_PER_SECOND + int(nanos)


def _from_millis(value: object) -> int | None:
    match value:
        case {"$ms": int(millis), "$nanos": int(nanos), **unexpected} if not unexpected:
            pass
        case {"$ms": int(millis), **unexpected} if not unexpected:
            nanos = 0
        case _:
            return None
    if not 0 <= nanos < NANOS_PER_MILLI:
        raise ValueError("a millisecond has 0 to 999999 nanoseconds")
    return _within_millis(millis * NANOS_PER_MILLI + nanos)


def _within_millis(nanos: int) -> int:
    # The engine counts milliseconds in 64 bits.
    if not -(1 << 63) <= nanos // NANOS_PER_MILLI < 1 << 63:
        raise ValueError("the milliseconds since 1970-01-01 have 64 bits")
    return nanos


def _array_clock(parts: Sequence[object]) -> int:
    match parts:
        case [int(hour), int(minute)]:
            return day_nanos(hour, minute)
        case [int(hour), int(minute), int(second)]:
            return day_nanos(hour, minute, second)
        case [int(hour), int(minute), int(second), int(fraction)]:
            return day_nanos(hour, minute, second, fraction)
        case _:
            raise ValueError("a clock is hours and minutes, then seconds and nanoseconds if need be")


def parse_json(value: object, data_type: DataType) -> Value | None:
    """Read a JSON value as a value of ``data_type``. Null is ``None``.

    Raises FilterError if the value has no such form, or does not fit the type.
    """
    if value is None:
        return None
    read = _READERS.get(data_type.root)
    if read is None:
        raise FilterError(f"values of type {data_type} cannot be compared")
    try:
        return read(value, data_type)
    except ValueError as error:
        _refuse(value, data_type, error)


def parse_integer(value: object, data_type: DataType) -> int:
    """Read an integer of any size, without checking the type's range. Raises FilterError if it is none."""
    try:
        return any_integer(value)
    except ValueError as error:
        _refuse(value, data_type, error)


def parse_decimal(value: object, data_type: DataType) -> decimal.Decimal:
    """Read a finite decimal of up to 400 digits on either side, without fitting it to the type.

    Raises FilterError if it is none.
    """
    try:
        return any_decimal(value)
    except ValueError as error:
        _refuse(value, data_type, error)


def _refuse(value: object, data_type: DataType, reason: ValueError) -> NoReturn:
    huge = isinstance(value, int) and abs(value) >= 10**MAX_NUMBER_TEXT
    text = "this number" if huge else str(value) if isinstance(value, decimal.Decimal) else repr(value)
    raise FilterError(f"{text:.100} is not a value of type {data_type}: {reason}") from reason


def _boolean(value: object, _: DataType) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("expected true or false")


def _integer_in_range(value: object, data_type: DataType) -> int:
    number = any_integer(value)
    low, high = integer_range(data_type)
    if not low <= number <= high:
        raise ValueError(f"the type holds {low} to {high}")
    return number


def _string(value: object, _: DataType) -> bytes:
    if not isinstance(value, str):
        raise ValueError("expected a string")  # noqa: TRY004 - turned into one error for all
    return value.encode()


def _binary(value: object, _: DataType) -> bytes:
    match value:
        case {"$base64": str(text), **unexpected} if not unexpected:
            return base64.b64decode(text, validate=True)
        case str(text):
            return binascii.unhexlify(text)
        case {"$hex": str(text), **unexpected} if not unexpected:
            return binascii.unhexlify(text)
        case _:
            raise ValueError('expected {"$hex": ".."}, {"$base64": ".."} or hexadecimal digits')


def _double(value: object, _: DataType) -> float:
    if isinstance(value, str):
        text = value.strip()
        return NOT_FINITE[text] if text in NOT_FINITE else float(any_decimal(text))
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise ValueError("not a number")  # noqa: TRY004 - turned into one error for all
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _float(value: object, data_type: DataType) -> float:
    return to_float32(_double(value, data_type))


def _unscaled(value: object, data_type: DataType) -> int:
    scaled = any_decimal(value).scaleb(data_type.scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled:
        raise ValueError(f"it has more than {data_type.scale} fraction digits")
    if abs(unscaled) >= 10**data_type.precision:
        raise ValueError("it has too many digits")
    return unscaled


_READERS: dict[TypeRoot, Callable[[object, DataType], Value]] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.TINYINT: _integer_in_range,
    TypeRoot.SMALLINT: _integer_in_range,
    TypeRoot.INT: _integer_in_range,
    TypeRoot.BIGINT: _integer_in_range,
    TypeRoot.FLOAT: _float,
    TypeRoot.DOUBLE: _double,
    TypeRoot.DECIMAL: _unscaled,
    TypeRoot.CHAR: _string,
    TypeRoot.VARCHAR: _string,
    TypeRoot.BINARY: _binary,
    TypeRoot.VARBINARY: _binary,
    TypeRoot.DATE: read_json_date,
    TypeRoot.TIME: read_json_time,
    TypeRoot.TIMESTAMP: read_json_clock,
    TypeRoot.TIMESTAMP_LTZ: read_json_instant,
}

"""Values as JSON: the liberal reading of literals, keys and partitions, and the one form of answers.

Reading accepts every form that the HTTP contract names; writing uses the first form named there. Text
forms of dates and timestamps reach from year 1 to 9999; beyond, answers use ``{"$days": n}`` and
``{"$ms": n, "$nanos": n}``.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import math
import re
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from app.errors import FilterError
from app.types.data_types import BINARY_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, TypeRoot
from app.types.values import MILLIS_PER_DAY, NANOS_PER_MILLI, Value, integer_range, to_float32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"

_EPOCH = dt.date(1970, 1, 1).toordinal()
_NANOS_PER_SECOND = 1_000_000_000
_SECONDS_PER_DAY = 86_400
_MAX_DECIMAL_TEXT = 400
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT = decimal.Context(prec=1000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}:?\d{2})?",
)


def parse_json(value: object, data_type: DataType) -> Value | None:
    """Reads one JSON value as a value of ``data_type``; JSON null is ``None``.

    Raises:
        FilterError: the value has no such form, or does not fit the type.
    """
    if value is None:
        return None
    root = data_type.root
    if root in INTEGER_BITS:
        return _integer_in_range(value, data_type)
    if root in STRING_ROOTS:
        return _string(value, data_type)
    if root in BINARY_ROOTS:
        return _binary(value, data_type)
    if root in TIMESTAMP_ROOTS:
        return _timestamp(value, data_type)
    match root:
        case TypeRoot.BOOLEAN:
            return value if isinstance(value, bool) else _boolean_text(value, data_type)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            number = _floating(value, data_type)
            return to_float32(number) if root is TypeRoot.FLOAT else number
        case TypeRoot.DECIMAL:
            return _unscaled(value, data_type)
        case TypeRoot.DATE:
            return _date(value, data_type)
        case TypeRoot.TIME:
            return _time(value, data_type)
        case _:
            raise FilterError(f"values of type {data_type} cannot be compared")


def parse_integer(value: object, data_type: DataType) -> int:
    """An integer of any size from a JSON number or its text; range is the caller's matter."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,40}\s*", value):
        return int(value)
    _refuse(value, data_type)


def parse_decimal(value: object, data_type: DataType) -> decimal.Decimal:
    """A finite decimal of any scale from a JSON number or its text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
        _refuse(value, data_type)
    # A JSON float stands for the digits that were written; repr gives the shortest such text.
    text = repr(value) if isinstance(value, float) else str(value).strip()
    if len(text) > _MAX_DECIMAL_TEXT:
        _refuse(value, data_type)
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        _refuse(value, data_type)
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DECIMAL_TEXT:
        _refuse(value, data_type)
    return number


def _refuse(value: object, data_type: DataType) -> NoReturn:
    raise FilterError(f"{value!r:.100} is not a value of type {data_type}")


def _integer_in_range(value: object, data_type: DataType) -> int:
    number = parse_integer(value, data_type)
    low, high = integer_range(data_type)
    if not low <= number <= high:
        raise FilterError(f"{number} is outside of {data_type}, which holds {low} to {high}")
    return number


def _boolean_text(value: object, data_type: DataType) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    _refuse(value, data_type)


def _string(value: object, data_type: DataType) -> bytes:
    if not isinstance(value, str):
        _refuse(value, data_type)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise FilterError(f"{value!r:.100} has half a surrogate pair, which UTF-8 cannot hold") from error


def _binary(value: object, data_type: DataType) -> bytes:
    match value:
        case {"$base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise FilterError(f"{text!r:.100} is not base64: {error}") from error
        case {"$hex": str(text)} if len(value) == 1:
            pass
        case str(text):
            pass
        case _:
            _refuse(value, data_type)
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError) as error:
        raise FilterError(f"{text!r:.100} is not a hex string: {error}") from error


def _floating(value: object, data_type: DataType) -> float:
    if isinstance(value, str):
        if value in _SPECIAL_FLOATS:
            return _SPECIAL_FLOATS[value]
        return float(parse_decimal(value, data_type)) if value.strip() != "-0.0" else -0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(value, data_type)
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _unscaled(value: object, data_type: DataType) -> int:
    number = parse_decimal(value, data_type)
    scaled = number.scaleb(data_type.scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled:
        raise FilterError(f"{number} has more than the {data_type.scale} fraction digits of {data_type}")
    if abs(unscaled) >= 10**data_type.precision:
        raise FilterError(f"{number} has more digits than {data_type} holds")
    return unscaled


def _epoch_days(year: int, month: int, day: int, value: object, data_type: DataType) -> int:
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH
    except ValueError as error:
        raise FilterError(f"{value!r:.100} is not a value of type {data_type}: {error}") from error


def _date(value: object, data_type: DataType) -> int:
    match value:
        case bool():
            _refuse(value, data_type)
        case int() | {"$days": int()}:
            days = value if isinstance(value, int) else value["$days"]
            if not -(1 << 31) <= days < 1 << 31:
                _refuse(value, data_type)
            return int(days)
        case [int(year), int(month), int(day)]:
            return _epoch_days(year, month, day, value, data_type)
        case str():
            found = _DATE.fullmatch(value.strip())
            if found:
                year, month, day = map(int, found.groups())
                return _epoch_days(year, month, day, value, data_type)
    _refuse(value, data_type)


def _day_nanos(hour: int, minute: int, second: int, nanos: int, value: object, data_type: DataType) -> int:
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nanos < _NANOS_PER_SECOND):  # noqa: PLR2004 - a clock
        _refuse(value, data_type)
    return ((hour * 60 + minute) * 60 + second) * _NANOS_PER_SECOND + nanos


def _time(value: object, data_type: DataType) -> int:
    match value:
        case bool():
            _refuse(value, data_type)
        case int():
            if not 0 <= value < MILLIS_PER_DAY:
                _refuse(value, data_type)
            return value
        case [int(hour), int(minute)]:
            nanos = _day_nanos(hour, minute, 0, 0, value, data_type)
        case [int(hour), int(minute), int(second)]:
            nanos = _day_nanos(hour, minute, second, 0, value, data_type)
        case [int(hour), int(minute), int(second), int(fraction)]:
            nanos = _day_nanos(hour, minute, second, fraction, value, data_type)
        case str():
            found = _TIME.fullmatch(value.strip())
            if found is None:
                _refuse(value, data_type)
            nanos = _clock(found.groups(), value, data_type)
        case _:
            _refuse(value, data_type)
    if nanos % NANOS_PER_MILLI:
        raise FilterError(f"{value!r:.100} has digits below the millisecond, which TIME cannot hold")
    return nanos // NANOS_PER_MILLI


def _clock(parts: Sequence[str | None], value: object, data_type: DataType) -> int:
    hour, minute, second, fraction = parts
    nanos = int((fraction or "").ljust(9, "0"))
    return _day_nanos(int(hour or 0), int(minute or 0), int(second or 0), nanos, value, data_type)


def _timestamp(value: object, data_type: DataType) -> int:
    match value:
        case {"$ms": int(millis), **rest} if set(rest) <= {"$nanos"}:
            nanos = rest.get("$nanos", 0)
            if (
                not isinstance(nanos, int)
                or not 0 <= nanos < NANOS_PER_MILLI
                or not -(1 << 63) <= millis < 1 << 63
            ):
                _refuse(value, data_type)
            return millis * NANOS_PER_MILLI + nanos
        case [int(year), int(month), int(day), int(hour), int(minute), *rest] if len(rest) <= 2 and all(  # noqa: PLR2004 - seconds and nanoseconds
            isinstance(part, int) for part in rest
        ):
            second, fraction = [*rest, 0, 0][:2]
            days = _epoch_days(year, month, day, value, data_type)
            clock = _day_nanos(hour, minute, second, fraction, value, data_type)
            return days * _SECONDS_PER_DAY * _NANOS_PER_SECOND + clock
        case str():
            return _timestamp_text(value, data_type)
    _refuse(value, data_type)


def _timestamp_text(value: str, data_type: DataType) -> int:
    found = _TIMESTAMP.fullmatch(value.strip())
    if found is None:
        _refuse(value, data_type)
    year, month, day = (int(part) for part in found.group(1, 2, 3))
    days = _epoch_days(year, month, day, value, data_type)
    nanos = days * _SECONDS_PER_DAY * _NANOS_PER_SECOND + _clock(found.group(4, 5, 6, 7), value, data_type)
    zone = found.group(8)
    if zone is None:
        return nanos
    if data_type.root is TypeRoot.TIMESTAMP:
        raise FilterError(
            f"{value!r} carries a zone, but {data_type} is a wall-clock time: leave the zone out"
        )
    if zone in ("Z", "UTC"):
        return nanos
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return nanos + (-minutes if zone[0] == "+" else minutes) * 60 * _NANOS_PER_SECOND


def to_json(value: Value | None, data_type: DataType) -> Json:
    """The answer form of one value."""
    if value is None or isinstance(value, bool):
        return value
    match data_type.root:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _floating_json(float(value), data_type)
        case TypeRoot.DECIMAL:
            return format(decimal.Decimal(int(value)).scaleb(-data_type.scale, _EXACT), "f")
        case TypeRoot.DATE:
            return _date_json(int(value))
        case TypeRoot.TIME:
            return _clock_text(int(value) * NANOS_PER_MILLI)
        case TypeRoot.TIMESTAMP:
            return _timestamp_json(int(value), "")
        case TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_json(int(value), "Z")
        case TypeRoot.BINARY | TypeRoot.VARBINARY if isinstance(value, bytes):
            return {"$hex": value.hex()}
        case _:
            # Stored strings may hold any bytes; a reader of the answer still gets the rest of the text.
            return value.decode(errors="replace") if isinstance(value, bytes) else value


def _floating_json(number: float, data_type: DataType) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 and math.copysign(1, number) < 0:
        return "-0.0"
    return _shortest_float32(number) if data_type.root is TypeRoot.FLOAT else number


def _shortest_float32(number: float) -> float:
    """The double with the fewest digits that still rounds to this 32-bit value."""
    for digits in range(6, 9):
        candidate = float(f"{number:.{digits}g}")
        if to_float32(candidate) == number:
            return candidate
    return number


def _date_json(days: int) -> Json:
    ordinal = days + _EPOCH
    if not 1 <= ordinal <= dt.date.max.toordinal():
        return {"$days": days}
    return dt.date.fromordinal(ordinal).isoformat()


def _clock_text(nanos: int) -> str:
    seconds, fraction = divmod(nanos, _NANOS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text if fraction == 0 else f"{text}.{fraction:09}".rstrip("0")


def _timestamp_json(nanos: int, zone: str) -> Json:
    days, clock = divmod(nanos, _SECONDS_PER_DAY * _NANOS_PER_SECOND)
    day = _date_json(days)
    if not isinstance(day, str):
        millis, rest = divmod(nanos, NANOS_PER_MILLI)
        return {"$ms": millis, "$nanos": rest}
    return f"{day}T{_clock_text(clock)}{zone}"

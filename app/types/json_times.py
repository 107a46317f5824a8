"""Dates, times of day and timestamps in JSON, in every form that :mod:`app.types.json_values` names."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Final

from app.types.civil_time import TimestampText, day_nanos, epoch_days, read_clock, read_date, read_timestamp
from app.types.data_types import DataType
from app.types.json_numbers import MAX_NUMBER_TEXT, any_decimal, is_integer
from app.types.session_zone import Instants, SessionZone, instants_of_text
from app.types.time_units import MILLIS_PER_DAY, NANOS_PER_DAY, NANOS_PER_MILLI, NANOS_PER_SECOND

_EXACT: Final = decimal.Context(prec=2 * MAX_NUMBER_TEXT + 100)


def read_json_date(value: object, _: DataType) -> int:
    """Days since 1970-01-01.

    Raises:
        ValueError: the value has no form of a date.
    """
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
    """Milliseconds of the day.

    Raises:
        ValueError: the value has no form of a time of day.
    """
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
    """A wall clock, in nanoseconds since 1970-01-01T00:00.

    Raises:
        ValueError: the value has no form of a timestamp without time zone.
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


def read_json_instants(value: object, zone: SessionZone | None) -> Instants:
    """An instant; a form that names no zone is one of ``zone``, which is None where it is not known.

    Raises:
        ValueError: the value has no form of a timestamp with local time zone.
    """
    exact = _from_millis(value)
    if exact is None and isinstance(value, float | decimal.Decimal):
        exact = _within_millis(_from_seconds(any_decimal(value)))
    if exact is not None:
        return Instants(exact, exact)
    written = _written(value)
    if written is None:
        raise ValueError(
            'expected ISO text, [y, mo, d, h, mi, s, ns], {"$ms": n, "$nanos": n} or seconds with a point'
        )
    _within_millis(written.clock)
    return instants_of_text(written, zone)


def _written(value: object) -> TimestampText | None:
    """A timestamp in a form that may have a zone; None for any other form."""
    match value:
        case [int(year), int(month), int(day), *clock]:
            return TimestampText(epoch_days(year, month, day) * NANOS_PER_DAY + _array_clock(clock), None)
        case str(text):
            return read_timestamp(text.strip())
        case _:
            return None


def _from_seconds(written: decimal.Decimal) -> int:
    """Nanoseconds of an instant as the engine writes it: whole seconds, rounded down, a point, nanoseconds.

    Before 1970 that is no plain decimal: half a second before it is written ``-1.5``.
    """
    seconds = int(written)
    nanos = _EXACT.subtract(written, seconds).copy_abs().scaleb(9, _EXACT)
    if nanos != nanos.to_integral_value() or (seconds == 0 and written < 0):
        raise ValueError("the engine writes no such number of seconds")
    return seconds * NANOS_PER_SECOND + int(nanos)


def _from_millis(value: object) -> int | None:
    """Nanoseconds of ``{"$ms": n, "$nanos": n}``; None for any other form."""
    match value:
        case {"$ms": int(millis), "$nanos": int(nanos), **others} if not others:
            pass
        case {"$ms": int(millis), **others} if not others:
            nanos = 0
        case _:
            return None
    if not 0 <= nanos < NANOS_PER_MILLI:
        raise ValueError("a millisecond has 0 to 999999 nanoseconds")
    return _within_millis(millis * NANOS_PER_MILLI + nanos)


def _within_millis(nanos: int) -> int:
    """Nanoseconds since the epoch that the engine can have, which counts the milliseconds in 64 bits."""
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

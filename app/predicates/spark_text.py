"""Text as Spark's CAST reads it.

Each function answers with the value, with None where Spark may find a value that is not understood here (a
named zone, a time of today), and with ValueError where there is none: Spark then fails, or takes NULL.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from app.types.civil_time import NANOS_PER_DAY, TimestampText, epoch_days, read_timestamp
from app.types.values import NANOS_PER_MICRO

_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_MAX_DIGITS: Final = 400
_NAN: Final = frozenset({"nan"})
_INFINITY: Final = frozenset({"inf", "+inf", "infinity", "+infinity"})
_MINUS_INFINITY: Final = frozenset({"-inf", "-infinity"})

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER: Final = re.compile(r"([+-]?(?:\d++\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?)([dDfF]?)", re.ASCII)
_DATE: Final = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})([ T].*)?)?)?", re.ASCII | re.DOTALL)
_CLOCK_FIRST: Final = re.compile(r"T?\d{1,2}:\d.*", re.ASCII | re.DOTALL)
_CLOCK_NEXT: Final = re.compile(r"[ T]\d.*", re.ASCII | re.DOTALL)
_MAX_TIMESTAMP_YEAR_DIGITS: Final = 6


def cast_boolean(text: str) -> bool:
    """Reads a BOOLEAN."""
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("not a boolean")


def cast_integer(text: str) -> int | None:
    """Reads an integer of any size; None for other numbers, which some of Spark's modes cut."""
    trimmed = text.strip()
    if len(trimmed) <= _MAX_DIGITS and _INTEGER.fullmatch(trimmed):
        return int(trimmed)
    if _NUMBER.fullmatch(trimmed):
        return None
    raise ValueError("not an integer")


def cast_number(text: str) -> Decimal | None:
    """Reads a number, NaN and the infinities among them, exactly."""
    trimmed = text.strip()
    word = trimmed.lower()
    if word in _NAN:
        return Decimal("NaN")
    if word in _INFINITY or word in _MINUS_INFINITY:
        return Decimal("Infinity" if word in _INFINITY else "-Infinity")
    found = _NUMBER.fullmatch(trimmed)
    if found is None:
        raise ValueError("not a number")
    number = Decimal(found.group(1))
    if found.group(2) or len(trimmed) > _MAX_DIGITS or abs(number.adjusted()) > _MAX_DIGITS:
        return None
    return number


def to_double(number: Decimal) -> float:
    """The nearest 64-bit float of a number that :func:`cast_number` read."""
    return math.nan if number.is_nan() else float(number)


def cast_date(text: str) -> int:
    """Reads a DATE, in days since 1970-01-01; month and day may be left out, a clock behind it is ignored."""
    days = _date(_date_parts(text))
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError("the days since 1970-01-01 have 32 bits")
    return days


def _date_parts(text: str) -> re.Match[str]:
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a date")
    return found


def _date(parts: re.Match[str]) -> int:
    year, month, day = parts.group(1, 2, 3)
    return epoch_days(int(year), int(month or 1), int(day or 1))


def cast_timestamp(text: str) -> TimestampText | None:
    """Reads a TIMESTAMP with or without a zone."""
    trimmed = text.strip()
    if _CLOCK_FIRST.fullmatch(trimmed):
        return None  # a time of the current day
    parts = _date_parts(trimmed)
    days, clock = _date(parts), parts.group(4)
    if len(parts.group(1).lstrip("+-")) > _MAX_TIMESTAMP_YEAR_DIGITS:
        raise ValueError("the year of a timestamp has at most six digits")
    if clock is None:
        return _within_micros(TimestampText(days * NANOS_PER_DAY, None))
    if not _CLOCK_NEXT.fullmatch(clock):
        raise ValueError("not a timestamp")
    try:
        read = read_timestamp(trimmed)
    except ValueError:
        return None  # a named zone, or a clock that is written otherwise
    return _within_micros(read)


def _within_micros(read: TimestampText) -> TimestampText:
    """A timestamp that Spark can hold, which counts the microseconds in 64 bits."""
    if not -(1 << 63) <= read.utc_nanos // NANOS_PER_MICRO < 1 << 63:
        raise ValueError("the microseconds since 1970-01-01 have 64 bits")
    return read

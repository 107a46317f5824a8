"""Casts text as Spark's CAST does.

Functions return None where Spark may find a value that is not supported here (a time of today), and raise
ValueError where there is none: Spark then fails, or returns NULL.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_MICRO, TimestampText, day_nanos, epoch_days

_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_MAX_DIGITS: Final = 400
_NOT_FINITE: Final = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER: Final = re.compile(r"([+-]?(?:\d++\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?)([dDfF]?)", re.ASCII)
# Characters that Java strips from the text of a number.
_SPACES: Final = "".join(map(chr, range(0x21)))
# White space and control characters, which Spark strips from integers, booleans, dates and timestamps.
_BLANKS: Final = f"{_SPACES}\x7f"
_DATE: Final = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})([ T].*)?)?)?", re.ASCII | re.DOTALL)
_TODAY: Final = re.compile(r"T\d{1,2}(?::\d.*)?|\d{1,2}:\d.*", re.ASCII | re.DOTALL)
# Year, month, day, hour, minute, second, fraction and zone; Spark accepts a zone only after seconds.
_TIMESTAMP: Final = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T]"
    r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d:.].*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_FRACTION_DIGITS: Final = 9


def cast_boolean(text: str) -> bool:
    """Parse a BOOLEAN."""
    word = text.strip(_BLANKS).lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("not a boolean")


def cast_integer(text: str) -> int | None:
    """Parse an integer of any size; None for other numbers, which some of Spark's modes truncate."""
    trimmed = text.strip(_BLANKS)
    if len(trimmed) <= _MAX_DIGITS and _INTEGER.fullmatch(trimmed):
        return int(trimmed)
    if _NUMBER.fullmatch(trimmed):
        return None
    raise ValueError("not an integer")


def not_finite(text: str) -> float | None:
    """Parse NaN or an infinity; None for other text."""
    return _NOT_FINITE.get(text.strip(_SPACES).lower())


def cast_number(text: str) -> Decimal | None:
    """Parse a number exactly, including NaN and the infinities."""
    if (special := not_finite(text)) is not None:
        return Decimal(special)
    trimmed = text.strip(_SPACES)
    match = _NUMBER.fullmatch(trimmed)
    if match is None:
        raise ValueError("not a number")
    number = Decimal(match.group(1))
    if match.group(2) or len(trimmed) > _MAX_DIGITS or abs(number.adjusted()) > _MAX_DIGITS:
        return None
    return number


def to_double(number: Decimal) -> float:
    """Round a number of :func:`cast_number` to the nearest 64-bit float."""
    return math.nan if number.is_nan() else float(number)


def cast_date(text: str) -> int:
    """Parse a DATE as days since 1970-01-01; month and day are optional, a time after it is ignored."""
    match = _DATE.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError("not a date")
    days = _day(*match.group(1, 2, 3))
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError("the days since 1970-01-01 have 32 bits")
    return days


def cast_timestamp(text: str) -> TimestampText | None:
    """Parse a TIMESTAMP with or without a zone; the zone's existence is not checked."""
    trimmed = text.strip(_BLANKS)
    if _TODAY.fullmatch(trimmed):
        return None
    match = _TIMESTAMP.fullmatch(trimmed)
    if match is None:
        raise ValueError("not a timestamp")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    nanos = int((fraction or "")[:_FRACTION_DIGITS].ljust(_FRACTION_DIGITS, "0"))
    clock = day_nanos(int(hour or 0), int(minute or 0), int(second or 0), nanos)
    clock += _day(year, month, day) * NANOS_PER_DAY
    if not -(1 << 63) <= clock // NANOS_PER_MICRO < 1 << 63:
        raise ValueError("the microseconds since 1970-01-01 have 64 bits")
    return TimestampText(clock, None if zone is None else zone.strip(_BLANKS))


def _day(year: str, month: str | None, day: str | None) -> int:
    return epoch_days(int(year), int(month or 1), int(day or 1))

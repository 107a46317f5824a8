"""Calendar dates, clock times and units of time as numbers, and the text that JSON and SQL literals share.

The text is ISO 8601 with the liberties of both languages: one-digit months, days and hours, a blank for the
``T``, optional seconds and up to nine fraction digits, and a zone after it: ``Z``, an offset (``+01:00``,
``+0100``) or a name (``America/New_York``). Days follow the proleptic Gregorian calendar, as in java.time and
Spark: the year before 1 is 0. Years have four to nine digits and may have a sign (``+12345-01-01``,
``-0001-01-01``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NANOS_PER_MICRO: Final = 1_000
NANOS_PER_MILLI: Final = 1_000_000
NANOS_PER_SECOND: Final = 1_000_000_000
# Keys are Arrow's names of units.
NANOS_PER_UNIT: Final = {"s": NANOS_PER_SECOND, "ms": NANOS_PER_MILLI, "us": NANOS_PER_MICRO, "ns": 1}
SECONDS_PER_DAY: Final = 86_400
MILLIS_PER_DAY: Final = SECONDS_PER_DAY * 1_000
NANOS_PER_DAY: Final = SECONDS_PER_DAY * NANOS_PER_SECOND

# The calendar, including days of the week, repeats after this many years.
CYCLE_YEARS: Final = 400
CYCLE_DAYS: Final = 146_097


# Days from 0000-03-01 to the epoch: counting years from March puts the leap day last.
_MARCH_0 = 719_468
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2
_MAX_PLAIN_YEAR = 9_999

_CLOCK_PATTERN = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_DATE = re.compile(r"([+-]?\d{4,9})-(\d{1,2})-(\d{1,2})", re.ASCII)
_CLOCK = re.compile(_CLOCK_PATTERN, re.ASCII)
_TIMESTAMP = re.compile(
    rf"([+-]?\d{{4,9}}-\d{{1,2}}-\d{{1,2}})(?:[T ]({_CLOCK_PATTERN})\s*([A-Za-z+-].{{0,99}})?)?", re.ASCII
)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
# Largest distance of a zone from UTC: the limit of `java.time.ZoneOffset`.
MAX_OFFSET_NANOS: Final = 18 * 3600 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class TimestampText:
    """Timestamp as written.

    ``clock`` is the wall clock, in nanoseconds since 1970-01-01T00:00. ``zone`` is the zone after it, for
    :func:`offset_nanos`, or None.
    """

    clock: int
    zone: str | None


def epoch_days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01, for any year. Raises ValueError if there is no such day."""
    if not (1 <= month <= len(_MONTH_DAYS) and 1 <= day <= _MONTH_DAYS[month - 1]) or (
        (month, day) == (_FEBRUARY, 29) and not _is_leap(year)
    ):
        raise ValueError("there is no such day")
    cycle, year_of_cycle = divmod(year - (month <= _FEBRUARY), CYCLE_YEARS)
    # March to January have 31, 30, 31, 30 and 31 days, over and over.
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    leap_days = year_of_cycle // 4 - year_of_cycle // 100
    return cycle * CYCLE_DAYS + year_of_cycle * 365 + leap_days + day_of_year - _MARCH_0


def civil_date(days: int) -> tuple[int, int, int]:
    """Split days since 1970-01-01, in any year, into year, month and day."""
    cycle, day_of_cycle = divmod(days + _MARCH_0, CYCLE_DAYS)
    leap_days = day_of_cycle // 1_460 - day_of_cycle // 36_524 + day_of_cycle // (CYCLE_DAYS - 1)
    year_of_cycle = (day_of_cycle - leap_days) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    months_since_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * months_since_march + 2) // 5 + 1
    month = (months_since_march + 2) % 12 + 1
    return cycle * CYCLE_YEARS + year_of_cycle + (month <= _FEBRUARY), month, day


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % CYCLE_YEARS == 0)


def day_nanos(hour: int, minute: int, second: int = 0, nanos: int = 0) -> int:
    """Return nanoseconds since midnight. Raises ValueError if there is no such time of day."""
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nanos < NANOS_PER_SECOND):  # noqa: PLR2004 - a clock
        raise ValueError("no such time of day")
    return ((hour * 60 + minute) * 60 + second) * NANOS_PER_SECOND + nanos


def read_date(text: str) -> int:
    """Parse ``2025-08-01`` as days since 1970-01-01. Raises ValueError if the text is not a date."""
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise ValueError("not of the form YYYY-MM-DD")
    year, month, day = map(int, parts.groups())
    return epoch_days(year, month, day)


def read_clock(text: str) -> int:
    """Parse ``12:30[:15[.250]]`` as nanoseconds since midnight.

    Raises ValueError if the text is not a time of day.
    """
    parts = _CLOCK.fullmatch(text)
    if parts is None:
        raise ValueError("not of the form HH:MM[:SS[.fraction]]")
    hour, minute, second, fraction = parts.groups()
    return day_nanos(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(9, "0")))


def read_timestamp(text: str) -> TimestampText:
    """Parse ``2025-08-01T12:30:15.25+02:00`` and its shorter forms.

    Raises ValueError if the text is not a timestamp.
    """
    parts = _TIMESTAMP.fullmatch(text)
    if parts is None:
        raise ValueError("not of the form YYYY-MM-DD[THH:MM[:SS[.fraction]][zone]]")
    clock = read_date(parts.group(1)) * NANOS_PER_DAY
    if parts.group(2) is not None:
        clock += read_clock(parts.group(2))
    return TimestampText(clock, parts.group(7))


def offset_nanos(zone: str | None) -> int | None:
    """Return how far ``Z`` or an offset such as ``+05:30`` is ahead of UTC, in nanoseconds.

    Return None without a zone, for an invalid offset, and for a named zone, whose offsets depend on the
    reader's rules.
    """
    if zone in ("Z", "z", "UTC", "GMT"):
        return 0
    parts = None if zone is None else _OFFSET.fullmatch(zone)
    if parts is None:
        return None
    sign, hours, minutes, seconds = parts.groups(default="0")
    nanos = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * NANOS_PER_SECOND
    is_valid = max(int(minutes), int(seconds)) < 60 and nanos <= MAX_OFFSET_NANOS  # noqa: PLR2004 - a clock
    return (-nanos if sign == "-" else nanos) if is_valid else None


def date_text(days: int) -> str:
    """Format ``2025-08-01``. Years above 9999 or below 0 have a sign, as in Spark and Java."""
    year, month, day = civil_date(days)
    sign = "-" if year < 0 else "+" if year > _MAX_PLAIN_YEAR else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def clock_text(nanos: int) -> str:
    """Format ``12:30:15`` with the fraction digits that are needed."""
    seconds, fraction = divmod(nanos, NANOS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text if fraction == 0 else f"{text}.{fraction:09}".rstrip("0")

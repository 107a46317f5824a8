"""Calendar dates and clock times as numbers, and the text form that JSON and SQL literals share.

The text form is ISO 8601's with the liberties both languages take: one-digit months, days and hours, a blank
for the ``T``, seconds and up to nine fraction digits left out at will, and a zone as ``Z``, ``UTC``,
``+01:00`` or ``+0100``. Years run from 1 to 9999.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Final

NANOS_PER_SECOND: Final = 1_000_000_000
NANOS_PER_MINUTE: Final = 60 * NANOS_PER_SECOND
NANOS_PER_DAY: Final = 86_400 * NANOS_PER_SECOND

_EPOCH = dt.date(1970, 1, 1).toordinal()
_LAST = dt.date.max.toordinal()
_MAX_ZONE_MINUTES = 18 * 60

_CLOCK_PATTERN = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_CLOCK = re.compile(_CLOCK_PATTERN, re.ASCII)
_TIMESTAMP = re.compile(
    rf"(\d{{4}}-\d{{1,2}}-\d{{1,2}})(?:[T ]({_CLOCK_PATTERN}))?\s?(Z|UTC|[+-]\d{{2}}:?\d{{2}})?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class TimestampText:
    """A timestamp as it was written.

    Attributes:
        nanos: the wall clock, in nanoseconds since 1970-01-01T00:00.
        zone_minutes: minutes that the wall clock is ahead of UTC; None where no zone was written.
    """

    nanos: int
    zone_minutes: int | None

    @property
    def utc_nanos(self) -> int:
        """The instant, in nanoseconds since the epoch; without a zone the clock is taken as UTC."""
        return self.nanos - (self.zone_minutes or 0) * NANOS_PER_MINUTE


def epoch_days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01.

    Raises:
        ValueError: there is no such day, or its year is not between 1 and 9999.
    """
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH
    except OverflowError as error:
        raise ValueError("a part of the date is far too large") from error


def day_nanos(hour: int, minute: int, second: int = 0, nanos: int = 0) -> int:
    """Nanoseconds since midnight.

    Raises:
        ValueError: no clock shows that.
    """
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nanos < NANOS_PER_SECOND):  # noqa: PLR2004 - a clock
        raise ValueError("no such time of day")
    return ((hour * 60 + minute) * 60 + second) * NANOS_PER_SECOND + nanos


def read_date(text: str) -> int:
    """Days since 1970-01-01 of ``2025-08-01``.

    Raises:
        ValueError: the text is no date.
    """
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError("not of the form YYYY-MM-DD")
    year, month, day = map(int, found.groups())
    return epoch_days(year, month, day)


def read_clock(text: str) -> int:
    """Nanoseconds since midnight of ``12:30[:15[.250]]``.

    Raises:
        ValueError: the text is no time of day.
    """
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("not of the form HH:MM[:SS[.fraction]]")
    hour, minute, second, fraction = found.groups()
    return day_nanos(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(9, "0")))


def read_timestamp(text: str) -> TimestampText:
    """Reads ``2025-08-01T12:30:15.25+02:00`` and its shorter forms.

    Raises:
        ValueError: the text is no timestamp.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError("not of the form YYYY-MM-DD[THH:MM[:SS[.fraction]]][zone]")
    nanos = read_date(found.group(1)) * NANOS_PER_DAY
    if found.group(2) is not None:
        nanos += read_clock(found.group(2))
    zone = found.group(7)
    return TimestampText(nanos, None if zone is None else _zone_minutes(zone))


def _zone_minutes(zone: str) -> int:
    if zone in ("Z", "UTC"):
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    if minutes > _MAX_ZONE_MINUTES or int(zone[-2:]) >= 60:  # noqa: PLR2004 - minutes of an hour
        raise ValueError("zones lie within 18 hours of UTC")
    return -minutes if zone[0] == "-" else minutes


def date_text(days: int) -> str | None:
    """``2025-08-01``; None outside of the years 1 to 9999."""
    ordinal = days + _EPOCH
    return dt.date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= _LAST else None


def clock_text(nanos: int) -> str:
    """``12:30:15`` with the fraction digits that are needed."""
    seconds, fraction = divmod(nanos, NANOS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text if fraction == 0 else f"{text}.{fraction:09}".rstrip("0")

"""The time zone of a session: converts wall clocks to instants, and instants to clocks.

Wall clocks resolve by ``java.time``'s rules, as in Spark:

===========================  =================================================================================
clock                        instant
===========================  =================================================================================
shown once                   the instant at which it is shown
shown twice (overlap)        the earlier one
never shown (gap)            the clock moves forward by the length of the gap
start of a day               the first instant of the day: midnight, or the end of the gap that midnight is in
===========================  =================================================================================

Clocks and instants are nanoseconds since 1970-01-01T00:00 (of the clock, or in UTC). Names are those of
``spark.sql.session.timeZone``: regions of the IANA database, the short names of ``java.time``, offsets
(``+05:30``), and offsets after ``UTC``, ``GMT`` or ``UT``. The rules come from the ``tzdata`` package, so
they are equal on every machine. A reader's rules may differ: ``America/Vancouver@2025a`` names their release,
and where releases disagree (:mod:`app.types.reader_rules`), a clock is one of several instants.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from app.suggestions import hint
from app.types.civil_time import CYCLE_SECONDS, NANOS_PER_DAY, NANOS_PER_SECOND, TimestampText
from app.types.reader_rules import DoubtfulTime, doubts_of

# Largest distance of a zone from UTC: the limit of `java.time.ZoneOffset`.
MAX_OFFSET_NANOS: Final = 18 * 3600 * NANOS_PER_SECOND

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_FIRST_SECOND: Final = int((dt.datetime(1, 1, 3) - _EPOCH).total_seconds())  # noqa: DTZ001 - a wall clock
_LAST_SECOND: Final = int((dt.datetime(9999, 12, 29) - _EPOCH).total_seconds())  # noqa: DTZ001 - a wall clock
# No zone changes its offset twice within this many seconds.
_SEARCH_STEP: Final = 6 * 3600
_REMEMBERED_ZONES: Final = 1024
_REMEMBERED_OFFSETS: Final = 1 << 14
_NEARBY_STEP: Final = 15 * 86_400
# Half-month steps: a year of them includes both changes of summer time.
_NEARBY_STEPS: Final = range(-13, 14)

_ONE_DIGIT_HOUR: Final = re.compile(r"([+-])(\d):", re.ASCII)
_ONE_DIGIT_MINUTE: Final = re.compile(r"([+-]\d\d:)(\d)$", re.ASCII)
_OFFSET: Final = re.compile(
    r"(?P<sign>[+-])(?:(?P<hours>\d{1,2})|(?P<clock>\d{2}:\d{2}(?::\d{2})?)|(?P<plain>\d{4}(?:\d{2})?))",
    re.ASCII,
)
_PREFIXED: Final = re.compile(r"(?:UTC|GMT|UT)(?P<offset>[+-].*)?", re.ASCII)
_RELEASE: Final = re.compile(r"(?P<zone>.*)@(?P<release>\d{4}[a-z]{1,2})", re.ASCII | re.DOTALL)
# `java.time.ZoneId.SHORT_IDS`.
_SHORT_NAMES: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}


class Instants(NamedTuple):
    """Instant, as far as it is known: from ``low`` to ``high``, inclusive.

    The two differ only for a wall clock in a session whose time zone or rules are unknown.
    """

    low: int
    high: int


class Shift(NamedTuple):
    """Period up to its exclusive ``end`` in which clocks are ``offset`` nanoseconds ahead of UTC."""

    start: int
    end: int
    offset: int


@dataclass(frozen=True, slots=True)
class SessionZone:
    """Time zone; :func:`session_zone` makes it.

    ``fixed_seconds`` is a constant offset, None for a region; ``doubts`` are periods in which readers'
    offsets may differ from the region's.
    """

    name: str
    fixed_seconds: int | None = field(default=None, compare=False)
    region: ZoneInfo | None = field(default=None, compare=False, repr=False)
    release: str | None = field(default=None, compare=False)
    doubts: tuple[DoubtfulTime, ...] = field(default=(), compare=False, repr=False)

    def is_certain(self, at: int) -> bool:
        """Return True if every reader has these offsets around a clock or an instant."""
        second = at // NANOS_PER_SECOND
        return not any(doubt.covers(second) for doubt in self.doubts)

    def offsets(self, at: int) -> tuple[int, int]:
        """Return the least and greatest offset, in nanoseconds, that a reader may have around that time."""
        second = at // NANOS_PER_SECOND
        margins = [doubt.margin for doubt in self.doubts if doubt.covers(second)]
        if None in margins:
            return -MAX_OFFSET_NANOS, MAX_OFFSET_NANOS
        least, greatest = _offsets_around(self, second // _NEARBY_STEP)
        margin = max(filter(None, margins), default=0)
        low, high = (least - margin) * NANOS_PER_SECOND, (greatest + margin) * NANOS_PER_SECOND
        return max(low, -MAX_OFFSET_NANOS), min(high, MAX_OFFSET_NANOS)

    def to_instant(self, clock: int) -> int:
        """Convert a wall clock to an instant."""
        return clock - self._offset_of_clock(clock, fold=0)

    def to_instants(self, clock: int) -> tuple[int, ...]:
        """Return every instant that shows ``clock``: none in a gap, two in an overlap, else one."""
        first, second = self._offset_of_clock(clock, fold=0), self._offset_of_clock(clock, fold=1)
        if first == second:
            return (clock - first,)
        return (clock - first, clock - second) if first > second else ()

    def to_clock(self, instant: int) -> int:
        """Convert an instant to the clock it shows."""
        return instant + self._offset_at(instant // NANOS_PER_SECOND) * NANOS_PER_SECOND

    def start_of_day(self, day: int) -> int:
        """Return the first instant of a day, given in days since 1970-01-01."""
        midnight = day * NANOS_PER_DAY
        before, after = self._offset_of_clock(midnight, fold=0), self._offset_of_clock(midnight, fold=1)
        if before >= after:
            return midnight - before
        low, high = (midnight - after) // NANOS_PER_SECOND, (midnight - before) // NANOS_PER_SECOND
        return self._change(low, high) * NANOS_PER_SECOND

    def shifts(self, first: int, last: int) -> tuple[Shift, ...]:
        """Return the offsets from one instant to another, in order and without gaps."""
        low, high = first // NANOS_PER_SECOND, -(-last // NANOS_PER_SECOND) + 1
        shifts: list[Shift] = []
        start, at = low, low
        while at < high:
            step = min(at + _SEARCH_STEP, high)
            if self._offset_at(at) != self._offset_at(step):
                change = self._change(at, step)
                shifts.append(self._shift(start, change))
                start = change
            at = step
        shifts.append(self._shift(start, high + 1))
        return tuple(shifts)

    def _shift(self, start: int, end: int) -> Shift:
        return Shift(
            start * NANOS_PER_SECOND, end * NANOS_PER_SECOND, self._offset_at(start) * NANOS_PER_SECOND
        )

    def _change(self, low: int, high: int) -> int:
        """Bisect for the first second with the offset of ``high``; one change lies between the two."""
        new = self._offset_at(high)
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset_at(middle) == new:
                high = middle
            else:
                low = middle
        return high

    def _offset_at(self, second: int) -> int:
        """Return seconds ahead of UTC at an instant, which is in seconds, too."""
        if self.region is None:
            return self.fixed_seconds or 0
        instant = _EPOCH + dt.timedelta(seconds=_in_calendar(second))
        return _seconds(self.region.fromutc(instant.replace(tzinfo=self.region)).utcoffset())

    def _offset_of_clock(self, clock: int, fold: int) -> int:
        """Return nanoseconds ahead of UTC, before (fold 0) or after (1) a change at the clock."""
        if self.region is None:
            return (self.fixed_seconds or 0) * NANOS_PER_SECOND
        shown = _EPOCH + dt.timedelta(seconds=_in_calendar(clock // NANOS_PER_SECOND))
        offset = self.region.utcoffset(shown.replace(fold=fold, tzinfo=self.region))
        return _seconds(offset) * NANOS_PER_SECOND


@lru_cache(maxsize=_REMEMBERED_OFFSETS)
def _offsets_around(zone: SessionZone, step: int) -> tuple[int, int]:
    """Return the least and greatest offset, in seconds, of the year around a step."""
    least, greatest = zip(*(_offsets_within(zone, step + aside) for aside in _NEARBY_STEPS), strict=True)
    return min(least), max(greatest)


@lru_cache(maxsize=_REMEMBERED_OFFSETS)
def _offsets_within(zone: SessionZone, step: int) -> tuple[int, int]:
    """Return the least and greatest offset, in seconds, of a half-month step."""
    # Summer time has been as short as a week: every change counts.
    seconds = range(step * _NEARBY_STEP, (step + 1) * _NEARBY_STEP + 1, _SEARCH_STEP)
    offsets = [zone._offset_at(second) for second in seconds]  # noqa: SLF001 - its own
    return min(offsets), max(offsets)


def instants_of_clock(clock: int, zone: SessionZone | None) -> Instants:
    """Convert a wall clock; to every possible instant where zone or rules are unknown."""
    if zone is None:
        return Instants(clock - MAX_OFFSET_NANOS, clock + MAX_OFFSET_NANOS)
    if not zone.is_certain(clock):
        low, high = zone.offsets(clock)
        return Instants(clock - high, clock - low)
    instant = zone.to_instant(clock)
    return Instants(instant, instant)


def instants_of_day(day: int, zone: SessionZone | None) -> Instants:
    """Return the first instant of a day, given in days since 1970-01-01, as far as it is known."""
    if zone is None or not zone.is_certain(day * NANOS_PER_DAY):
        return instants_of_clock(day * NANOS_PER_DAY, zone)
    instant = zone.start_of_day(day)
    return Instants(instant, instant)


def clocks_of_instants(instants: Instants, zone: SessionZone | None) -> tuple[int, int]:
    """Return the earliest and latest clock that may be shown at ``instants``."""
    low, high = instants
    if zone is None:
        return low - MAX_OFFSET_NANOS, high + MAX_OFFSET_NANOS
    return low + zone.offsets(low)[0], high + zone.offsets(high)[1]


def instants_of_text(written: TimestampText, zone: SessionZone | None) -> Instants:
    """Convert a timestamp's text: in the zone it names, else in ``zone``, by that one's release of the rules.

    ValueError: it names a zone that does not exist.
    """
    if written.zone is not None:
        release = f"@{zone.release}" if zone is not None and zone.release is not None else ""
        zone = session_zone(written.zone + release)
    return instants_of_clock(written.clock, zone)


@lru_cache(maxsize=_REMEMBERED_ZONES)
def session_zone(name: str) -> SessionZone:
    """Look up a zone by name; the release of the reader's rules may follow: ``America/Vancouver@2025a``.

    ValueError: there is no such zone.
    """
    named = _RELEASE.fullmatch(name)
    zone, release = (name, None) if named is None else (named["zone"], named["release"])
    written = _ONE_DIGIT_HOUR.sub(r"\g<1>0\g<2>:", zone, count=1)
    written = _ONE_DIGIT_MINUTE.sub(r"\g<1>0\g<2>", written)
    written = _SHORT_NAMES.get(written, written)
    if written == "Z":
        return SessionZone(name, 0, release=release)
    prefixed = _PREFIXED.fullmatch(written)
    offset = prefixed.group("offset") if prefixed else written
    if offset is None:
        return SessionZone(name, 0, release=release)
    if offset[:1] in ("+", "-"):
        return SessionZone(name, _read_offset(offset), release=release)
    if written not in _regions():
        suggestion = hint(zone, sorted(_regions())) or ": expected one such as America/New_York or +05:30"
        raise ValueError(f"{zone!r:.100} is no time zone{suggestion}")
    folder, _, last = f"zoneinfo/{written}".rpartition("/")
    with resources.files("tzdata").joinpath(folder, last).open("rb") as rules:
        region = ZoneInfo.from_file(rules, written)
    return SessionZone(name, None, region, release, doubts_of(written, release))


def _read_offset(text: str) -> int:
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        raise ValueError(f"{text!r:.100} is no offset: expected one such as +05:30")
    digits = (offset["hours"] or offset["clock"] or offset["plain"]).replace(":", "")
    padded = digits.zfill(2).ljust(6, "0")
    hours, minutes, seconds = int(padded[:2]), int(padded[2:4]), int(padded[4:])
    total = (hours * 60 + minutes) * 60 + seconds
    if minutes >= 60 or seconds >= 60 or total * NANOS_PER_SECOND > MAX_OFFSET_NANOS:  # noqa: PLR2004 - a clock
        raise ValueError(f"{text!r:.100} is no offset: zones lie within 18 hours of UTC")
    return -total if offset["sign"] == "-" else total


@lru_cache(maxsize=1)
def _regions() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


def _in_calendar(second: int) -> int:
    """Map a second into the years 1 to 9999, to one at which every zone has the same offset."""
    if second < _FIRST_SECOND:
        return _FIRST_SECOND
    # Rules repeat with the calendar's cycle.
    cycles = -((_LAST_SECOND - second) // CYCLE_SECONDS) if second > _LAST_SECOND else 0
    return second - cycles * CYCLE_SECONDS


def _seconds(offset: dt.timedelta | None) -> int:
    return 0 if offset is None else int(offset.total_seconds())

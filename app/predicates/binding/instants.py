"""Instants among the values of columns, by the time zone of the session.

What Spark does where dates, wall clocks and instants meet:

====================  ================================  =====================================================
column                literal                           comparison
====================  ================================  =====================================================
TIMESTAMP_LTZ         TIMESTAMP_NTZ, DATE, text         the literal becomes an instant
TIMESTAMP (NTZ)       TIMESTAMP_LTZ                     every value of the column becomes an instant
DATE                  TIMESTAMP_LTZ                     every value becomes the first instant of its day
DATE                  TIMESTAMP_NTZ                     every value becomes its midnight
====================  ================================  =====================================================

A wall clock becomes an instant as :mod:`app.types.session_zone` tells. That does not keep the order: when
clocks go forward from 02:00 to 03:00, both 02:30 and 03:30 become the same instant. So the values that are
less than an instant may be several stretches. Spark's optimizer may also turn the comparison around: it
compares the column with the instant as a clock or a date, if that becomes the same instant again (the rule
``UnwrapCastInBinaryComparison``). Where the two differ, both are covered and nothing is proven.

Where the time zone is not known, a wall clock stands for every instant that it is in some zone: 18 hours to
either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.predicates.binding.places import Doubt, Exact, Gap, Place, Regions, Stretch, either, united
from app.types.session_zone import MAX_OFFSET_NANOS, Instants, SessionZone
from app.types.time_units import NANOS_PER_DAY

_NEARBY_DAYS: Final = 3
"""More than an offset and a gap together, so that further away the order is that of the instants."""


def place_among_instants(instants: Instants) -> Place:
    """The place of an instant in a column of instants."""
    low, high = instants
    return Exact(low) if low == high else _open(low, high)


def place_among_clocks(instants: Instants, zone: SessionZone | None) -> Place:
    """The place of an instant in a column of wall clocks."""
    if zone is None or instants.low != instants.high:
        return _open(*_everywhere(*instants))
    instant = instants.low
    nearby = zone.shifts(instant - _NEARBY_DAYS * NANOS_PER_DAY, instant + _NEARBY_DAYS * NANOS_PER_DAY)
    less: list[Stretch] = []
    equal: list[Stretch] = []
    greater: list[Stretch] = []
    start: int | None = None
    for number, shift in enumerate(nearby):
        last = number == len(nearby) - 1
        # A clock that is shown twice is the earlier instant, and one that never is goes by the offset before.
        end = None if last else shift.end + max(shift.offset, nearby[number + 1].offset)
        shown = instant + shift.offset
        less.extend(_clip(start, end, None, shown))
        equal.extend(_clip(start, end, shown, shown + 1))
        greater.extend(_clip(start, end, shown + 1, None))
        start = end
    regions = Regions(tuple(united(less)), tuple(united(equal)), tuple(united(greater)))
    clock = zone.to_clock(instant)
    return either(regions, Exact(clock)) if zone.to_instant(clock) == instant else regions


def place_among_days(instants: Instants, zone: SessionZone | None) -> Place:
    """The place of an instant in a column of dates."""
    low, high = instants
    if zone is None or low != high:
        first, last = _everywhere(low, high)
        return Regions(
            (Stretch(None, -(-last // NANOS_PER_DAY)),),
            (Stretch(-(-first // NANOS_PER_DAY), last // NANOS_PER_DAY + 1),),
            (Stretch(first // NANOS_PER_DAY + 1, None),),
            Doubt.TIME_ZONE,
        )
    shown = zone.to_clock(low) // NANOS_PER_DAY
    nearby = range(shown - _NEARBY_DAYS, shown + _NEARBY_DAYS)
    starts = [zone.start_of_day(day) for day in nearby]
    below = max(day for day, start in zip(nearby, starts, strict=True) if start < low)
    above = min(day for day, start in zip(nearby, starts, strict=True) if start > low)
    if above == below + 1:
        return Gap(below, above)
    if above == below + 2:
        return Exact(below + 1)
    # A day that a zone left out starts at the same instant as the next one.
    regions = Regions((Stretch(None, below + 1),), (Stretch(below + 1, above),), (Stretch(above, None),))
    return either(regions, Exact(shown))


def _everywhere(low: int, high: int) -> Instants:
    """The earliest and the latest clock that is shown at some instants in any zone."""
    return Instants(low - MAX_OFFSET_NANOS, high + MAX_OFFSET_NANOS)


def _open(low: int, high: int) -> Regions:
    """The place of a literal that is one of the values from ``low`` to ``high``."""
    return Regions(
        (Stretch(None, high),),
        (Stretch(low, high + 1),),
        (Stretch(low + 1, None),),
        Doubt.TIME_ZONE,
    )


def _clip(start: int | None, end: int | None, low: int | None, high: int | None) -> Iterator[Stretch]:
    """What the stretch from ``low`` to ``high`` has in common with the one from ``start`` to ``end``."""
    lows = [each for each in (start, low) if each is not None]
    highs = [each for each in (end, high) if each is not None]
    if not lows or not highs or max(lows) < min(highs):
        yield Stretch(max(lows, default=None), min(highs, default=None))

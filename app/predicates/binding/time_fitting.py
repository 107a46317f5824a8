"""Fits a literal to a column of dates or timestamps, in the time zone of the caller's session.

================  ============================================================================================
column            literals of SQL that have a place
================  ============================================================================================
DATE              dates, text; wall clocks, which lie between two days unless at midnight; instants
TIMESTAMP         wall clocks, dates (their midnight), text; instants
TIMESTAMP_LTZ     instants; wall clocks, dates (their first instant) and text in the session's zone
================  ============================================================================================

Spark's timestamps have microseconds: it cuts further digits off literals and column values. A writer of such
digits may mean them, so both readings are covered and nothing is proven. Spark compares mixed types like
this:

====================  ================================  =====================================================
column                literal                           comparison
====================  ================================  =====================================================
TIMESTAMP_LTZ         TIMESTAMP_NTZ, DATE, text         the literal becomes an instant
TIMESTAMP (NTZ)       TIMESTAMP_LTZ                     every value of the column becomes an instant
DATE                  TIMESTAMP_LTZ                     every value becomes the first instant of its day
DATE                  TIMESTAMP_NTZ                     every value becomes its midnight
====================  ================================  =====================================================

:mod:`app.types.session_zone` converts wall clocks to instants. That is not monotone: when clocks go forward
from 02:00 to 03:00, both 02:30 and 03:30 become one instant, so the values less than an instant may be
several stretches. Spark's optimizer may also compare the column with the instant as a clock or a date, if
that converts back to it (the rule ``UnwrapCastInBinaryComparison``). Where the two differ, both are covered
and nothing is proven. In an unknown zone a wall clock stands for every instant within 18 hours; where readers
may have other rules of the zone, for every instant by any of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from app.predicates.binding.places import (
    Doubt,
    Exact,
    Gap,
    Nowhere,
    Place,
    Regions,
    Stretch,
    clipped,
    either,
    in_steps,
    united,
)
from app.predicates.spark_text import cast_date, cast_timestamp
from app.predicates.unbound import Literal, LiteralKind
from app.types import TIMESTAMP_ROOTS, DataType, TypeRoot
from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_MICRO
from app.types.session_zone import (
    Instants,
    SessionZone,
    clocks_of_instants,
    instants_of_clock,
    instants_of_day,
    instants_of_text,
)

# Types whose comparisons may depend on the session's time zone.
TIME_ROOTS: Final = frozenset({TypeRoot.DATE, *TIMESTAMP_ROOTS})
_SPARK_FRACTION_DIGITS: Final = 6
# Exceeds an offset and a gap together: further away, clocks are ordered as instants are.
_NEARBY_DAYS: Final = 3


def place_in_times(literal: Literal, data_type: DataType, zone: SessionZone | None) -> Place:
    """Place an SQL literal in a column of dates or timestamps. ValueError: its text is no such value."""
    typed = _typed(literal, data_type.root, zone)
    written = _place(typed, data_type.root, zone)
    cut = _cut(typed)
    if data_type.root is not TypeRoot.DATE and data_type.precision > _SPARK_FRACTION_DIGITS:
        return either(written, in_steps(_place(cut, data_type.root, zone), NANOS_PER_MICRO))
    return written if cut == typed else either(written, _place(cut, data_type.root, zone))


def as_instants(literal: Literal, zone: SessionZone | None) -> Literal:
    """Cast a literal to TIMESTAMP_LTZ as Spark does; unchanged if it has no such value."""
    try:
        instants = _instants(literal, zone)
    except ValueError:
        return literal
    return literal if instants is None else replace(literal, kind=LiteralKind.TIMESTAMP_LTZ, value=instants)


def shown_alike(literal: Literal, place: Place, data_type: DataType, zone: SessionZone | None) -> Place:
    """Place a literal that may be compared as text; the text of an instant is the clock it shows."""
    # A text that Spark casts to a date need not be a timestamp.
    clock = None if data_type.root is TypeRoot.DATE else _shown_clock(literal, zone)
    if zone is None or clock is None or not zone.is_certain(clock):
        return place
    if data_type.root is TypeRoot.TIMESTAMP:
        has_more = data_type.precision > _SPARK_FRACTION_DIGITS
        cut = Exact(clock - clock % NANOS_PER_MICRO)
        return either(place, in_steps(cut, NANOS_PER_MICRO) if has_more else cut)
    shown = zone.to_instants(clock)
    if len(shown) <= 1:
        return place
    # Spark shows an instant to the microsecond.
    micros = [instant - instant % NANOS_PER_MICRO for instant in shown]
    equal = tuple(Stretch(start, start + NANOS_PER_MICRO) for start in micros)
    return Regions((Stretch(None, shown[-1]),), equal, (Stretch(shown[0] + 1, None),), Doubt.MEANING)


def _shown_clock(literal: Literal, zone: SessionZone | None) -> int | None:
    """Return the wall clock of a literal's text; None if it has none, or names a zone."""
    match literal.kind, literal.value:
        case LiteralKind.STRING, str(text):
            read = cast_timestamp(text)
            return None if read is None or read.zone is not None else read.clock
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return clock
        case LiteralKind.TIMESTAMP_LTZ, Instants(low=low, high=high) if low == high and zone is not None:
            return zone.to_clock(low)
        case _:
            return None


def _typed(literal: Literal, root: TypeRoot, zone: SessionZone | None) -> Literal:
    """Cast a text as Spark does for the column's type; unchanged if it has no such value."""
    if literal.kind is not LiteralKind.STRING:
        return literal
    if root is TypeRoot.TIMESTAMP_LTZ:
        return as_instants(literal, zone)
    text = str(literal.value)
    if root is TypeRoot.DATE:
        return replace(literal, kind=LiteralKind.DATE, value=cast_date(text))
    read = cast_timestamp(text)
    if read is None or read.zone is not None:
        return literal
    return replace(literal, kind=LiteralKind.TIMESTAMP_NTZ, value=read.clock)


def _cut(literal: Literal) -> Literal:
    match literal.kind, literal.value:
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return replace(literal, value=clock - clock % NANOS_PER_MICRO)
        case LiteralKind.TIMESTAMP_LTZ, Instants(low=low, high=high):
            # Spark keeps microseconds.
            cut = Instants(low - low % NANOS_PER_MICRO, high - high % NANOS_PER_MICRO)
            return replace(literal, value=cut)
        case _:
            return literal


def _place(literal: Literal, root: TypeRoot, zone: SessionZone | None) -> Place:
    match root:
        case TypeRoot.DATE:
            return _place_in_dates(literal, zone)
        case TypeRoot.TIMESTAMP:
            return _place_in_clocks(literal, zone)
        case _:
            instants = _instants(literal, zone)
            return Nowhere.UNDECIDED if instants is None else place_among_instants(instants)


def _place_in_dates(literal: Literal, zone: SessionZone | None) -> Place:
    match literal.kind, literal.value:
        case LiteralKind.DATE, int(days):
            return Exact(days)
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            days, rest = divmod(clock, NANOS_PER_DAY)
            return Exact(days) if rest == 0 else Gap(days, days + 1)
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            return place_among_days(instants, zone)
        case _:
            return Nowhere.UNDECIDED


def _place_in_clocks(literal: Literal, zone: SessionZone | None) -> Place:
    match literal.kind, literal.value:
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return Exact(clock)
        case LiteralKind.DATE, int(days):
            return Exact(days * NANOS_PER_DAY)
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            return place_among_clocks(instants, zone)
        case LiteralKind.STRING, str(text) if (
            read := cast_timestamp(text)
        ) and not read.clock % NANOS_PER_MICRO:
            # Spark's versions disagree whether a wall clock respects the zone of a text.
            return either(Exact(read.clock), place_among_clocks(instants_of_text(read, zone), zone))
        case _:
            return Nowhere.UNDECIDED


def _instants(literal: Literal, zone: SessionZone | None) -> Instants | None:
    match literal.kind, literal.value:
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            return instants
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return instants_of_clock(clock, zone)
        case LiteralKind.DATE, int(days):
            return instants_of_day(days, zone)
        case LiteralKind.STRING, str(text):
            read = cast_timestamp(text)
            return None if read is None else instants_of_text(read, zone)
        case _:
            return None


def place_among_instants(instants: Instants) -> Place:
    """Place an instant in a column of instants."""
    low, high = instants
    return Exact(low) if low == high else _open(low, high)


def place_among_clocks(instants: Instants, zone: SessionZone | None) -> Place:
    """Place an instant in a column of wall clocks."""
    if zone is None or not _is_certain(instants, zone):
        return _open(*clocks_of_instants(instants, zone))
    instant = instants.low
    nearby = zone.shifts(instant - _NEARBY_DAYS * NANOS_PER_DAY, instant + _NEARBY_DAYS * NANOS_PER_DAY)
    less: list[Stretch] = []
    equal: list[Stretch] = []
    greater: list[Stretch] = []
    start: int | None = None
    for number, shift in enumerate(nearby):
        last = number == len(nearby) - 1
        # A clock shown twice converts to the earlier instant; one never shown, by the offset before.
        end = None if last else shift.end + max(shift.offset, nearby[number + 1].offset)
        nearest, shown = Stretch(start, end), instant + shift.offset
        less.extend(clipped(nearest, Stretch(None, shown)))
        equal.extend(clipped(nearest, Stretch(shown, shown + 1)))
        greater.extend(clipped(nearest, Stretch(shown + 1, None)))
        start = end
    regions = Regions(tuple(united(less)), tuple(united(equal)), tuple(united(greater)))
    clock = zone.to_clock(instant)
    return either(regions, Exact(clock)) if zone.to_instant(clock) == instant else regions


def place_among_days(instants: Instants, zone: SessionZone | None) -> Place:
    """Place an instant in a column of dates."""
    if zone is None or not _is_certain(instants, zone):
        first, last = clocks_of_instants(instants, zone)
        return Regions(
            (Stretch(None, -(-last // NANOS_PER_DAY)),),
            (Stretch(-(-first // NANOS_PER_DAY), last // NANOS_PER_DAY + 1),),
            (Stretch(first // NANOS_PER_DAY + 1, None),),
            Doubt.TIME_ZONE,
        )
    low = instants.low
    shown = zone.to_clock(low) // NANOS_PER_DAY
    nearby = range(shown - _NEARBY_DAYS, shown + _NEARBY_DAYS)
    starts = [zone.start_of_day(day) for day in nearby]
    below = max(day for day, start in zip(nearby, starts, strict=True) if start < low)
    above = min(day for day, start in zip(nearby, starts, strict=True) if start > low)
    if above == below + 1:
        return Gap(below, above)
    if above == below + 2:
        return Exact(below + 1)
    # A day that the zone skipped starts at the same instant as the next day.
    regions = Regions((Stretch(None, below + 1),), (Stretch(below + 1, above),), (Stretch(above, None),))
    return either(regions, Exact(shown))


def _is_certain(instants: Instants, zone: SessionZone) -> bool:
    # Readers must agree on the zone's rules around the instant.
    return instants.low == instants.high and zone.is_certain(instants.low)


def _open(low: int, high: int) -> Regions:
    return Regions(
        (Stretch(None, high),), (Stretch(low, high + 1),), (Stretch(low + 1, None),), Doubt.TIME_ZONE
    )

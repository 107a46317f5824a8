"""What comparisons of dates, clocks and instants are in Spark, told with ``datetime`` alone."""

import datetime as dt
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from app.predicates.model import BoundPredicate
from app.types import TypeRoot, parse_type
from tests.row_matches import matches

MICROS: Final = 1_000
DAY: Final = 86_400_000_000 * MICROS
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks
COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COLUMNS: Final = tuple(map(parse_type, ("DATE", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE")))


class Written(NamedTuple):
    """A literal: ``of`` is the type that Spark gives it, ``clock`` what is written."""

    of: TypeRoot
    sql: str
    clock: dt.datetime


def nanos(clock: dt.datetime) -> int:
    return (clock - EPOCH) // dt.timedelta(microseconds=1) * MICROS


def naive(value: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=value // MICROS)


def to_instant(clock: dt.datetime, zone: ZoneInfo) -> int:
    """Spark's cast of TIMESTAMP_NTZ to TIMESTAMP."""
    offset = clock.replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return nanos(clock - offset)


@cache
def start_of_day(day: dt.date, zone: ZoneInfo) -> int:
    """Spark's cast of DATE to TIMESTAMP, found by looking at every half an hour."""
    step = dt.timedelta(minutes=30)
    at = dt.datetime.combine(day, dt.time(), dt.UTC) - dt.timedelta(hours=26)
    while at.astimezone(zone).date() < day:
        at += step
    return nanos(at.replace(tzinfo=None))


def truth(column: TypeRoot, value: int, symbol: str, literal: Written, zone: ZoneInfo) -> bool:
    """Whether Spark finds ``value symbol literal`` true in a session of ``zone``."""
    compare = COMPARISONS[symbol]
    if TypeRoot.TIMESTAMP_LTZ in (column, literal.of):
        match column:
            case TypeRoot.DATE:
                left = start_of_day((EPOCH + dt.timedelta(days=value)).date(), zone)
            case TypeRoot.TIMESTAMP:
                left = to_instant(naive(value), zone)
            case _:
                left = value
        is_date = literal.of is TypeRoot.DATE
        right = start_of_day(literal.clock.date(), zone) if is_date else to_instant(literal.clock, zone)
        return compare(left, right)
    return compare(value * DAY if column is TypeRoot.DATE else value, nanos(literal.clock))


def meanings(column: TypeRoot, value: int, symbol: str, literal: Written, zone: ZoneInfo) -> set[bool]:
    """What Spark finds with and without its rule UnwrapCastInBinaryComparison."""
    found = {truth(column, value, symbol, literal, zone)}
    if column is TypeRoot.TIMESTAMP_LTZ or literal.of is not TypeRoot.TIMESTAMP_LTZ:
        return found
    instant = to_instant(literal.clock, zone)
    clock = naive(instant).replace(tzinfo=dt.UTC).astimezone(zone).replace(tzinfo=None)
    compare = COMPARISONS[symbol]
    if column is TypeRoot.TIMESTAMP and to_instant(clock, zone) == instant:
        found.add(compare(value, nanos(clock)))
    if column is TypeRoot.DATE and start_of_day(clock.date(), zone) == instant:
        found.add(compare(value, (clock.date() - EPOCH.date()).days))
    return found


@st.composite
def literals(draw: st.DrawFn, around: dt.datetime) -> Written:
    clock = around + dt.timedelta(minutes=draw(st.sampled_from(range(-150, 151, 15))))
    text = clock.isoformat(" ")
    match draw(st.sampled_from(["DATE", "TIMESTAMP_NTZ", "TIMESTAMP", "TIMESTAMP_LTZ", "CAST"])):
        case "DATE":
            midnight = dt.datetime.combine(clock.date(), dt.time())
            return Written(TypeRoot.DATE, f"DATE '{clock.date()}'", midnight)
        case "TIMESTAMP_NTZ":
            return Written(TypeRoot.TIMESTAMP, f"TIMESTAMP_NTZ '{text}'", clock)
        case "CAST":
            cast = f"CAST(TIMESTAMP_NTZ '{text}' AS TIMESTAMP)"
            return Written(TypeRoot.TIMESTAMP_LTZ, cast, clock)
        case name:
            return Written(TypeRoot.TIMESTAMP_LTZ, f"{name} '{text}'", clock)


def values_near(root: TypeRoot, zone: ZoneInfo, around: dt.datetime) -> list[int]:
    if root is TypeRoot.DATE:
        day = (around.date() - EPOCH.date()).days
        return list(range(day - 3, day + 4))
    middle = nanos(around) if root is TypeRoot.TIMESTAMP else to_instant(around, zone)
    minutes = {*range(-26 * 60, 26 * 60 + 1, 60), *range(-300, 301, 15)}
    # Meanings may differ in a stretch that ends at such a value, and holds none.
    return [
        middle + at * 60_000_000 * MICROS + aside for at in sorted(minutes) for aside in (-MICROS, 0, MICROS)
    ]


def ask(bound: BoundPredicate, value: int) -> bool | None:
    return matches(bound, {0: value})


def in_list(column: TypeRoot, value: int, listed: tuple[Written, ...], zone: ZoneInfo) -> bool:
    """IN casts all of the list, and the column, to one type."""
    if TypeRoot.TIMESTAMP_LTZ not in {column, *(each.of for each in listed)}:
        return any(truth(column, value, "=", each, zone) for each in listed)
    alike = [
        each if each.of is TypeRoot.DATE else each._replace(of=TypeRoot.TIMESTAMP_LTZ) for each in listed
    ]
    if column is TypeRoot.TIMESTAMP_LTZ:
        return any(truth(column, value, "=", each, zone) for each in alike)
    left = (
        start_of_day((EPOCH + dt.timedelta(days=value)).date(), zone)
        if column is TypeRoot.DATE
        else to_instant(naive(value), zone)
    )
    return any(truth(TypeRoot.TIMESTAMP_LTZ, left, "=", each, zone) for each in alike)

"""Tests of a column by the day or the instant at which the query runs.

Nobody here knows when that is to the reader, whose clock may be another, and who may have begun before he
asks. All that is decided holds for any time from the day before the request to the day behind it, in UTC; the
plan is the same all that day (:func:`day_of_request`), so that its pages go together.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Final

from app.predicates.unbound import Interval, Leaf, Literal, LiteralKind, Moment
from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_SECOND, add_months
from app.types.session_zone import Instants, SessionZone, clocks_of_instants

_MARGIN: Final = NANOS_PER_DAY
_CALENDAR_MARGIN: Final = 2 * NANOS_PER_DAY
"""More than clocks go forward or back between two days."""
_CLOCKS: Final = ("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURDATE")
# A pattern that begins with a text is searched for at once, any other at each character.
_NOW: Final = re.compile(r"NOW(?<=\bNOW)\b")


def today() -> int:
    """Days since 1970-01-01, in UTC."""
    return int(time.time()) * NANOS_PER_SECOND // NANOS_PER_DAY


def day_of_request(written: object) -> int | None:
    """The day that a filter's meaning depends on; None where it depends on none."""
    if not isinstance(written, str):
        return None
    text = written.upper()
    return today() if any(name in text for name in _CLOCKS) or _NOW.search(text) else None


def moments(leaf: Leaf) -> list[Moment]:
    """The moments among a leaf's literals."""
    return [literal.value for literal in leaf.literals if isinstance(literal.value, Moment)]


def resolved(leaf: Leaf, zone: SessionZone | None, day: int, *, last: bool) -> Leaf:
    """The leaf with the least, or greatest, values that its moments may have on the request's day in UTC."""
    literals = tuple(
        _literal(literal, literal.value, zone, day, last=last)
        if isinstance(literal.value, Moment)
        else literal
        for literal in leaf.literals
    )
    return replace(leaf, literals=literals)


def _literal(literal: Literal, moment: Moment, zone: SessionZone | None, day: int, *, last: bool) -> Literal:
    instant = (day + 1) * NANOS_PER_DAY + _MARGIN if last else day * NANOS_PER_DAY - _MARGIN
    if moment.is_date:
        first_clock, last_clock = clocks_of_instants(Instants(instant, instant), zone)
        date = (last_clock if last else first_clock) // NANOS_PER_DAY
        for step in moment.steps:
            date = add_months(date, step.months) + step.days
        return replace(literal, kind=LiteralKind.DATE, value=date)
    for step in moment.steps:
        instant = _moved(instant, step, last=last)
    return replace(literal, kind=LiteralKind.TIMESTAMP_LTZ, value=Instants(instant, instant))


def _moved(instant: int, by: Interval, *, last: bool) -> int:
    day, clock = divmod(instant, NANOS_PER_DAY)
    moved = (add_months(day, by.months) + by.days) * NANOS_PER_DAY + clock + by.nanos
    if by.months or by.days:
        moved += _CALENDAR_MARGIN if last else -_CALENDAR_MARGIN
    return moved

"""What literals add up to, where that is exact in every mode of Spark.

============================  ======================  =========================================
left                          right                   result
============================  ======================  =========================================
INT                           INT                     INT, unless it overflows
DATE                          INT, or whole days      DATE
DATE                          months or years         DATE, at the latest the month's last day
the day of the query          likewise                likewise, when the query's day is known
the instant of the query      any interval            likewise
============================  ======================  =========================================

Nothing else is added here: sums of other types round, overflow or mind the session's time zone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Final

from app.predicates.unbound import Interval, Literal, LiteralKind, Moment
from app.types.civil_time import add_months
from app.types.time_units import NANOS_PER_SECOND

_INT: Final = range(-(1 << 31), 1 << 31)
_COUNT: Final = re.compile(r"[+-]?[0-9]{1,9}")
_MOST_STEPS: Final = 8
_UNITS: Final = {
    "SECOND": Interval(nanos=NANOS_PER_SECOND),
    "MINUTE": Interval(nanos=60 * NANOS_PER_SECOND),
    "HOUR": Interval(nanos=3600 * NANOS_PER_SECOND),
    "DAY": Interval(days=1),
    "WEEK": Interval(days=7),
    "MONTH": Interval(months=1),
    "YEAR": Interval(months=12),
}


def is_int(number: int) -> bool:
    """Whether Spark reads digits without a suffix as an INT."""
    return number in _INT


def read_interval(count: str, unit: str, *, negative: bool) -> Interval | None:
    """The interval of one unit; None where it is another than is known here."""
    one = _UNITS.get(unit.strip().upper().removesuffix("S"))
    if one is None or not _COUNT.fullmatch(count):
        return None
    return _times(one, -int(count) if negative else int(count))


def integer_literal(number: int, position: int | None) -> Literal:
    """The literal of an INT."""
    return Literal(LiteralKind.NUMBER, Decimal(number), position)


def added(left: Literal | int, right: object, *, negative: bool) -> Literal | int | None:
    """``left + right``, or ``left - right`` if that is ``negative``; None where it is not known here."""
    match left, right:
        case int(one), int(other):
            return _int(one - other if negative else one + other)
        case Literal(), int(days):
            return _moved(left, Interval(days=-days if negative else days))
        case Literal(), Interval() as interval:
            return _moved(left, _times(interval, -1) if negative else interval)
        case _:
            return None


def multiplied(left: Literal | int, right: Literal | int) -> int | None:
    """The product of two INTs; None where it is not known here."""
    return _int(left * right) if isinstance(left, int) and isinstance(right, int) else None


def _int(number: int) -> int | None:
    return number if number in _INT else None


def _times(interval: Interval, count: int) -> Interval:
    return Interval(interval.months * count, interval.days * count, interval.nanos * count)


def _moved(literal: Literal, by: Interval) -> Literal | None:
    match literal.value:
        case int(day) if literal.kind is LiteralKind.DATE and not by.nanos:
            moved = add_months(day, by.months) + by.days
            return replace(literal, value=moved) if moved in _INT else None
        case Moment(is_date=is_date, steps=steps) as moment if (
            not (is_date and by.nanos) and len(steps) < _MOST_STEPS
        ):
            return replace(literal, value=replace(moment, steps=(*steps, by)))
        case _:
            return None

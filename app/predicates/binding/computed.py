"""Functions that are computed of each value of a column, which is how partitions decide a test of them.

====================  ================================================  ======================================
function              of columns of                                     result
====================  ================================================  ======================================
``substring``         strings, whole numbers, dates                     STRING
``date``              strings, by a pattern too                         DATE
``date_format``       strings, dates                                    STRING
``year``              strings                                           INT
``month``             strings, dates                                    INT
====================  ================================================  ======================================

Nothing is computed where Spark fails in one of its modes (ANSI) and finds NULL in another, nor where its old
calendar (``spark.sql.legacy.timeParserPolicy``) differs; of patterns those below are known.
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any, Final

from app.predicates.binding.reasons import why_not_within
from app.predicates.model import BoundLeaf, BoundPredicate, ComputedTest, Unknown
from app.predicates.spark_text import cast_date, cast_timestamp
from app.predicates.unbound import Call, ColumnFunction
from app.types import DataField, DataType, TypeRoot, Value, parse_type
from app.types.civil_time import NANOS_PER_DAY, civil_date, date_text
from app.types.data_types import INTEGER_BITS
from app.types.session_zone import SessionZone

_PATTERNS: Final = {
    "yyyy": "%Y",
    "yyyy-MM": "%Y-%m",
    "yyyy-MM-dd": "%Y-%m-%d",
    "yyyy/MM/dd": "%Y/%m/%d",
    "yyyyMM": "%Y%m",
    "yyyyMMdd": "%Y%m%d",
    "MM": "%m",
    "dd": "%d",
}
_FIRST_YEAR: Final = 1583
"""Before, calendars differ."""
_EPOCH: Final = dt.date(1970, 1, 1)
_TEXT, _INT, _DATE = parse_type("STRING"), parse_type("INT"), parse_type("DATE")
_TEXTS: Final = frozenset({TypeRoot.VARCHAR})
"""Of CHAR readers disagree about the blanks."""
_FUNCTIONS: Final = {
    ColumnFunction.SUBSTRING: (_TEXT, _TEXTS | {TypeRoot.DATE, *INTEGER_BITS}),
    ColumnFunction.DATE: (_DATE, _TEXTS),
    ColumnFunction.DATE_FORMAT: (_TEXT, _TEXTS | {TypeRoot.DATE}),
    ColumnFunction.MONTH: (_INT, _TEXTS | {TypeRoot.DATE}),
    ColumnFunction.YEAR: (_INT, _TEXTS),
}


def computed_type(call: Call, data_type: DataType) -> DataType | None:
    """The type of what a function gives; None where it is not computed of columns of a type."""
    result, roots = _FUNCTIONS.get(call.function, (None, frozenset()))
    pattern = next((each for each in call.arguments if isinstance(each, str)), "yyyy")
    return result if data_type.root in roots and pattern in _PATTERNS else None


def computed(part: BoundLeaf, call: Call, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    """A test of what a function gives as a part that is unknown, but of partitions."""
    test = ComputedTest(part, field, partial(_compute, call, field.type.root, zone))
    # By a pattern Spark reads and writes instants.
    lacks_zone = zone is None and any(isinstance(each, str) for each in call.arguments)
    return Unknown(str(part), None, lacks_zone, why_not_within(call, field), test)


def _compute(call: Call, root: TypeRoot, zone: SessionZone | None, value: Any) -> Value:
    text = value.decode() if root in _TEXTS else date_text(value) if root is TypeRoot.DATE else str(value)
    match call.function, call.arguments:
        case ColumnFunction.SUBSTRING, (int(start), *length):
            begin = start - 1 if start > 0 else len(text) + start if start else 0
            end = begin + int(length[0]) if length else len(text)
            return text[max(begin, 0) : max(end, 0)].encode()
        case ColumnFunction.DATE, (str(pattern),):
            return _shown_day(_parsed(text, pattern).isoformat(), zone)
        case ColumnFunction.DATE_FORMAT, (str(pattern),):
            return _date(_shown_day(text, zone)).strftime(_PATTERNS[pattern]).encode()
        case ColumnFunction.DATE, _:
            return cast_date(text)
        case function, _:
            year, month, _ = civil_date(cast_date(text))
            return year if function is ColumnFunction.YEAR else month


def _parsed(text: str, pattern: str) -> dt.date:
    read = dt.datetime.strptime(text, _PATTERNS[pattern]).date()  # noqa: DTZ007 - a date
    if read.year < _FIRST_YEAR or not pattern.startswith("yyyy") or read.strftime(_PATTERNS[pattern]) != text:
        raise ValueError("Spark's releases read it in several ways")
    return read


def _shown_day(text: str, zone: SessionZone | None) -> int:
    """The day that clocks of the zone show at the instant of a text."""
    read = cast_timestamp(text)
    if read is None or read.zone is not None or zone is None:
        raise ValueError("the instant is not known")
    day, rest = divmod(read.clock, NANOS_PER_DAY)
    # Of a midnight since 1970 rules differ by hours, which keep the day.
    is_known = zone.is_certain(read.clock) or (day >= 0 and not rest)
    if not is_known or zone.to_clock(zone.to_instant(read.clock)) // NANOS_PER_DAY != day:
        raise ValueError("the zone leaves the day out, or its rules are not known")
    return day


def _date(day: int) -> dt.date:
    if not (dt.date(_FIRST_YEAR, 1, 1) - _EPOCH).days <= day <= (dt.date.max - _EPOCH).days:
        raise ValueError("calendars differ, or years have a sign")
    return _EPOCH + dt.timedelta(days=day)

"""Binds tests of dates, years and truncated times of a column to ranges of its values.

The test is first bound as a test of the function's result; each of its leaves is a few stretches of days, and
these are stretches of the column's values:

====================  =====================================================================================
column                values of the days from a to b (exclusive)
====================  =====================================================================================
DATE                  a to b
TIMESTAMP             midnight of a to midnight of b
TIMESTAMP_LTZ         the instants at which clocks of the session's zone show one of the days
====================  =====================================================================================

Spark evaluates ``CAST(instant AS DATE)``, or compares the column with the first instants of days (the rule
``UnwrapCastInBinaryComparison``). The two differ where clocks go back across a midnight, since a day then
ends after the next one has begun: both are covered, and nothing is proven. Unknown zones and rules are
handled alike.

``date_trunc`` returns the first instant of a day, month or longer unit in the session's zone; the result is
at least a literal from the first unit on that begins there or later. ``month`` is a range where another test
names the year.

Functions that map no range to a range are computed for each value, which decides tests of partition columns:

====================  ================================================  ======================================
function              of columns of                                     result
====================  ================================================  ======================================
``substring``         strings, whole numbers, dates                     STRING
``date``              strings, by a pattern too                         DATE
``date_format``       strings, dates                                    STRING
``year``              strings                                           INT
``month``             strings, dates                                    INT
====================  ================================================  ======================================

Nothing is computed where Spark fails in one of its modes (ANSI) and returns NULL in another, nor where its
old calendar (``spark.sql.legacy.timeParserPolicy``) differs; only the patterns below are supported.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

from app.predicates.binding.comparisons import in_stretch
from app.predicates.binding.places import Doubt, Stretch, clipped, united
from app.predicates.binding.reasons import why_not_within
from app.predicates.binding.time_fitting import TIME_ROOTS, as_instants
from app.predicates.model import BoundLeaf, BoundPredicate, ComputedTest, Constant, Operator, Unknown
from app.predicates.simplify import conjunction, disjunction, with_leaves
from app.predicates.spark_text import cast_date, cast_timestamp
from app.predicates.unbound import Call, Column, ColumnFunction, Interval, Leaf, LiteralKind, Not, Predicate
from app.types import INTEGER_BITS, DataField, DataType, TypeRoot, Value, parse_type
from app.types.civil_time import NANOS_PER_DAY, civil_date, date_text, epoch_days
from app.types.session_zone import Instants, SessionZone, instants_of_day

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
# Before this year Spark's calendars differ.
_FIRST_YEAR: Final = 1583
_EPOCH: Final = dt.date(1970, 1, 1)
_TEXT, _INT, _DATE = parse_type("STRING"), parse_type("INT"), parse_type("DATE")
# Readers disagree about blanks of CHAR.
_TEXTS: Final = frozenset({TypeRoot.VARCHAR})
_FUNCTIONS: Final = {
    ColumnFunction.SUBSTRING: (_TEXT, _TEXTS | {TypeRoot.DATE, *INTEGER_BITS}),
    ColumnFunction.DATE: (_DATE, _TEXTS),
    ColumnFunction.DATE_FORMAT: (_TEXT, _TEXTS | {TypeRoot.DATE}),
    ColumnFunction.MONTH: (_INT, _TEXTS | {TypeRoot.DATE}),
    ColumnFunction.YEAR: (_INT, _TEXTS),
}


def computed_type(call: Call, data_type: DataType) -> DataType | None:
    """Return the type of a function's result; None if it is not computed for columns of this type."""
    result, roots = _FUNCTIONS.get(call.function, (None, frozenset()))
    pattern = next((each for each in call.arguments if isinstance(each, str)), "yyyy")
    return result if data_type.root in roots and pattern in _PATTERNS else None


def computed(part: BoundLeaf, call: Call, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    """Make a test of a function's result unknown, but computable for partition values."""
    test = ComputedTest(part, field, partial(_compute, call, field.type.root, zone))
    # With a pattern Spark reads and writes instants.
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
    """Return the day that clocks of the zone show at the instant of a text."""
    read = cast_timestamp(text)
    if read is None or read.zone is not None or zone is None:
        raise ValueError("the instant is not known")
    day, rest = divmod(read.clock, NANOS_PER_DAY)
    # Rules for midnights since 1970 differ by hours at most, which keep the day.
    is_known = zone.is_certain(read.clock) or (day >= 0 and not rest)
    if not is_known or zone.to_clock(zone.to_instant(read.clock)) // NANOS_PER_DAY != day:
        raise ValueError("the zone leaves the day out, or its rules are not known")
    return day


def _date(day: int) -> dt.date:
    if not (dt.date(_FIRST_YEAR, 1, 1) - _EPOCH).days <= day <= (dt.date.max - _EPOCH).days:
        raise ValueError("calendars differ, or years have a sign")
    return _EPOCH + dt.timedelta(days=day)


# Exceeds the range of Spark's timestamps; years beyond decide nothing.
_YEARS: Final = range(-300_000, 300_001)
_LAST_YEAR: Final = 9_999
_MOST_STRETCHES: Final = 64
_NEARBY: Final = 2 * NANOS_PER_DAY
# Units of `date_trunc`; hours and less are not supported.
_CUTS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), Interval(months=12)),
    "QUARTER": Interval(months=3),
    **dict.fromkeys(("MONTH", "MM", "MON"), Interval(months=1)),
    "WEEK": Interval(days=7),
    **dict.fromkeys(("DAY", "DD"), Interval(days=1)),
}
_MONDAY: Final = -3


def result_of(call: Call, field: DataField) -> DataField | None:
    """Return the function's result as a column; None if it does not apply to the column's type."""
    result = _ranged_type(call, field.type.root) or computed_type(call, field.type)
    shown = ", ".join(map(str, (field.name, *call.arguments)))
    return None if result is None else DataField(field.id, f"{call.function}({shown})", result)


def _ranged_type(call: Call, root: TypeRoot) -> DataType | None:
    """Return the result type of functions that map ranges of the column to ranges; None for others."""
    if root not in TIME_ROOTS:
        return None
    match call.function, call.arguments:
        case (ColumnFunction.YEAR, ()) | (ColumnFunction.MONTH, (int(),)):
            return _INT
        case ColumnFunction.DATE, ():
            return _DATE
        case _:
            return None if _cut(call) is None else _DATE


def _cut(call: Call) -> Interval | None:
    return _CUTS.get(str(*call.arguments).upper()) if call.function is ColumnFunction.DATE_TRUNC else None


def within_years(
    children: Sequence[Predicate], field_of: Callable[[Column], DataField | None]
) -> tuple[Predicate, ...]:
    """Give tests of a month the year that another of the ANDed conditions requires."""
    years: dict[DataField | None, int] = {}
    for child in children:
        match child:
            case Leaf(operator=Operator.EQUAL, column=column, call=Call(function=ColumnFunction.YEAR)):
                year = child.literals[0].value
                if isinstance(year, Decimal) and 1 <= year <= _LAST_YEAR and year == int(year):
                    years[field_of(column)] = int(year)

    def within(child: Predicate) -> Predicate:
        match child:
            case Not(negated):
                return Not(within(negated))
            case Leaf(column=column, call=Call(function=ColumnFunction.MONTH) as call) if year := years.get(
                field_of(column)
            ):
                return replace(child, call=replace(call, arguments=(year,)))
            case _:
                return child

    return tuple(map(within, children)) if years else tuple(children)


def in_instants(leaf: Leaf, call: Call, zone: SessionZone | None) -> Leaf | None:
    """Convert literals of a ``date_trunc`` test to the instants that Spark compares; None if undecidable."""
    if call.function is not ColumnFunction.DATE_TRUNC:
        return leaf
    literals = tuple(as_instants(literal, zone) for literal in leaf.literals)
    kinds = {literal.kind for literal in literals}
    # A list with texts is compared as text in some of Spark's modes.
    as_text = leaf.operator is Operator.IN and LiteralKind.STRING in {each.kind for each in leaf.literals}
    if as_text or not kinds <= {LiteralKind.TIMESTAMP_LTZ, LiteralKind.MOMENT, LiteralKind.NULL}:
        return None
    twice = zone is not None and any(_begins_twice(literal.value, zone) for literal in literals)
    return None if twice else replace(leaf, literals=literals)


def _begins_twice(value: object, zone: SessionZone) -> bool:
    if not isinstance(value, Instants):
        return False
    # Either of two midnights may begin a day.
    day = zone.to_clock(value.low) // NANOS_PER_DAY
    return any(len(zone.to_instants(each * NANOS_PER_DAY)) > 1 for each in (day, day + 1))


def in_column(
    bound: BoundPredicate, call: Call, field: DataField, zone: SessionZone | None
) -> BoundPredicate:
    """Turn a bound test of :func:`result_of` into a test of the column."""
    is_computed = _ranged_type(call, field.type.root) is None

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        match part:
            case BoundLeaf() if is_computed:
                return computed(part, call, field, zone)
            case BoundLeaf(operator=Operator.IS_NULL):
                return BoundLeaf(Operator.IS_NULL, field)
            case BoundLeaf():
                return _in_column(part, call, field, zone)
            case Constant() | Unknown():
                return part

    # Each leaf becomes one flat predicate, so the nesting does not grow.
    return with_leaves(bound, leaf)


def _in_column(leaf: BoundLeaf, call: Call, field: DataField, zone: SessionZone | None) -> BoundPredicate:
    results = list(_stretches(leaf))
    doubts: list[Unknown] = []
    if len(results) > _MOST_STRETCHES:
        results, doubts = [Stretch(results[0].low, results[-1].high)], [Unknown(str(leaf))]
    if call.function is ColumnFunction.YEAR:
        far = (year not in _YEARS for years in results for year in years if year is not None)
        doubts += [Unknown(str(leaf))] if any(far) else []
    tests: list[BoundPredicate] = []
    for result in results:
        values, doubt = _values(_before_call(result, call), partial(_edge, _cut(call), field.type.root, zone))
        tests.extend(in_stretch(field, stretch) for stretch in values)
        if doubt is not None:
            doubts.append(Unknown(str(leaf), lacks_time_zone=doubt is Doubt.TIME_ZONE))
    return conjunction([disjunction(tests), *doubts[:1]])


def _before_call(results: Stretch, call: Call) -> Stretch:
    """Return the days for which a function returns some results."""
    cut = _cut(call)
    match call.function, call.arguments:
        case ColumnFunction.YEAR, _:
            return _days_of_years(results)
        case ColumnFunction.MONTH, (int(year),):
            low, high = results.low or 1, 13 if results.high is None else results.high
            return Stretch(*(_month_start(12 * year + min(max(each, 1), 13) - 1) for each in (low, high)))
        case _ if cut is not None:
            return Stretch(*(None if day is None else _unit_start(day, cut) for day in results))
        case _:
            return results


def _unit_start(day: int, unit: Interval) -> int:
    """Return the first day of a unit that is not before ``day``."""
    # date_trunc returns the first instant of its unit, so the result is at least a literal from the first
    # unit on that begins there or later.
    if unit.days:
        return _up(day - _MONDAY, unit.days) + _MONDAY
    year, month, day_of_month = civil_date(day)
    return _month_start(_up(12 * year + month - (day_of_month == 1), unit.months))


def _month_start(months: int) -> int:
    return epoch_days(months // 12, months % 12 + 1, 1)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _stretches(leaf: BoundLeaf) -> Iterator[Stretch]:
    literals: Sequence[int] = leaf.literals  # type: ignore[assignment] # days or years
    match leaf.operator:
        case Operator.EQUAL | Operator.IN:
            yield from united(Stretch(literal, literal + 1) for literal in literals)
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            low = None
            for literal in literals:
                if low is None or low < literal:
                    yield Stretch(low, literal)
                low = literal + 1
            yield Stretch(low, None)
        case Operator.LESS_THAN:
            yield Stretch(None, literals[0])
        case Operator.LESS_OR_EQUAL:
            yield Stretch(None, literals[0] + 1)
        case Operator.GREATER_THAN:
            yield Stretch(literals[0] + 1, None)
        case Operator.GREATER_OR_EQUAL:
            yield Stretch(literals[0], None)
        case Operator.BETWEEN:
            yield Stretch(literals[0], literals[1] + 1)
        case _:
            yield Stretch(None, None)


def _days_of_years(years: Stretch) -> Stretch:
    low, high = (None if year is None or year not in _YEARS else epoch_days(year, 1, 1) for year in years)
    return Stretch(low, high)


class _Edge(NamedTuple):
    """Values of a column before and from the start of a day; a doubtful value is in both."""

    before: Sequence[Stretch]
    behind: Sequence[Stretch]
    doubt: Doubt | None = None


def _values(ends: Stretch, edge: Callable[[int], _Edge]) -> tuple[list[Stretch], Doubt | None]:
    everything: Sequence[Stretch] = (Stretch(None, None),)
    low = None if ends.low is None else edge(ends.low)
    high = None if ends.high is None else edge(ends.high)
    behind, before = (
        (everything if low is None else low.behind),
        (everything if high is None else high.before),
    )
    stretches = united(stretch for one, other in product(behind, before) for stretch in clipped(one, other))
    doubts = [edge.doubt for edge in (low, high) if edge is not None and edge.doubt is not None]
    return stretches, next(iter(doubts), None)


def _edge(cut: Interval | None, root: TypeRoot, zone: SessionZone | None, day: int) -> _Edge:
    if root is TypeRoot.TIMESTAMP_LTZ:
        return _edge_of_instants(day, zone)
    step, at = NANOS_PER_DAY if root is TypeRoot.DATE else 1, day * NANOS_PER_DAY
    if cut is None:
        return _sharp(at // step)
    shifts = zone.shifts(at - _NEARBY, at + _NEARBY) if zone is not None and zone.is_certain(at) else ()
    # A gap may move clocks across a midnight.
    gaps = (
        (before.end + before.offset, behind.offset - before.offset) for before, behind in pairwise(shifts)
    )
    if shifts and not any(0 < at - start < 2 * gap for start, gap in gaps):
        return _sharp(at // step)
    behind, before = (
        Stretch((at - NANOS_PER_DAY) // step, None),
        Stretch(None, (at + NANOS_PER_DAY) // step),
    )
    return _Edge((before,), (behind,), Doubt.MEANING if shifts else Doubt.TIME_ZONE)


def _sharp(value: int) -> _Edge:
    return _Edge((Stretch(None, value),), (Stretch(value, None),))


def _edge_of_instants(day: int, zone: SessionZone | None) -> _Edge:
    first, last = instants_of_day(day, zone)
    if zone is None or first != last:
        return _Edge((Stretch(None, last),), (Stretch(first, None),), Doubt.TIME_ZONE)
    midnight = day * NANOS_PER_DAY
    shifts = zone.shifts(midnight - _NEARBY, midnight + _NEARBY)
    before: list[Stretch] = []
    behind: list[Stretch] = []
    for number, shift in enumerate(shifts):
        start = None if number == 0 else shift.start
        end = None if number == len(shifts) - 1 else shift.end
        shown = midnight - shift.offset
        before.extend(clipped(Stretch(start, end), Stretch(None, shown)))
        behind.extend(clipped(Stretch(start, end), Stretch(shown, None)))
    shown_edge = _Edge(united(before), united(behind))
    by_start = _sharp(first)
    if shown_edge == _Edge(list(by_start.before), list(by_start.behind)):
        return by_start
    return _Edge(united([*before, *by_start.before]), united([*behind, *by_start.behind]), Doubt.MEANING)

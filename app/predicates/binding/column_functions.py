"""Tests of dates, years and truncated times of a column as ranges of its values.

The test is first bound as one of a column of what the function gives; each of its leaves is then a few
stretches of days, and these are stretches of the column's values:

====================  =====================================================================================
column                values of the days from a to b (exclusive)
====================  =====================================================================================
DATE                  a to b
TIMESTAMP             midnight of a to midnight of b
TIMESTAMP_LTZ         the instants at which clocks of the session's zone show one of the days
====================  =====================================================================================

Spark evaluates ``CAST(instant AS DATE)``, or (the rule ``UnwrapCastInBinaryComparison``) compares the column
with the first instants of days. The two differ where clocks go back across a midnight, since then a day ends
after the next one has begun: what either takes is covered there, and nothing is proven. So it is where the
zone or its rules are not known.

``date_trunc`` gives the first instant of a day, month or another unit, of dates and wall clocks as of the
instants that they are in the session's zone. It is at least a literal from the first unit on that begins
there or later. ``month`` is a range where another test names the year. What is no range of values may be
computed for partitions (:mod:`app.predicates.binding.computed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise, product
from typing import Final, NamedTuple

from app.predicates.binding.comparisons import in_stretch
from app.predicates.binding.computed import computed, computed_type
from app.predicates.binding.places import Doubt, Stretch, clipped, united
from app.predicates.binding.time_fitting import TIME_ROOTS, as_instants
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Operator, Unknown
from app.predicates.simplify import conjunction, disjunction, with_leaves
from app.predicates.unbound import (
    Call,
    Column,
    ColumnFunction,
    Leaf,
    Literal,
    LiteralKind,
    Moment,
    Predicate,
)
from app.types import DataField, DataType, TypeRoot, parse_type
from app.types.civil_time import (
    NANOS_PER_DAY,
    NANOS_PER_MICRO,
    NANOS_PER_MILLI,
    NANOS_PER_SECOND,
    civil_date,
    epoch_days,
)
from app.types.session_zone import Instants, SessionZone, clocks_of_instants, instants_of_day

_YEARS: Final = range(-300_000, 300_001)
"""More than a timestamp of Spark can be in; nothing is decided by years beyond."""
_CALENDAR: Final = range(1, 10_000)
_MOST_STRETCHES: Final = 64
_NEARBY: Final = 2 * NANOS_PER_DAY
_INT, _DATE = parse_type("INT"), parse_type("DATE")
_INSTANT: Final = parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE")
_MONTHS: Final = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MM": 1, "MON": 1}
_DAYS: Final = {"WEEK": 7, "DAY": 1, "DD": 1}
_MONDAY: Final = -3
_NANOS: Final = {
    "HOUR": 3_600 * NANOS_PER_SECOND,
    "MINUTE": 60 * NANOS_PER_SECOND,
    "SECOND": NANOS_PER_SECOND,
    "MILLISECOND": NANOS_PER_MILLI,
    "MICROSECOND": NANOS_PER_MICRO,
}
"""Units that ``date_trunc`` cuts to: so many months, days, or nanoseconds."""


def result_of(call: Call, field: DataField) -> DataField | None:
    """What the function gives, as a column; None where it is no such function of the column's type."""
    result = _ranged_type(call, field.type.root) or computed_type(call, field.type)
    shown = ", ".join(map(str, (field.name, *call.arguments)))
    return None if result is None else DataField(field.id, f"{call.function}({shown})", result)


def _ranged_type(call: Call, root: TypeRoot) -> DataType | None:
    """The type of what a function gives whose results from one value to another are ranges of the column."""
    if root not in TIME_ROOTS:
        return None
    match call.function, call.arguments:
        case (ColumnFunction.YEAR, ()) | (ColumnFunction.MONTH, (int(),)):
            return _INT
        case ColumnFunction.DATE, ():
            return _DATE
        case ColumnFunction.DATE_TRUNC, (str(unit),) if unit in _MONTHS or unit in _DAYS:
            return _DATE
        case ColumnFunction.DATE_TRUNC, (str(unit),) if unit in _NANOS and root is not TypeRoot.DATE:
            return _INSTANT
        case _:
            return None


def within_years(children: Sequence[Predicate]) -> tuple[Predicate, ...]:
    """Conditions joined by AND, tests of a month with the year that another one demands of the column."""
    years: dict[object, int] = {}
    for child in children:
        match child:
            case Leaf(
                Operator.EQUAL,
                column,
                (Literal(LiteralKind.NUMBER, Decimal() as year),),
                call=Call(ColumnFunction.YEAR),
            ) if year in _CALENDAR:
                years[_same(column)] = int(year)
    return tuple(
        replace(child, call=replace(child.call, arguments=(years[_same(child.column)],)))
        if isinstance(child, Leaf)
        and child.call is not None
        and child.call.function is ColumnFunction.MONTH
        and _same(child.column) in years
        else child
        for child in children
    )


def _same(column: Column) -> object:
    return tuple(map(str.lower, column.parts)), column.key


def in_instants(leaf: Leaf, call: Call, zone: SessionZone | None) -> Leaf | None:
    """A test of ``date_trunc`` with its literals as the instants that Spark compares; None for others."""
    if call.function is not ColumnFunction.DATE_TRUNC:
        return leaf
    # A list with texts is compared as text in some of Spark's modes.
    if leaf.operator is Operator.IN and any(each.kind is LiteralKind.STRING for each in leaf.literals):
        return None
    literals = tuple(as_instants(literal, zone) for literal in leaf.literals)
    for literal in literals:
        match literal.value:
            case Instants(low=low, high=high):
                day = 0 if zone is None else zone.to_clock(low) // NANOS_PER_DAY
                # A midnight that clocks show twice is two instants, either of which may begin the day.
                if (
                    low == high
                    and zone is not None
                    and any(len(zone.to_instants(each * NANOS_PER_DAY)) > 1 for each in (day, day + 1))
                ):
                    return None
            case None | Moment():
                pass
            case _:
                return None
    return replace(leaf, literals=literals)


def in_column(
    bound: BoundPredicate, call: Call, field: DataField, zone: SessionZone | None
) -> BoundPredicate:
    """A test of what :func:`result_of` gives as one of the column; it nests no deeper than one leaf does."""
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
        values, doubt = _values(_before_call(result, call), partial(_edge, call, field.type.root, zone))
        tests.extend(in_stretch(field, stretch) for stretch in values)
        if doubt is not None:
            doubts.append(Unknown(str(leaf), lacks_time_zone=doubt is Doubt.TIME_ZONE))
    return conjunction([disjunction(tests), *doubts[:1]])


def _before_call(results: Stretch, call: Call) -> Stretch:
    """The days, or instants, of which a function gives some results."""
    match call.function, call.arguments:
        case ColumnFunction.YEAR, _:
            return _days_of_years(results)
        case ColumnFunction.MONTH, (int(year),):
            months = (results.low or 1, 13 if results.high is None else results.high)
            low, high = (12 * year + min(max(month, 1), 13) - 1 for month in months)
            return Stretch(_month_start(low), _month_start(high))
        case ColumnFunction.DATE_TRUNC, (str(unit),) if unit not in _NANOS:
            return Stretch(*(None if day is None else _unit_start(day, unit) for day in results))
        case _:
            return results


def _unit_start(day: int, unit: str) -> int:
    """The first day of a unit that is not before a day."""
    if days := _DAYS.get(unit):
        return _up(day - _MONDAY, days) + _MONDAY
    year, month, day_of_month = civil_date(day)
    return _month_start(_up(12 * year + month - (day_of_month == 1), _MONTHS[unit]))


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
    """Where a day begins among the values of a column; in doubt, a value may be on both sides."""

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


def _edge(call: Call, root: TypeRoot, zone: SessionZone | None, value: int) -> _Edge:
    """Where a day begins among the values of a column, or what is cut to a unit is an instant or later."""
    is_cut = call.function is ColumnFunction.DATE_TRUNC
    match root:
        case _ if is_cut and (nanos := _NANOS.get(str(call.arguments[0]))):
            return _edge_of_unit(value, nanos, root, zone)
        case TypeRoot.DATE | TypeRoot.TIMESTAMP:
            step = 1 if root is TypeRoot.DATE else NANOS_PER_DAY
            doubt = _doubt_of_clocks(value * NANOS_PER_DAY, zone) if is_cut else None
            if doubt is None:
                return _sharp(value * step)
            return _Edge((Stretch(None, (value + 1) * step),), (Stretch((value - 1) * step, None),), doubt)
        case _:
            return _edge_of_instants(value, zone)


def _doubt_of_clocks(midnight: int, zone: SessionZone | None) -> Doubt | None:
    """Why clocks before a midnight may be instants behind it: they move forward across it in a gap."""
    if zone is None or not zone.is_certain(midnight):
        return Doubt.TIME_ZONE
    shifts = zone.shifts(midnight - _NEARBY, midnight + _NEARBY)
    for before, behind in pairwise(shifts):
        start, gap = before.end + before.offset, behind.offset - before.offset
        if gap > 0 and start < midnight < min(start + gap, midnight) + gap:
            return Doubt.MEANING
    return None


def _edge_of_unit(instant: int, unit: int, root: TypeRoot, zone: SessionZone | None) -> _Edge:
    is_instant = root is TypeRoot.TIMESTAMP_LTZ
    if is_instant and unit <= NANOS_PER_SECOND:
        return _sharp(_up(instant, unit))  # offsets are whole seconds
    is_known = zone is not None and zone.is_certain(instant)
    shifts = zone.shifts(instant - _NEARBY, instant + _NEARBY) if zone is not None and is_known else ()
    if len(shifts) == 1:
        start = _up(instant + shifts[0].offset, unit)
        return _sharp(start - shifts[0].offset if is_instant else start)
    first, last = (instant, instant) if is_instant else clocks_of_instants(Instants(instant, instant), zone)
    return _Edge(
        (Stretch(None, last + unit + NANOS_PER_DAY),),
        (Stretch(first - NANOS_PER_DAY, None),),
        Doubt.MEANING if is_known else Doubt.TIME_ZONE,
    )


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

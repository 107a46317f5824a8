"""Tests of ``date(column)`` and ``year(column)`` as ranges of the column's values.

The test is first bound as one of a column of dates, or of years; each of its leaves is then a few stretches
of days, and these are stretches of the column's values:

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from app.predicates.binding.comparisons import in_stretch
from app.predicates.binding.places import Doubt, Stretch, clipped, united
from app.predicates.binding.time_fitting import TIME_ROOTS
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Operator, Unknown
from app.predicates.simplify import conjunction, disjunction, with_leaves
from app.predicates.unbound import ColumnFunction
from app.types import DataField, TypeRoot, parse_type
from app.types.civil_time import NANOS_PER_DAY, epoch_days
from app.types.session_zone import SessionZone, instants_of_day

_RESULTS: Final = {ColumnFunction.DATE: parse_type("DATE"), ColumnFunction.YEAR: parse_type("INT")}
_YEARS: Final = range(-300_000, 300_001)
"""More than a timestamp of Spark can be in; nothing is decided by years beyond."""
_MOST_STRETCHES: Final = 64
_NEARBY: Final = 2 * NANOS_PER_DAY


def result_of(function: ColumnFunction, field: DataField) -> DataField | None:
    """What the function gives, as a column; None where it is no such function of the column's type."""
    if field.type.root not in TIME_ROOTS:
        return None
    return DataField(field.id, f"{function}({field.name})", _RESULTS[function])


def in_column(
    bound: BoundPredicate, function: ColumnFunction, field: DataField, zone: SessionZone | None
) -> BoundPredicate:
    """A test of what :func:`result_of` gives as one of the column; it nests no deeper than one leaf does."""

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        match part:
            case BoundLeaf(operator=Operator.IS_NULL):
                return BoundLeaf(Operator.IS_NULL, field)
            case BoundLeaf():
                return _in_column(part, function, field, zone)
            case Constant() | Unknown():
                return part

    return with_leaves(bound, leaf)


def _in_column(
    leaf: BoundLeaf, function: ColumnFunction, field: DataField, zone: SessionZone | None
) -> BoundPredicate:
    results = list(_stretches(leaf))
    doubts: list[Unknown] = []
    if len(results) > _MOST_STRETCHES:
        results, doubts = [Stretch(results[0].low, results[-1].high)], [Unknown(str(leaf))]
    days = results
    if function is ColumnFunction.YEAR:
        days = [_days_of_years(years) for years in results]
        far = (year not in _YEARS for years in results for year in years if year is not None)
        doubts += [Unknown(str(leaf))] if any(far) else []
    tests: list[BoundPredicate] = []
    for stretch in days:
        values, doubt = _values(stretch, field, zone)
        tests.extend(in_stretch(field, stretch) for stretch in values)
        if doubt is not None:
            doubts.append(Unknown(str(leaf), lacks_time_zone=doubt is Doubt.TIME_ZONE))
    return conjunction([disjunction(tests), *doubts[:1]])


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


def _values(days: Stretch, field: DataField, zone: SessionZone | None) -> tuple[list[Stretch], Doubt | None]:
    everything: Sequence[Stretch] = (Stretch(None, None),)
    low = None if days.low is None else _edge(days.low, field.type.root, zone)
    high = None if days.high is None else _edge(days.high, field.type.root, zone)
    behind, before = (
        (everything if low is None else low.behind),
        (everything if high is None else high.before),
    )
    stretches = united(stretch for one, other in product(behind, before) for stretch in clipped(one, other))
    doubts = [edge.doubt for edge in (low, high) if edge is not None and edge.doubt is not None]
    return stretches, next(iter(doubts), None)


def _edge(day: int, root: TypeRoot, zone: SessionZone | None) -> _Edge:
    match root:
        case TypeRoot.DATE:
            return _sharp(day)
        case TypeRoot.TIMESTAMP:
            return _sharp(day * NANOS_PER_DAY)
        case _:
            return _edge_of_instants(day, zone)


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

"""Binds a predicate to the columns of a table: names become fields, literals values, NOT moves to the leaves.

NOT is pushed down by SQL's three-valued logic before literals are fitted: ``NOT (tiny = 1000)`` becomes
``tiny <> 1000`` and only then ``tiny IS NOT NULL``, so rows with NULL stay out. A test without an opposite
(LIKE, an unknown part) is unknown when negated.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never

from app.errors import FilterError
from app.predicates import unbound
from app.predicates.binding.char_tests import PaddingRoom, compare_char, outside_char
from app.predicates.binding.column_functions import in_column, in_instants, result_of, within_years
from app.predicates.binding.comparisons import compare, undecided, unproven
from app.predicates.binding.names import NAMELESS, Names, Relation
from app.predicates.binding.reasons import LIST_OF_MOMENTS, PADDED_KEYS, WITHOUT_OPPOSITE, why_not_within
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    NEGATIONS,
    NULL_TESTS,
    BoundLeaf,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.simplify import conjunction, disjunction
from app.predicates.sql.reasons import TWO_COLUMNS
from app.predicates.unbound import Interval, Leaf, Literal, LiteralKind, Moment
from app.types import NESTED_ROOTS, DataField, TypeRoot
from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_SECOND, add_months
from app.types.session_zone import Instants, SessionZone, clocks_of_instants


def bind(
    predicate: unbound.Predicate,
    fields: Sequence[DataField],
    relation: Relation = NAMELESS,
    zone: SessionZone | None = None,
    day: int | None = None,
) -> BoundPredicate:
    """Bind a predicate to ``fields``, in the form that :mod:`app.predicates.model` guarantees.

    ``zone`` is the session's time zone that the predicate was read with, None if unknown; ``day`` is the day
    of the request since 1970-01-01 in UTC, None for today. FilterError: a column does not exist, or a literal
    does not fit.
    """
    return _bind(
        predicate,
        _Scope(Names(fields, relation), zone, PaddingRoom(), today() if day is None else day),
        negated=False,
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    names: Names
    zone: SessionZone | None
    room: PaddingRoom
    day: int


def _bind(predicate: unbound.Predicate, scope: _Scope, *, negated: bool) -> BoundPredicate:
    while isinstance(predicate, unbound.Not):
        predicate, negated = predicate.child, not negated
    match predicate:
        case unbound.Leaf():
            return _leaf(predicate, scope, negated=negated)
        case unbound.Flag(column):
            return _flag(column, scope.names, negated=negated)
        case unbound.And(children) | unbound.Or(children):
            # map, not a comprehension, which would be one more Python frame for each level of nesting.
            is_conjunction = isinstance(predicate, unbound.And) is not negated
            if is_conjunction and not negated:
                children = within_years(children, scope.names.tested)
            bound = tuple(map(partial(_bind, scope=scope, negated=negated), children))
            return conjunction(bound) if is_conjunction else disjunction(bound)
        case unbound.Constant(value):
            # NULL excludes the row, like false, with or without NOT.
            return ALWAYS_FALSE if value is None or value is negated else ALWAYS_TRUE
        case unbound.Either(readings, text):
            # Each reading has its own negation: rows of either are kept, and proven of none.
            either = disjunction([_bind(reading, scope, negated=negated) for reading in readings])
            return conjunction([either, Unknown(f"NOT ({text})" if negated else text)])
        case unbound.Unknown(text, columns, position, reason):
            for number, column in enumerate(columns):
                scope.names.tested(column, may_be_text=number > 0)
            doubts = filter(None, map(scope.names.doubt, columns))
            return Unknown(f"NOT ({text})" if negated else text, position, reason=next(doubts, reason))
        case _:
            assert_never(predicate)


def _leaf(leaf: unbound.Leaf, scope: _Scope, *, negated: bool) -> BoundPredicate:
    names = scope.names
    field = names.tested(leaf.column)
    if field is None:
        return Unknown(f"NOT ({leaf.text})" if negated else leaf.text, reason=names.doubt(leaf.column))
    if field.type.root in NESTED_ROOTS and leaf.operator not in NULL_TESTS:
        if any(literal.kind is unbound.LiteralKind.JSON for literal in leaf.literals):
            raise FilterError(
                f"{field.name} is {field.type}, which only IS_NULL and IS_NOT_NULL can test",
                column=field.name,
                position=leaf.column.position,
            )
        return undecided(leaf, field)
    if not names.has_one_form(field):
        return Unknown(leaf.text, reason=PADDED_KEYS)
    call = leaf.call
    if call is None:
        return _test(leaf, field, scope, negated=negated)
    result = result_of(call, field)
    rewritten = leaf if result is None else in_instants(leaf, call, scope.zone)
    if result is None or rewritten is None:
        return Unknown(f"NOT ({leaf.text})" if negated else leaf.text, reason=why_not_within(call, field))
    return in_column(_test(rewritten, result, scope, negated=negated), call, field, scope.zone)


def _test(leaf: unbound.Leaf, field: DataField, scope: _Scope, *, negated: bool) -> BoundPredicate:
    zone = scope.zone
    if clock_literals := moments(leaf):
        if any(moment.column is not None and scope.names.has(moment.column) for moment in clock_literals):
            return Unknown(leaf.text, reason=TWO_COLUMNS)
        return _test_by_clock(leaf, field, scope, negated=negated)
    test = _comparison(leaf, field, scope)
    if not negated:
        return test(leaf.operator)
    if leaf.operator is Operator.BETWEEN:
        if field.type.root is TypeRoot.CHAR:
            return outside_char(leaf, field, scope.room)
        below, above = (
            unbound.Leaf(operator, leaf.column, (literal,), leaf.text)
            for operator, literal in zip(
                (Operator.LESS_THAN, Operator.GREATER_THAN), leaf.literals, strict=True
            )
        )
        return disjunction(
            [compare(below, below.operator, field, zone), compare(above, above.operator, field, zone)]
        )
    if leaf.operator not in NEGATIONS:
        return _negated_text_test(leaf, field, test(leaf.operator))
    opposite = test(NEGATIONS[leaf.operator])
    # An undecided literal may be NULL to Spark, which NULL then equals.
    if not leaf.null_safe or isinstance(opposite, Unknown):
        return opposite
    return disjunction([opposite, BoundLeaf(Operator.IS_NULL, field)])


def _test_by_clock(leaf: unbound.Leaf, field: DataField, scope: _Scope, *, negated: bool) -> BoundPredicate:
    """Cover a comparison with the time of the query for every time in the request's margin."""
    if leaf.operator is Operator.BETWEEN:
        ends = [
            replace(leaf, operator=operator, literals=(literal,))
            for operator, literal in zip(
                (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL), leaf.literals, strict=True
            )
        ]
        bound = [_test(end, field, scope, negated=negated) for end in ends]
        return disjunction(bound) if negated else conjunction(bound)
    operator = NEGATIONS.get(leaf.operator) if negated else leaf.operator
    first, last = (resolved(leaf, scope.zone, scope.day, last=last) for last in (False, True))
    match operator:
        case Operator.LESS_THAN | Operator.LESS_OR_EQUAL:
            test = compare(last, operator, field, scope.zone)
        case Operator.GREATER_THAN | Operator.GREATER_OR_EQUAL:
            test = compare(first, operator, field, scope.zone)
        case Operator.EQUAL:
            test = compare(first, Operator.GREATER_OR_EQUAL, field, scope.zone)
            to_last = compare(last, Operator.LESS_OR_EQUAL, field, scope.zone)
            test = test if isinstance(test, Unknown) else conjunction([test, to_last])
        case Operator.NOT_EQUAL if not leaf.null_safe:
            test = BoundLeaf(Operator.IS_NOT_NULL, field)
        case _:
            return Unknown(leaf.text, reason=LIST_OF_MOMENTS)
    return test if isinstance(test, Unknown) else conjunction([test, unproven(leaf)])


def _comparison(leaf: unbound.Leaf, field: DataField, scope: _Scope) -> Callable[[Operator], BoundPredicate]:
    def test(operator: Operator) -> BoundPredicate:
        if field.type.root is TypeRoot.CHAR and operator not in NULL_TESTS:
            return compare_char(leaf, operator, field, scope.room)
        return compare(leaf, operator, field, scope.zone)

    return test


def _negated_text_test(leaf: unbound.Leaf, field: DataField, bound: BoundPredicate) -> BoundPredicate:
    """Negate a test of text, which is possible only where it became an equality or a NULL test."""
    match bound:
        case BoundLeaf(operator=Operator.EQUAL, literals=literals):
            return BoundLeaf(Operator.NOT_EQUAL, field, literals)
        case BoundLeaf(operator=Operator.IS_NOT_NULL):
            return ALWAYS_FALSE  # every string passes the test
        case _ if bound == ALWAYS_FALSE:
            return ALWAYS_FALSE  # the literal is NULL
        case _:
            return Unknown(f"NOT ({leaf.text})", reason=WITHOUT_OPPOSITE)


def _flag(column: unbound.Column, names: Names, *, negated: bool) -> BoundPredicate:
    field = names.tested(column)
    if field is None:
        return Unknown(f"NOT {column}" if negated else str(column), reason=names.doubt(column))
    if field.type.root is not TypeRoot.BOOLEAN:
        raise FilterError(
            f"{field.name} is {field.type}; only a BOOLEAN column is a condition by itself",
            column=field.name,
            position=column.position,
        )
    return BoundLeaf(Operator.EQUAL, field, (not negated,))


# The reader's clock may differ from this machine's, and its query may have begun before the request:
# decisions hold from the day before the request to the day after it, in UTC.
_MARGIN: Final = NANOS_PER_DAY
# Exceeds any change of clocks between two days.
_CALENDAR_MARGIN: Final = 2 * NANOS_PER_DAY
_CLOCKS: Final = ("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURDATE")
# A pattern with a literal prefix is searched fast; any other is tried at each character.
_NOW: Final = re.compile(r"NOW(?<=\bNOW)\b")


def today() -> int:
    """Return days since 1970-01-01 in UTC."""
    return int(time.time()) * NANOS_PER_SECOND // NANOS_PER_DAY


def day_of_request(written: object) -> int | None:
    """Return the day that a filter's meaning depends on; None if it mentions no clock."""
    if not isinstance(written, str):
        return None
    # A plan stays valid for the whole day of its request, so that its pages agree.
    text = written.upper()
    return today() if any(name in text for name in _CLOCKS) or _NOW.search(text) else None


def moments(leaf: Leaf) -> list[Moment]:
    """List the moments among a leaf's literals."""
    return [literal.value for literal in leaf.literals if isinstance(literal.value, Moment)]


def resolved(leaf: Leaf, zone: SessionZone | None, day: int, *, last: bool) -> Leaf:
    """Replace moments by their least, or greatest, values during the request's day in UTC."""
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

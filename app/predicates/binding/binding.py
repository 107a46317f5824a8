"""Binds a predicate to the columns of a table: names become fields, literals values, NOT goes to the leaves.

NOT is pushed down by SQL's three-valued logic, before literals are fitted: ``NOT (tiny = 1000)`` becomes
``tiny <> 1000`` and only then ``tiny IS NOT NULL``, so that rows with NULL stay out. What has no opposite
test (LIKE, an unknown part) is unknown when negated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

from app.errors import FilterError
from app.predicates import unbound
from app.predicates.binding.char_tests import compare_char, outside_char
from app.predicates.binding.char_values import PaddingRoom
from app.predicates.binding.comparisons import compare, unknown
from app.predicates.binding.names import NAMELESS, Names, Relation
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    NEGATIONS,
    BoundLeaf,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.simplify import conjunction, disjunction
from app.types import DataField, TypeRoot
from app.types.data_types import NESTED_ROOTS
from app.types.session_zone import SessionZone

_NULL_TESTS: Final = frozenset({Operator.IS_NULL, Operator.IS_NOT_NULL})


def bind(
    predicate: unbound.Predicate,
    fields: Sequence[DataField],
    relation: Relation = NAMELESS,
    zone: SessionZone | None = None,
) -> BoundPredicate:
    """The predicate over ``fields``, in the form that :mod:`app.predicates.model` guarantees.

    Args:
        predicate: what was read.
        fields: the columns that it may name.
        relation: what may stand before their names.
        zone: the time zone of the caller's session, with which it was read; None if it is not known.

    Raises:
        FilterError: a column is not there, or a literal does not fit its column.
    """
    return _bind(predicate, _Scope(Names(fields, relation), zone, PaddingRoom()), negated=False)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a predicate is bound to.

    Attributes:
        names: the columns.
        zone: the time zone of the caller's session; None if it is not known.
        room: room for the forms in which literals of CHAR may be stored.
    """

    names: Names
    zone: SessionZone | None
    room: PaddingRoom


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
            bound = tuple(map(partial(_bind, scope=scope, negated=negated), children))
            is_conjunction = isinstance(predicate, unbound.And) is not negated
            return conjunction(bound) if is_conjunction else disjunction(bound)
        case unbound.Constant(value):
            # NULL is as good as false on either side of NOT.
            return ALWAYS_FALSE if value is None or value is negated else ALWAYS_TRUE
        case unbound.Unknown(text, columns, position):
            for number, column in enumerate(columns):
                scope.names.tested(column, may_be_text=number > 0)
            # Where there is a position, it is told anyway that nobody can decide the part.
            doubts = [] if position is not None else filter(None, map(scope.names.doubt, columns))
            return Unknown(f"NOT ({text})" if negated else text, position, reason=next(iter(doubts), None))
        case _:
            assert_never(predicate)


def _leaf(leaf: unbound.Leaf, scope: _Scope, *, negated: bool) -> BoundPredicate:
    names, zone = scope.names, scope.zone
    field = names.tested(leaf.column)
    if field is None:
        return Unknown(f"NOT ({leaf.text})" if negated else leaf.text, reason=names.doubt(leaf.column))
    if field.type.root in NESTED_ROOTS and leaf.operator not in _NULL_TESTS:
        if any(literal.kind is unbound.LiteralKind.JSON for literal in leaf.literals):
            raise FilterError(
                f"{field.name} is {field.type}, which only IS_NULL and IS_NOT_NULL can test",
                column=field.name,
                position=leaf.column.position,
            )
        return unknown(leaf, field)
    if not names.has_one_form(field):
        return unknown(leaf, field)
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
    return disjunction([opposite, BoundLeaf(Operator.IS_NULL, field)]) if leaf.null_safe else opposite


def _comparison(leaf: unbound.Leaf, field: DataField, scope: _Scope) -> Callable[[Operator], BoundPredicate]:
    """The meaning of a leaf by the operator that stands in place of its own."""

    def test(operator: Operator) -> BoundPredicate:
        if field.type.root is TypeRoot.CHAR and operator not in _NULL_TESTS:
            return compare_char(leaf, operator, field, scope.room)
        return compare(leaf, operator, field, scope.zone)

    return test


def _negated_text_test(leaf: unbound.Leaf, field: DataField, bound: BoundPredicate) -> BoundPredicate:
    """NOT LIKE and its kin: decided where the test is an equality or a NULL test in disguise."""
    match bound:
        case BoundLeaf(operator=Operator.EQUAL, literals=literals):
            return BoundLeaf(Operator.NOT_EQUAL, field, literals)
        case BoundLeaf(operator=Operator.IS_NOT_NULL):
            return ALWAYS_FALSE  # every string passes the test
        case _ if bound == ALWAYS_FALSE:
            return ALWAYS_FALSE  # the literal is NULL
        case _:
            return Unknown(f"NOT ({leaf.text})")


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

"""Binds a predicate to the columns of a table: names become fields, literals values, NOT goes to the leaves.

NOT is pushed down by SQL's three-valued logic, before literals are fitted: ``NOT (tiny = 1000)`` becomes
``tiny <> 1000`` and only then ``tiny IS NOT NULL``, so that rows with NULL stay out. What has no opposite
test (LIKE, an unknown part) is unknown when negated.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

from app.errors import FilterError
from app.predicates import unbound
from app.predicates.comparisons import NEGATIONS, compare, unknown
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundLeaf,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.names import NAMELESS, Names, Relation
from app.predicates.simplify import conjunction, disjunction
from app.types import TypeRoot
from app.types.data_types import NESTED_ROOTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.types import DataField

_NULL_TESTS: Final = frozenset({Operator.IS_NULL, Operator.IS_NOT_NULL})


def bind(
    predicate: unbound.Predicate, fields: Sequence[DataField], relation: Relation = NAMELESS
) -> BoundPredicate:
    """The predicate over ``fields``, in the form that :mod:`app.predicates.model` guarantees.

    Args:
        predicate: the predicate.
        fields: the columns that it may name.
        relation: what may stand before their names.

    Raises:
        FilterError: a column is not there, or a literal does not fit its column.
    """
    return _bind(predicate, Names(fields, relation), negated=False)


def _bind(predicate: unbound.Predicate, names: Names, *, negated: bool) -> BoundPredicate:
    while isinstance(predicate, unbound.Not):
        predicate, negated = predicate.child, not negated
    match predicate:
        case unbound.Leaf():
            return _leaf(predicate, names, negated=negated)
        case unbound.Flag(column):
            return _flag(column, names, negated=negated)
        case unbound.And(children) | unbound.Or(children):
            # map, not a comprehension, which would be one more Python frame for each level of nesting.
            bound = tuple(map(partial(_bind, names=names, negated=negated), children))
            is_conjunction = isinstance(predicate, unbound.And) is not negated
            return conjunction(bound) if is_conjunction else disjunction(bound)
        case unbound.Constant(value):
            # NULL is as good as false on either side of NOT.
            return ALWAYS_FALSE if value is None or value is negated else ALWAYS_TRUE
        case unbound.Unknown(text, columns):
            ids = frozenset().union(*map(names.field_ids, columns))
            return Unknown(f"NOT ({text})" if negated else text, ids)
        case _:
            assert_never(predicate)


def _leaf(leaf: unbound.Leaf, names: Names, *, negated: bool) -> BoundPredicate:
    field = names.tested(leaf.column)
    if field is None:
        return Unknown(f"NOT ({leaf.text})" if negated else leaf.text, names.field_ids(leaf.column))
    if field.type.root in NESTED_ROOTS and leaf.operator not in _NULL_TESTS:
        if any(literal.kind is unbound.LiteralKind.JSON for literal in leaf.literals):
            raise FilterError(
                f"{field.name} is {field.type}, which only IS_NULL and IS_NOT_NULL can test",
                column=field.name,
                position=leaf.column.position,
            )
        return unknown(leaf, field)
    if not negated:
        return compare(leaf, leaf.operator, field)
    if leaf.operator is Operator.BETWEEN:
        below, above = (
            unbound.Leaf(operator, leaf.column, (literal,), leaf.text)
            for operator, literal in zip(
                (Operator.LESS_THAN, Operator.GREATER_THAN), leaf.literals, strict=True
            )
        )
        return disjunction([compare(below, below.operator, field), compare(above, above.operator, field)])
    if leaf.operator not in NEGATIONS:
        return _negated_text_test(leaf, field)
    opposite = compare(leaf, NEGATIONS[leaf.operator], field)
    return disjunction([opposite, BoundLeaf(Operator.IS_NULL, field)]) if leaf.null_safe else opposite


def _negated_text_test(leaf: unbound.Leaf, field: DataField) -> BoundPredicate:
    """NOT LIKE and its kin: decided where the test is an equality or a NULL test in disguise."""
    match compare(leaf, leaf.operator, field):
        case BoundLeaf(operator=Operator.EQUAL, literals=literals):
            return BoundLeaf(Operator.NOT_EQUAL, field, literals)
        case BoundLeaf(operator=Operator.IS_NOT_NULL):
            return ALWAYS_FALSE  # every string passes the test
        case bound if bound == ALWAYS_FALSE:
            return ALWAYS_FALSE  # the literal is NULL
        case _:
            return Unknown(f"NOT ({leaf.text})", frozenset({field.id}))


def _flag(column: unbound.Column, names: Names, *, negated: bool) -> BoundPredicate:
    field = names.tested(column)
    if field is None:
        return Unknown(f"NOT {column}" if negated else str(column), names.field_ids(column))
    if field.type.root is not TypeRoot.BOOLEAN:
        raise FilterError(
            f"{field.name} is {field.type}; only a BOOLEAN column is a condition by itself",
            column=field.name,
            position=column.position,
        )
    return BoundLeaf(Operator.EQUAL, field, (not negated,))

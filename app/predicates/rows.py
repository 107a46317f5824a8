"""Evaluates a predicate over the values of one row, some of which may not be known.

Three answers: true, false (which includes SQL's NULL: the row is not in the answer) and unknown, for parts
that nothing here can decide and for fields without a value. This is how partitions are pruned, where only
the partition's columns have values, and what every index is held against in tests.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, assert_never

from app.predicates.like import like
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Operator, Unknown
from app.types import sql_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.types import Value


def matches(predicate: BoundPredicate, row: Mapping[int, Value | None]) -> bool | None:
    """Whether a row is in the predicate's answer.

    Args:
        predicate: the predicate.
        row: the row's values by field id, None for NULL; a field that is not in it is not known. A key of a
            map has the id of its map, so maps and their keys have no place in here.

    Returns:
        True only if the row is proven to be in the answer, False only if it is proven not to be, else None.
    """
    match predicate:
        case BoundLeaf(field=field):
            return leaf_matches(predicate, row[field.id]) if field.id in row else None
        case BoundAnd(children) | BoundOr(children):
            decisive = isinstance(predicate, BoundOr)
            answer: bool | None = not decisive
            for child in children:
                found = matches(child, row)
                if found is decisive:
                    return decisive
                if found is None:
                    answer = None
            return answer
        case Constant(value):
            return value
        case Unknown():
            return None
        case _:
            assert_never(predicate)


def leaf_matches(leaf: BoundLeaf, value: Value | None) -> bool:
    """Whether a value, None for NULL, passes a test."""
    if value is None:
        return leaf.operator is Operator.IS_NULL
    match leaf.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return leaf.operator is Operator.IS_NOT_NULL
        case Operator.IN | Operator.NOT_IN:
            return _is_listed(leaf, value) is (leaf.operator is Operator.IN)
        case Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.CONTAINS | Operator.LIKE:
            return _text_matches(leaf.operator, value, leaf.literals[0])
        case _:
            key = sql_key(leaf.field.type)
            return _in_order(leaf.operator, key(value), [key(literal) for literal in leaf.literals])


def _is_listed(leaf: BoundLeaf, value: Value) -> bool:
    key = sql_key(leaf.field.type)
    at = bisect_left(leaf.literals, key(value), key=key)
    return at < len(leaf.literals) and key(leaf.literals[at]) == key(value)


def _text_matches(operator: Operator, value: Any, literal: Any) -> bool:  # noqa: ANN401 - bytes, by binding's guarantee
    match operator:
        case Operator.STARTS_WITH:
            return bool(value.startswith(literal))
        case Operator.ENDS_WITH:
            return bool(value.endswith(literal))
        case Operator.CONTAINS:
            return literal in value
        case _:
            return like(value, literal)


def _in_order(operator: Operator, value: Any, literals: list[Any]) -> bool:  # noqa: ANN401 - keys of one type compare
    literal = literals[0]
    match operator:
        case Operator.EQUAL:
            return bool(value == literal)
        case Operator.NOT_EQUAL:
            return bool(value != literal)
        case Operator.LESS_THAN:
            return bool(value < literal)
        case Operator.LESS_OR_EQUAL:
            return bool(value <= literal)
        case Operator.GREATER_THAN:
            return bool(value > literal)
        case Operator.GREATER_OR_EQUAL:
            return bool(value >= literal)
        case _:
            return bool(literal <= value <= literals[1])

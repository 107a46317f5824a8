"""The meaning of a bound predicate: whether one row is in its answer.

Some values may not be known, so there are three answers: true, false (which includes SQL's NULL: the row is
not in the answer) and unknown, for parts that nothing here can decide and for fields without a value.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from app.predicates.like import like
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Operator, Unknown, fold
from app.types import Value, sql_key


def matches(predicate: BoundPredicate, row: Mapping[int, Value | None]) -> bool | None:
    """Whether a row is in the predicate's answer.

    ``row``: the row's values by field id, None for NULL; a field that is not in it is not known. A key of a
    map has the id of its map, so maps and their keys have no place in here.

    Returns:
        True only if the row is proven to be in the answer, False only if it is proven not to be, else None.
    """

    def of_leaf(leaf: BoundLeaf | Constant | Unknown) -> bool | None:
        match leaf:
            case BoundLeaf(field=field):
                return leaf_matches(leaf, row[field.id]) if field.id in row else None
            case Constant(value):
                return value
            case Unknown():
                return None

    def all_of(answers: Sequence[bool | None]) -> bool | None:
        return False if False in answers else None if None in answers else True

    def any_of(answers: Sequence[bool | None]) -> bool | None:
        return True if True in answers else None if None in answers else False

    return fold(predicate, of_leaf, all_of, any_of)


def leaf_matches(leaf: BoundLeaf, value: Value | None) -> bool:
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


def _text_matches(operator: Operator, value: Any, literal: Any) -> bool:
    match operator:
        case Operator.STARTS_WITH:
            return bool(value.startswith(literal))
        case Operator.ENDS_WITH:
            return bool(value.endswith(literal))
        case Operator.CONTAINS:
            return literal in value
        case _:
            return like(value, literal)


def _in_order(operator: Operator, value: Any, literals: list[Any]) -> bool:
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

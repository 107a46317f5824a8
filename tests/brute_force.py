"""The rows that satisfy a bound predicate, found by looking at every row: the referee of index answers."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from pyroaring import BitMap

from app.predicates.like import like
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Operator, Unknown
from app.types import Value, sql_key


def matching_rows(
    predicate: BoundPredicate, columns: Mapping[str, Sequence[Value | None]], row_count: int
) -> BitMap:
    match predicate:
        case Constant(value):
            return BitMap(range(row_count)) if value else BitMap()
        case BoundAnd(children):
            found = (matching_rows(child, columns, row_count) for child in children)
            return BitMap.intersection(BitMap(range(row_count)), *found)
        case BoundOr(children):
            return BitMap.union(BitMap(), *(matching_rows(child, columns, row_count) for child in children))
        case BoundLeaf(field=field):
            column = columns[field.name]
            decided = {value: _is_true(predicate, value) for value in set(column)}
            return BitMap([row for row, value in enumerate(column) if decided[value]])
        case Unknown():
            raise AssertionError(f"nobody knows whether a row satisfies {predicate}")
        case _:
            assert_never(predicate)


def _is_true(leaf: BoundLeaf, value: Value | None) -> bool:  # noqa: C901 - a decision table
    if value is None or leaf.operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return (leaf.operator is Operator.IS_NULL) if value is None else leaf.operator is Operator.IS_NOT_NULL
    key = sql_key(leaf.field.type)
    row: Any = key(value)
    literals: list[Any] = [key(literal) for literal in leaf.literals]
    match leaf.operator:
        case Operator.EQUAL | Operator.IN:
            return row in literals
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            return row not in literals
        case Operator.LESS_THAN:
            return bool(row < literals[0])
        case Operator.LESS_OR_EQUAL:
            return bool(row <= literals[0])
        case Operator.GREATER_THAN:
            return bool(row > literals[0])
        case Operator.GREATER_OR_EQUAL:
            return bool(row >= literals[0])
        case Operator.BETWEEN:
            return bool(literals[0] <= row <= literals[1])
        case Operator.STARTS_WITH:
            return bool(row.startswith(literals[0]))
        case Operator.ENDS_WITH:
            return bool(row.endswith(literals[0]))
        case Operator.CONTAINS:
            return literals[0] in row
        case Operator.LIKE:
            return like(row, literals[0])
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            raise AssertionError("decided above")
        case _:
            assert_never(leaf.operator)

"""The *shape* of a filter: the filter as Spark SQL with ``?`` for every literal, which shows no value.

A list of any length has two of them: ``city IN (?, ?)``.
"""

from __future__ import annotations

from typing import Final

from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Operator, Unknown, fold, leaves

_LEAVES: Final = 16
"""Longer filters have no shape."""


def shape_of(predicate: BoundPredicate) -> str:
    """A filter as Spark SQL with ``?`` for each literal; empty where it is long, constant, or tests map keys.

    A part that nothing here can decide stands as TRUE, which keeps every row as it does.
    """
    parts = list(leaves(predicate))
    tests = [part for part in parts if isinstance(part, BoundLeaf)]
    # Of a part that is unknown nothing but its text is known, which may have literals in it.
    if not tests or len(parts) > _LEAVES or any("[" in test.field.name for test in tests):
        return ""
    shape = fold(
        predicate,
        _shape_of_leaf,
        lambda shapes: f"({' AND '.join(shapes)})",
        lambda shapes: f"({' OR '.join(shapes)})",
    )
    return shape if len(parts) == 1 else shape[1:-1]


def _shape_of_leaf(leaf: BoundLeaf | Constant | Unknown) -> str:
    match leaf:
        case BoundLeaf():
            name = "`" + leaf.field.name.replace("`", "``") + "`"
            return _TESTS[leaf.operator].format(name)
        case Constant(value=False):
            return "FALSE"
        case _:
            return "TRUE"


_TESTS: Final = {
    Operator.EQUAL: "{} = ?",
    Operator.NOT_EQUAL: "{} <> ?",
    Operator.LESS_THAN: "{} < ?",
    Operator.LESS_OR_EQUAL: "{} <= ?",
    Operator.GREATER_THAN: "{} > ?",
    Operator.GREATER_OR_EQUAL: "{} >= ?",
    Operator.IN: "{} IN (?, ?)",
    Operator.NOT_IN: "{} NOT IN (?, ?)",
    Operator.BETWEEN: "{} BETWEEN ? AND ?",
    Operator.IS_NULL: "{} IS NULL",
    Operator.IS_NOT_NULL: "{} IS NOT NULL",
    Operator.STARTS_WITH: "startswith({}, ?)",
    Operator.ENDS_WITH: "endswith({}, ?)",
    Operator.CONTAINS: "contains({}, ?)",
    Operator.LIKE: "{} LIKE ?",
}

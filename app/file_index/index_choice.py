"""Which indexes a leaf asks, in which order, and what is decided without asking any.

Evaluation of one file (:mod:`app.file_index.evaluation`) and of many
(:mod:`app.file_index.stacked.evaluation`) go by the same rules; so does whoever fetches no more of an index
file than is going to be asked.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from app.file_index.answers.conditions import Condition, condition
from app.file_index.index_kinds import KINDS, IndexKind
from app.file_index.keys.keys import key_space
from app.predicates.model import BoundLeaf, BoundPredicate, Operator, leaves

WantedIndexes: TypeAlias = "frozenset[tuple[str, IndexKind]]"
"""Columns, each with a kind of index on it."""

_CONDITION: Final = "condition on index keys"
_FALSE_WITHOUT_VALUES = frozenset(
    {
        Operator.EQUAL,
        Operator.LESS_THAN,
        Operator.LESS_OR_EQUAL,
        Operator.GREATER_THAN,
        Operator.GREATER_OR_EQUAL,
        Operator.IN,
        Operator.IS_NOT_NULL,
        Operator.STARTS_WITH,
        Operator.ENDS_WITH,
        Operator.CONTAINS,
    }
)
"""What an empty entry decides, as in the engine. The other tests need a value too, but the engine keeps the
file there, and an entry that should not be empty must not cost more rows here than it does there."""


def condition_of(leaf: BoundLeaf) -> Condition | None:
    """The leaf as a condition on keys; None if no index can tell."""
    if _CONDITION not in leaf.derived:
        space = key_space(leaf.field.type)
        leaf.derived[_CONDITION] = None if space is None else condition(leaf, space)
    found: Condition | None = leaf.derived[_CONDITION]
    return found


def is_false_without_values(leaf: BoundLeaf) -> bool:
    """Whether an empty entry rules out the file: no row of it has a value to be tested."""
    return leaf.operator in _FALSE_WITHOUT_VALUES


def bounded_on_both_sides(parts: tuple[BoundPredicate, ...]) -> set[str]:
    """Columns that an OR bounds from above in one part and from below in another.

    This is NOT BETWEEN in its bound form, which the engine does not let an empty entry decide.
    """
    below, above = (
        {part.field.name for part in parts if isinstance(part, BoundLeaf) and part.operator in operators}
        for operators in (
            (Operator.LESS_THAN, Operator.LESS_OR_EQUAL),
            (Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL),
        )
    )
    return below & above


def wanted_indexes(predicate: BoundPredicate) -> WantedIndexes:
    """The indexes that evaluating a predicate may ask, where a file has them.

    Args:
        predicate: bound to the schema that the files were written with.
    """
    wanted = set()
    for leaf in leaves(predicate):
        condition = condition_of(leaf) if isinstance(leaf, BoundLeaf) else None
        if isinstance(leaf, BoundLeaf) and condition is not None:
            wanted |= {(leaf.field.name, kind) for kind in KINDS.values() if kind.can_answer(condition)}
    return frozenset(wanted)

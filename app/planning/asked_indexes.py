"""Which indexes a filter asks: what has to be fetched of index files, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from app.file_index.asking import asked_condition, has_something_to_say
from app.file_index.index_kinds import IndexKind
from app.predicates.model import BoundLeaf, leaves

if TYPE_CHECKING:
    from app.predicates.model import BoundPredicate

Asked: TypeAlias = frozenset[tuple[str, IndexKind]]
"""Columns, each with a kind of index on it."""


def asked_indexes(predicate: BoundPredicate) -> Asked:
    """The indexes that evaluating a filter may ask.

    Args:
        predicate: bound to the schema that the files were written with.
    """
    asked = set()
    for leaf in leaves(predicate):
        condition = asked_condition(leaf) if isinstance(leaf, BoundLeaf) else None
        if isinstance(leaf, BoundLeaf) and condition is not None:
            asked |= {(leaf.field.name, kind) for kind in IndexKind if has_something_to_say(kind, condition)}
    return frozenset(asked)

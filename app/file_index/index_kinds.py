"""The known kinds of file index, and the order in which a leaf evaluates them.

Evaluation and fetching share these rules, so that every index that a leaf may evaluate is fetched.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from app.errors import CorruptIndexError
from app.file_index.answers import Condition, condition
from app.file_index.bitmap.kind import BITMAP
from app.file_index.bloom_filter.kind import BLOOM_FILTER
from app.file_index.bsi.kind import BSI
from app.file_index.keys.keys import key_space
from app.file_index.kind import FileStack, Kind
from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.predicates.model import BoundLeaf, BoundPredicate, Operator, leaves
from app.types import BytesColumn, DataType
from app.types.roaring import Buffer

__all__ = ["BITMAP", "BLOOM_FILTER", "BSI", "KINDS", "RANGE_BITMAP", "IndexKind", "cost", "open_payload"]

IndexKind: TypeAlias = Kind[Any, Any]

KINDS: dict[str, IndexKind] = {
    "bloom-filter": BLOOM_FILTER,
    "bitmap": BITMAP,
    "range-bitmap": RANGE_BITMAP,
    "bsi": BSI,
}
"""Kinds by their names in files, cheapest first: the order of evaluation."""

WantedIndexes: TypeAlias = "frozenset[tuple[str, IndexKind]]"
"""Columns, each with a kind of index on it."""

_CONDITION: Final = "condition on index keys"
# Operators that an empty entry decides, as in the engine. The other operators need a value too, but the
# engine keeps the file for them. An entry that is empty by mistake must not lose more rows here than in the
# engine.
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


def cost(kind: str) -> int:
    """Return the rank of a kind in the order of evaluation, cheapest first. Unknown kinds come last."""
    return list(KINDS).index(kind) if kind in KINDS else len(KINDS)


def open_payload(kind: IndexKind, payload: Buffer, data_type: DataType) -> FileStack[Any]:
    """Open one file's index as a stack. Raises CorruptIndexError if it is broken or does not fit the type."""
    space = key_space(data_type)
    if space is None or not kind.takes(data_type):
        raise CorruptIndexError(f"expected no {kind} index on a column of type {data_type}, found one")
    return kind.stack(BytesColumn.of([payload]), space, strict=True)


def condition_of(leaf: BoundLeaf) -> Condition | None:
    """Return a leaf as a condition on keys, cached in the leaf. Return None if no index can answer it."""
    if _CONDITION not in leaf.derived:
        space = key_space(leaf.field.type)
        leaf.derived[_CONDITION] = None if space is None else condition(leaf, space)
    on_keys: Condition | None = leaf.derived[_CONDITION]
    return on_keys


def is_false_without_values(leaf: BoundLeaf) -> bool:
    """Return True if an empty entry rules out the file: no row has a value that could satisfy the leaf."""
    return leaf.operator in _FALSE_WITHOUT_VALUES


def bounded_on_both_sides(parts: tuple[BoundPredicate, ...]) -> set[str]:
    """Return columns that an OR bounds from above in one part and from below in another."""
    # NOT BETWEEN has this form once it is bound. In the engine, an empty entry does not decide it.
    below, above = (
        {part.field.name for part in parts if isinstance(part, BoundLeaf) and part.operator in operators}
        for operators in (
            (Operator.LESS_THAN, Operator.LESS_OR_EQUAL),
            (Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL),
        )
    )
    return below & above


def wanted_indexes(predicate: BoundPredicate) -> WantedIndexes:
    """Return indexes that evaluation of a predicate may use, if a file has them."""
    needed = set()
    for leaf in leaves(predicate):
        condition = condition_of(leaf) if isinstance(leaf, BoundLeaf) else None
        if isinstance(leaf, BoundLeaf) and condition is not None:
            needed |= {(leaf.field.name, kind) for kind in KINDS.values() if kind.can_answer(condition)}
    return frozenset(needed)

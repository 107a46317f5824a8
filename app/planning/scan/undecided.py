"""Warns of files that a filter keeps since nobody could be asked: no bounds and no index decide a test of it.

Files whose bounds enclose the literal were asked, and are not counted.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Final, TypeGuard

from app.file_index.index_kinds import KINDS, condition_of
from app.planning.plan.file_plan import KeepReason
from app.planning.plan.state import PlanState
from app.planning.request.filters import filter_warnings
from app.predicates.binding.names import ROW_ID
from app.predicates.model import (
    NULL_TESTS,
    BoundLeaf,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
    leaves,
)

_WITHIN_TEXT: Final = frozenset({Operator.ENDS_WITH, Operator.CONTAINS})
_MOST_TESTS: Final = 5


def narrowing_warnings(state: PlanState, predicate: BoundPredicate) -> list[str]:
    """Warnings that name what narrows the answer, of the filters of files that are left."""
    if not any(isinstance(part, Unknown) for part in leaves(predicate)):
        return []
    counts = state.count_left()
    return list(
        filter_warnings(*(each for each, files in zip(state.predicates, counts, strict=True) if files))
    )


def undecided_warnings(
    state: PlanState, bounded: Container[tuple[str, bool]], *, reads_indexes: bool
) -> list[str]:
    """How many files are kept since nobody could be asked, and what would decide.

    Args:
        bounded: columns of which some file has bounds (False), or counts of NULLs (True).
        reads_indexes: whether the table's options have file indexes read.
    """
    unasked = [[part for part in leaves(each) if _is_unasked(part, bounded)] for each in state.predicates]
    if not any(unasked):
        return []
    counts = state.count_left(KeepReason.NO_INDEX, KeepReason.NOT_DECIDABLE)
    kept = [(parts, files) for parts, files in zip(unasked, counts, strict=True) if parts and files]
    ways = {str(part): _way_out(part, reads_indexes=reads_indexes) for parts, _ in kept for part in parts}
    shown = "; ".join(f"{test} ({way})" for test, way in islice(ways.items(), _MOST_TESTS))
    rest = f"; and {len(ways) - _MOST_TESTS} more tests" if len(ways) > _MOST_TESTS else ""
    warning = (
        f"{sum(files for _, files in kept):,} files are kept undecided, since none of them has bounds or an "
        f"index that decide {shown}{rest}"
    )
    return [warning] if ways else []


def _is_unasked(
    part: BoundLeaf | Constant | Unknown, bounded: Container[tuple[str, bool]]
) -> TypeGuard[BoundLeaf]:
    return isinstance(part, BoundLeaf) and (
        part.operator in _WITHIN_TEXT or (part.field.name, part.operator in NULL_TESTS) not in bounded
    )


def _way_out(leaf: BoundLeaf, *, reads_indexes: bool) -> str:
    name, condition = leaf.field.name, condition_of(leaf)
    if condition is None:
        return f"of patterns those that name how the text begins are decided: {name} LIKE 'abc%'"
    can_help = reads_indexes and leaf.field != ROW_ID
    kinds = [
        kind
        for kind, index in KINDS.items()
        if can_help and index.takes(leaf.field.type) and index.can_answer(condition)
    ]
    return f"bounds of {name} would{', or an index of it: ' if kinds else ''}{', '.join(kinds)}"

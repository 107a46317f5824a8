"""Warns of files that a filter keeps since nobody could be asked: no bounds and no index decide a test of it.

Files whose bounds enclose the literal were asked, and are not counted.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import islice
from typing import Final

from app.file_index.index_kinds import KINDS, condition_of
from app.planning.plan.file_plan import KeepReason
from app.planning.plan.state import PlanState
from app.planning.request.requests import filter_warnings
from app.predicates.binding.names import ROW_ID
from app.predicates.model import NULL_TESTS, BoundLeaf, BoundPredicate, Operator, leaves

_WITHIN_TEXT: Final = frozenset({Operator.ENDS_WITH, Operator.CONTAINS})
_MOST_TESTS: Final = 5


def narrowing_warnings(
    state: PlanState, predicate: BoundPredicate, bounded: Container[tuple[str, bool]], *, reads_indexes: bool
) -> list[str]:
    """What would narrow an answer: what to write, which bounds or indexes to have; none if no file is left.

    Args:
        bounded: columns of which some file has bounds (False), or counts of NULLs (True).
        reads_indexes: whether the table's options have file indexes read.
    """
    warnings = list(filter_warnings(predicate))
    if warnings:
        counts = state.count_left()
        left = [each for each, files in zip(state.predicates, counts, strict=True) if files]
        warnings = list(filter_warnings(*left))
    unasked = [list(_unasked(each, bounded)) for each in state.predicates]
    if not any(unasked):
        return warnings
    counts = state.count_left(KeepReason.NO_INDEX, KeepReason.NOT_DECIDABLE)
    pairs = [(tests, files) for tests, files in zip(unasked, counts, strict=True) if tests and files]
    tests = {str(test): test for tests, _ in pairs for test in tests}
    if tests:
        shown = [f"{text} ({_way_out(tests[text], reads_indexes)})" for text in islice(tests, _MOST_TESTS)]
        rest = f"; and {len(tests) - len(shown)} more tests" if len(tests) > len(shown) else ""
        warnings.append(
            f"{sum(files for _, files in pairs):,} files are kept undecided, since none of them has bounds "
            f"or an index that decide {'; '.join(shown)}{rest}"
        )
    return warnings


def _unasked(predicate: BoundPredicate, bounded: Container[tuple[str, bool]]) -> Iterator[BoundLeaf]:
    for leaf in leaves(predicate):
        if isinstance(leaf, BoundLeaf) and (
            leaf.operator in _WITHIN_TEXT or (leaf.field.name, leaf.operator in NULL_TESTS) not in bounded
        ):
            yield leaf


def _way_out(leaf: BoundLeaf, reads_indexes: bool) -> str:  # noqa: FBT001 - the one thing besides the leaf
    name, condition = leaf.field.name, condition_of(leaf)
    if leaf.field == ROW_ID:
        return "only files with a first row id tell"
    if condition is None:
        return f"of patterns those that name how the text begins are decided: {name} LIKE 'abc%'"
    kinds = [
        kind for kind, index in KINDS.items() if index.takes(leaf.field.type) and index.can_answer(condition)
    ]
    if not kinds or not reads_indexes:
        why = "" if reads_indexes else "; the table's option file-index.read.enabled is false"
        return f"bounds of {name} would{why}"
    return f"bounds of {name} would, or an index of it: {', '.join(kinds)}"

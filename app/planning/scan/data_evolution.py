"""Files that hold columns of the same rows (data evolution): read together, and judged by all their columns.

A file that shares its rows with no other is judged alone, like a file of any append table. A group of files
is kept or skipped as a whole. It is skipped if the filter is false for all of its rows by what the statistics
and the file index of each column's file say (which file that is: :mod:`app.planning.scan.row_id_groups`):

* parts of the filter that read columns of one file are asked of this file's index together;
* an AND of such parts is false if any of them is, an OR if all of them are;
* a part whose columns lie in several files is taken apart likewise.

Which rows of a group match is not told: a reader cannot leave rows of one file out without the other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.scan.index_filter import IndexFilter
from app.planning.scan.row_id_groups import RowIdGroups
from app.planning.scan.value_filter import ValueFilter
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Unknown
from app.predicates.simplify import conjunction, disjunction
from app.predicates.verdicts import Verdict, evaluate_bounds
from app.storage import check_deadline
from app.types.grouping import group_rows


def judge_groups(
    state: PlanState, files: NDArray[np.int64], values: ValueFilter, indexes: IndexFilter
) -> RowIdGroups:
    """Groups files by their rows, and skips groups in which no row matches.

    Args:
        state: a plan of a table with data evolution.
        files: the files that are left, ascending.
        values: statistics of the version's files.
        indexes: file indexes of the version's files.
    """
    groups = RowIdGroups.of(files, values.bounds)
    several = groups.sizes > 1
    alone = np.sort(groups.members[groups.starts[~several & groups.same_rows]])
    indexes.test(state, values.test_values(state, alone, groups.bounds_of_files))
    joined = np.setdiff1d(files, alone, assume_unique=True)
    state.raw_convertible[joined] = False
    together = several[groups.numbers]
    state.merge_groups[groups.members[together]] = groups.numbers[together]
    codes = state.predicate_codes[groups.members[groups.starts]]
    judged = several & groups.same_rows
    for code in np.unique(codes[judged]).tolist():
        check_deadline()
        predicate = state.predicates[code]
        judged_groups = np.flatnonzero(judged & (codes == code))
        none = evaluate_bounds(predicate, groups.bounds, judged_groups) == Verdict.NONE
        _skip(state, groups, judged_groups[none], SkipStep.STATISTICS, predicate)
        judged_groups = judged_groups[~none]
        none = _excluded(state, groups, indexes, predicate, judged_groups)
        _skip(state, groups, judged_groups[none], SkipStep.FILE_INDEX, predicate)
    kept = joined[state.is_left(joined) & ~indexes.is_unreadable(joined)]
    state.keep(kept, KeepReason.MERGE_REQUIRED)
    step = ExplainStep(SkipStep.FILE_INDEX, "keep", predicate="is read together with other files of its rows")
    state.note(joined[state.is_left(joined)], step)
    return groups


def keep_deleted_together(state: PlanState, groups: RowIdGroups) -> None:
    """Makes the files of a group stay or go together, where deletion vectors have left some of them out.

    The vector of a group's oldest data file deletes rows of the group. Where it deletes all of them, the
    whole group is left out; otherwise no file is, whatever the vectors of other files say.
    """
    members = groups.members[(groups.sizes > 1)[groups.numbers]]
    deleted = members[state.is_skipped_by(members, SkipStep.DELETION_VECTOR)]
    if not len(deleted):
        return
    gone = np.isin(groups.anchors, deleted)
    state.keep(deleted, KeepReason.MERGE_REQUIRED)
    rest = groups.members[gone[groups.numbers]]
    state.skip(rest[state.is_left(rest)], SkipStep.DELETION_VECTOR)


def _skip(
    state: PlanState,
    groups: RowIdGroups,
    skipped: NDArray[np.int64],
    step: SkipStep,
    predicate: BoundPredicate,
) -> None:
    members = groups.members[np.isin(groups.numbers, skipped)]
    state.skip(members, step, predicate=predicate)


def _excluded(
    state: PlanState,
    groups: RowIdGroups,
    indexes: IndexFilter,
    predicate: BoundPredicate,
    judged_groups: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """In which of some groups no row matches, shape of ``judged_groups``."""
    none = np.zeros(len(judged_groups), np.bool_)
    ids = sorted(set(_field_ids(predicate)))
    holders = [groups.holders(column_id)[judged_groups] for column_id in ids]
    # Files play the same part in most groups: one is the oldest, another holds what was changed since.
    parts = [np.where(held < 0, held, held - groups.starts[judged_groups]) for held in holders]
    for some in group_rows(*parts) if parts else ():
        check_deadline()
        part_of = {
            column_id: part
            for column_id, each in zip(ids, parts, strict=True)
            if (part := int(each[some[0]])) >= 0
        }
        none[some] = _Question(state, groups, indexes, part_of).excluded(predicate, judged_groups[some])
    return none


@dataclass(frozen=True, slots=True)
class _Question:
    """Asks groups in which files play the same parts.

    Attributes:
        state: the plan.
        groups: all groups.
        indexes: file indexes of the version's files.
        part_of: by the id of a column the place in its group of the file that has the column's values; of
            other columns nobody has values, or nobody knows who has.
    """

    state: PlanState
    groups: RowIdGroups
    indexes: IndexFilter
    part_of: Mapping[int, int]

    def excluded(self, predicate: BoundPredicate, judged_groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        """In which of some groups no row satisfies the predicate, shape of ``judged_groups``."""
        part = self._part(predicate)
        match predicate:
            case BoundAnd(children) if part is None:
                return self._excluded_by(
                    self._pieces(children, conjunction), judged_groups, any_suffices=True
                )
            case BoundOr(children) if part is None:
                return self._excluded_by(
                    self._pieces(children, disjunction), judged_groups, any_suffices=False
                )
            case _:
                return self._ask(predicate, part, judged_groups)

    def _excluded_by(
        self, pieces: Iterable[BoundPredicate], judged_groups: NDArray[np.int64], *, any_suffices: bool
    ) -> NDArray[np.bool_]:
        """In which of some groups any piece, or every piece, is excluded."""
        none = np.full(len(judged_groups), not any_suffices)
        for piece in pieces:
            rest = np.flatnonzero(none != any_suffices)
            none[rest] = self.excluded(piece, judged_groups[rest])
        return none

    def _pieces(
        self,
        children: Sequence[BoundPredicate],
        join: Callable[[Sequence[BoundPredicate]], BoundPredicate],
    ) -> Iterable[BoundPredicate]:
        """The children of an AND or OR, those about one file joined."""
        by_part: dict[int | None, list[BoundPredicate]] = {}
        for child in children:
            by_part.setdefault(self._part(child), []).append(child)
        mixed = by_part.pop(None, [])
        return [*map(join, by_part.values()), *mixed]

    def _ask(
        self, predicate: BoundPredicate, part: int | None, judged_groups: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        none: NDArray[np.bool_] = (
            evaluate_bounds(predicate, self.groups.bounds, judged_groups) == Verdict.NONE
        )
        rest = np.flatnonzero(~none)
        if part is None or not len(rest):
            return none
        files = self.groups.members[self.groups.starts[judged_groups[rest]] + part]
        order = np.argsort(files)
        none[rest[order]] = self.indexes.without_match(self.state, files[order], predicate)
        return none

    def _part(self, predicate: BoundPredicate) -> int | None:
        """The file that all columns of a predicate lie in; None if there are several, or it is unclear."""
        match predicate:
            case BoundLeaf(field=column):
                return self.part_of.get(column.id)
            case BoundAnd(children) | BoundOr(children):
                parts = set(map(self._part, children))
                return parts.pop() if len(parts) == 1 else None
            case Constant() | Unknown():
                return None
            case _:
                assert_never(predicate)


def _field_ids(predicate: BoundPredicate) -> Iterator[int]:
    """Ids of the columns that leaves read."""
    match predicate:
        case BoundLeaf(field=column):
            yield column.id
        case BoundAnd(children) | BoundOr(children):
            for child in children:
                yield from _field_ids(child)
        case Constant() | Unknown():
            pass
        case _:
            assert_never(predicate)

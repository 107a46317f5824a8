"""Decisions about groups of files that hold columns of the same rows (data evolution).

Files of a bucket whose ranges of row ids overlap are one group: a reader puts their columns together.

* A column's values are in the data file with the largest sequence number, among those of the group that hold
the column. If two files tie, nothing is known of the column.
* A blob file (``*.blob``) or vector file (``*.vector.*``) holds some rows of the group, in a format of its
own. Nothing is known of its columns.
* A column that no file of the group holds is NULL in every row.

A file that shares its rows with no other is judged alone, like a file of any append table. A group is kept or
skipped as a whole. It is skipped if the statistics and file indexes of its columns' files exclude all rows:

* parts of the filter on columns of one file are evaluated by this file's index together;
* an AND is false if any part is, an OR if all parts are;
* a part on columns of several files is taken apart further.

Global indexes (:mod:`app.planning.scan.global_indexes`) are evaluated between statistics and file indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.scan.global_indexes import GlobalIndexes
from app.planning.scan.index_filter import IndexFilter
from app.planning.scan.row_id_groups import GroupColumns, RowIdGroups
from app.planning.scan.value_filter import ValueFilter
from app.predicates import Verdict, evaluate_bounds
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Unknown, fold, leaves
from app.predicates.simplify import conjunction, disjunction
from app.types.values import group_rows
from app.work import check_deadline


def judge_groups(
    state: PlanState,
    files: NDArray[np.int64],
    values: ValueFilter,
    indexes: IndexFilter,
    global_indexes: GlobalIndexes,
) -> RowIdGroups:
    """Group the kept files, ascending, by their rows, and skip groups without a matching row."""
    columns = GroupColumns.of(values.bounds.version, files, values.bounds)
    groups = columns.groups
    several = groups.sizes > 1
    undecided = values.test_values(state, groups.alone, columns.bounds_of_files)
    joined = np.zeros(0, np.int64)
    if len(groups.alone) < len(files):
        joined = np.setdiff1d(files, groups.alone, assume_unique=True)
        state.raw_convertible[joined] = False
        together = several[groups.numbers]
        state.merge_groups[groups.members[together]] = groups.numbers[together]
    for predicate, judged in _by_predicate(state, groups, several):
        none = evaluate_bounds(predicate, columns.bounds, judged) == Verdict.NONE
        _skip(state, groups, judged[none], SkipStep.STATISTICS, predicate)
    global_indexes.test(state, groups)
    indexes.test(state, undecided[state.is_left(undecided)])
    global_indexes.keep_covered(state, indexes)
    for predicate, judged in _by_predicate(state, groups, several):
        none = _excluded(state, columns, indexes, predicate, judged)
        _skip(state, groups, judged[none], SkipStep.FILE_INDEX, predicate)
    # A reader cannot omit rows of one file of a group alone, so groups get no selection.
    kept = joined[state.is_left(joined) & ~indexes.is_unreadable(joined)]
    state.keep(kept, KeepReason.MERGE_REQUIRED)
    step = ExplainStep(SkipStep.FILE_INDEX, "keep", evidence="is read together with other files of its rows")
    state.note(joined[state.is_left(joined)], step)
    return groups


def _by_predicate(
    state: PlanState, groups: RowIdGroups, several: NDArray[np.bool_]
) -> Iterator[tuple[BoundPredicate, NDArray[np.int64]]]:
    """Yield the kept groups of several files, by the filter inside their partition."""
    if not several.any():
        return
    codes = state.predicate_codes[groups.leads]
    judged = several & groups.same_rows & state.is_left(groups.leads)
    for code in np.unique(codes[judged]).tolist():
        check_deadline()
        yield state.predicates[code], np.flatnonzero(judged & (codes == code))


def keep_deleted_together(state: PlanState, groups: RowIdGroups) -> None:
    """Decide groups as a whole where deletion vectors skipped some of their files.

    The vector of a group's oldest data file deletes rows of the group. If it deletes all of them, the group
    is skipped. Otherwise all of its files are kept, whatever the vectors of other files delete.
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
    state.skip(groups.members_of(skipped), step, predicate=predicate)


def _excluded(
    state: PlanState,
    columns: GroupColumns,
    indexes: IndexFilter,
    predicate: BoundPredicate,
    judged_groups: NDArray[np.int64],
) -> NDArray[np.bool_]:
    none = np.zeros(len(judged_groups), np.bool_)
    ids = sorted({leaf.field.id for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)})
    holders = [columns.holders(column_id)[judged_groups] for column_id in ids]
    # In most groups, a column is in the file at the same place: the oldest, or the one of a later change.
    parts = [
        np.where(numbers < 0, numbers, numbers - columns.groups.starts[judged_groups]) for numbers in holders
    ]
    for batch in group_rows(*parts) if parts else ():
        check_deadline()
        part_of = {
            column_id: part
            for column_id, parts_of_column in zip(ids, parts, strict=True)
            if (part := int(parts_of_column[batch[0]])) >= 0
        }
        none[batch] = _GroupFilter(state, columns, indexes, part_of).excluded(predicate, judged_groups[batch])
    return none


@dataclass(frozen=True, slots=True)
class _GroupFilter:
    """Evaluates a filter on groups that hold each of its columns in the file at the same place."""

    state: PlanState
    columns: GroupColumns
    indexes: IndexFilter
    part_of: Mapping[int, int]  # Place in its group of the file with the values of a column, by column id.

    def excluded(self, predicate: BoundPredicate, judged_groups: NDArray[np.int64]) -> NDArray[np.bool_]:
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
                return self._evaluate_file(predicate, part, judged_groups)

    def _excluded_by(
        self, pieces: Iterable[BoundPredicate], judged_groups: NDArray[np.int64], *, any_suffices: bool
    ) -> NDArray[np.bool_]:
        none = np.full(len(judged_groups), not any_suffices)
        for piece in pieces:
            rest = np.flatnonzero(none != any_suffices)
            none[rest] = self.excluded(piece, judged_groups[rest])
        return none

    def _pieces(
        self, children: Sequence[BoundPredicate], join: Callable[[Sequence[BoundPredicate]], BoundPredicate]
    ) -> Iterable[BoundPredicate]:
        by_part: dict[int | None, list[BoundPredicate]] = {}
        for child in children:
            by_part.setdefault(self._part(child), []).append(child)
        mixed = by_part.pop(None, [])
        return [*map(join, by_part.values()), *mixed]

    def _evaluate_file(
        self, predicate: BoundPredicate, part: int | None, judged_groups: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        none: NDArray[np.bool_] = (
            evaluate_bounds(predicate, self.columns.bounds, judged_groups) == Verdict.NONE
        )
        rest = np.flatnonzero(~none)
        if part is None or not len(rest):
            return none
        groups = self.columns.groups
        files = groups.members[groups.starts[judged_groups[rest]] + part]
        order = np.argsort(files)
        none[rest[order]] = self.indexes.without_match(self.state, files[order], predicate)
        return none

    def _part(self, predicate: BoundPredicate) -> int | None:
        """Return the place of the file that holds all columns of a predicate. Return None if none does."""

        def of_leaf(leaf: BoundLeaf | Constant | Unknown) -> int | None:
            return self.part_of.get(leaf.field.id) if isinstance(leaf, BoundLeaf) else None

        def common(parts: Sequence[int | None]) -> int | None:
            return parts[0] if len(set(parts)) == 1 else None

        return fold(predicate, of_leaf, common, common)

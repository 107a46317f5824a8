"""Files that hold columns of the same rows (data evolution): read together, and judged by all their columns.

Files of a bucket whose ranges of row ids overlap are one group: a reader puts their columns together.

* Of the data files of a group that hold a column, the one with the largest sequence number has its values:
  what older ones hold was replaced. If two are equally new, nothing is said of the column.
* Blob files (``*.blob``) and vector files (``*.vector.*``) hold some rows of the group each, in files of
  their own format. Nothing is said of their columns.
* A column that no file of the group holds is NULL in every row.

A file that shares its rows with no other is judged alone, like a file of any append table. A group is kept or
skipped as a whole. It is skipped if the filter is false for all of its rows by what the statistics and the
file index of each column's file say:

* parts of the filter that read columns of one file are asked of this file's index together;
* an AND of such parts is false if any of them is, an OR if all of them are;
* a part whose columns lie in several files is taken apart likewise.

Which rows of a group match is not told: a reader cannot leave rows of one file out without the other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.scan.index_filter import IndexFilter
from app.planning.scan.merge_units import sections
from app.planning.scan.value_filter import ValueFilter
from app.planning.version.file_bounds import FileBounds
from app.planning.version.files import Files
from app.predicates import ROW_ID, UNKNOWN_COUNT, ColumnBounds, Verdict, evaluate_bounds
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Unknown, fold, leaves
from app.predicates.simplify import conjunction, disjunction
from app.types import DataField
from app.types.values import group_rows, placeholders
from app.work import check_deadline


def judge_groups(
    state: PlanState, files: NDArray[np.int64], values: ValueFilter, indexes: IndexFilter
) -> RowIdGroups:
    """Groups the files that are left, ascending, by their rows, and skips groups in which no row matches."""
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
    step = ExplainStep(SkipStep.FILE_INDEX, "keep", evidence="is read together with other files of its rows")
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
    none = np.zeros(len(judged_groups), np.bool_)
    ids = sorted({leaf.field.id for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)})
    holders = [groups.holders(column_id)[judged_groups] for column_id in ids]
    # Files play the same part in most groups: one is the oldest, another holds what was changed since.
    parts = [np.where(numbers < 0, numbers, numbers - groups.starts[judged_groups]) for numbers in holders]
    for some in group_rows(*parts) if parts else ():
        check_deadline()
        part_of = {
            column_id: part
            for column_id, parts_of_column in zip(ids, parts, strict=True)
            if (part := int(parts_of_column[some[0]])) >= 0
        }
        none[some] = _Question(state, groups, indexes, part_of).excluded(predicate, judged_groups[some])
    return none


@dataclass(frozen=True, slots=True)
class _Question:
    """Asks groups in which files play the same parts.

    ``part_of`` has, by the id of a column, the place in its group of the file that has its values.
    """

    state: PlanState
    groups: RowIdGroups
    indexes: IndexFilter
    part_of: Mapping[int, int]

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
                return self._ask(predicate, part, judged_groups)

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

        def of_leaf(leaf: BoundLeaf | Constant | Unknown) -> int | None:
            return self.part_of.get(leaf.field.id) if isinstance(leaf, BoundLeaf) else None

        def common(parts: Sequence[int | None]) -> int | None:
            return parts[0] if len(set(parts)) == 1 else None

        return fold(predicate, of_leaf, common, common)


NOBODY: Final = -1
"""No file of a group holds the column."""
UNCLEAR: Final = -2
"""It is not known which file has the column's values."""

_NO_DATA_FILE: Final = r"\.blob$|\.vector\."


@dataclass(frozen=True, slots=True, eq=False)
class RowIdGroups:
    """Files in groups, one group behind the other.

    Attributes:
        members: int64, shape (m,): the files by group, in it data files first, the newest before the others.
        numbers: int64, shape (m,): the group of each.
        starts: int64, shape (groups,): where each group begins.
        sequence: int64, shape (m,): how new the values of each file are.
        is_data: shape (m,): False for blob and vector files.
        same_rows: shape (groups,): there are data files in the group, and they hold the same rows.
    """

    members: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    sequence: NDArray[np.int64]
    is_data: NDArray[np.bool_]
    same_rows: NDArray[np.bool_]
    statistics: FileBounds
    _holders: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: NDArray[np.int64], statistics: FileBounds) -> Self:
        """The groups of those files that say which rows they hold, and hold any.

        With each of the ascending files go all others of its bucket that a read has to see.
        """
        all_files = statistics.version.files()
        first, sequence = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
        known = np.zeros(len(files), np.bool_)
        for number, part, rows in all_files.by_manifest(files):
            manifest = all_files.manifests[number]
            first[part], known[part] = manifest.first_row_ids.values[rows], manifest.first_row_ids.known[rows]
            sequence[part] = manifest.max_sequence_numbers[rows]
        last = first + all_files.columns.row_counts[files] - 1
        known &= last >= first
        files, first, last, sequence = files[known], first[known], last[known], sequence[known]
        is_data = _are_data(all_files, files)
        _, buckets = np.unique(all_files.columns.bucket_keys[files], return_inverse=True)
        # Ranks overlap where the ids do, and are small enough to be counted on over all buckets.
        _, ranks = np.unique(np.stack([first, last]), return_inverse=True)
        low, high = ranks.reshape(2, -1)
        order, opens = sections(buckets.reshape(-1), low, high)
        numbers = np.empty(len(files), np.int64)
        numbers[order] = np.cumsum(opens) - 1
        order = np.lexsort((files, -sequence, ~is_data, numbers))
        numbers, starts = numbers[order], np.flatnonzero(np.diff(numbers[order], prepend=-1))
        low, high, is_data = low[order], high[order], is_data[order]
        differs = is_data & ((low != low[starts][numbers]) | (high != high[starts][numbers]))
        same_rows = is_data[starts]
        same_rows[numbers[differs]] = False
        return cls(files[order], numbers, starts, sequence[order], is_data, same_rows, statistics)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Files in each group, shape (groups,)."""
        return np.diff(self.starts, append=len(self.members))

    @property
    def anchors(self) -> NDArray[np.int64]:
        """The oldest data file of each group, whose deletion vector counts for all; -1 if that is unclear."""
        data = np.flatnonzero(self.is_data)
        anchors = np.full(len(self.starts), NOBODY, np.int64)
        # Of equal places the last one written stays, which is that of the oldest.
        anchors[self.numbers[data]] = self.members[data]
        before, last = data[:-1], data[1:]
        same = (self.numbers[before] == self.numbers[last]) & (self.sequence[before] == self.sequence[last])
        tied = same & (anchors[self.numbers[last]] == self.members[last])
        anchors[self.numbers[last[tied]]] = NOBODY
        return anchors

    def holders(self, column_id: int) -> NDArray[np.int64]:
        """Where in ``members`` a column's files are, shape (groups,); :data:`NOBODY` or :data:`UNCLEAR`."""
        places = self._holders.get(column_id)
        if places is None:
            places = self._holders[column_id] = self._find_holders(column_id)
        return places

    def bounds(self, column: DataField, groups: NDArray[np.int64]) -> ColumnBounds | None:
        """Bounds of a column in some groups whose files are alike; None for a key of a map."""
        if column == ROW_ID:
            # All data files of such a group have the same, and of each group the newest stands first.
            files, back = np.unique(self.members[self.starts[groups]], return_inverse=True)
            row_ids = self.statistics.values(column, files)
            return None if row_ids is None else row_ids.take(back)
        if self.statistics.version.schema.by_id[column.id].name != column.name:
            return None
        holders = self.holders(column.id)[groups]
        row_count = self.statistics.version.files().columns.row_counts[self.members[self.starts[groups]]]
        null_count = np.where(holders == NOBODY, row_count, UNKNOWN_COUNT)
        has_holder = holders >= 0
        files = self.members[holders[has_holder]]
        distinct, back = np.unique(files, return_inverse=True)
        bounds = self.statistics.values(column, distinct) if len(distinct) else None
        if bounds is None:
            nothing, nowhere = placeholders(column.type, len(groups)), np.zeros(len(groups), np.bool_)
            return ColumnBounds(nothing, nothing, nowhere, nowhere, null_count, row_count, nowhere, nowhere)
        places = np.zeros(len(groups), np.int64)
        places[has_holder] = back
        bounds = bounds.take(places)
        return replace(
            bounds,
            has_low=bounds.has_low & has_holder,
            has_high=bounds.has_high & has_holder,
            null_count=np.where(has_holder, bounds.null_count, null_count),
            row_count=row_count,
        )

    def bounds_of_files(self, column: DataField, files: NDArray[np.int64]) -> ColumnBounds | None:
        """Bounds of a column in some members that share their rows with no other file."""
        order = np.argsort(self.members)
        return self.bounds(column, self.numbers[order[np.searchsorted(self.members, files, sorter=order)]])

    def _find_holders(self, column_id: int) -> NDArray[np.int64]:
        holds = self._holds(column_id)
        holders = np.full(len(self.starts), NOBODY, np.int64)
        holding = np.flatnonzero(holds & self.is_data)
        groups, first = np.unique(self.numbers[holding], return_index=True)
        holders[groups] = holding[first]
        newer, older = holding[:-1], holding[1:]
        as_new = (self.numbers[newer] == self.numbers[older]) & (self.sequence[newer] == self.sequence[older])
        tied = as_new & (holders[self.numbers[newer]] == newer)
        holders[self.numbers[newer[tied]]] = UNCLEAR
        holders[self.numbers[holds & ~self.is_data]] = UNCLEAR
        return holders

    def _holds(self, column_id: int) -> NDArray[np.bool_]:
        version = self.statistics.version
        all_files = version.files()
        order = np.argsort(self.members)
        holds = np.zeros(len(self.members), np.bool_)
        for number, part, rows in all_files.by_manifest(self.members[order]):
            manifest = all_files.manifests[number]
            pairs = np.stack([manifest.schema_ids[rows], manifest.write_columns.codes[rows]], axis=1)
            distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
            holders = []
            for schema_id, code in distinct.tolist():
                written = version.file_schema(schema_id).by_id.get(column_id)
                names = None if code < 0 else manifest.write_columns.lists[code]
                holders.append(written is not None and (names is None or written.name in names))
            holds[order[part]] = np.array(holders)[inverse.reshape(-1)]
        return holds


def _are_data(all_files: Files, files: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(files):
        return np.zeros(0, np.bool_)
    return ~np.asarray(pc.match_substring_regex(all_files.names(files), _NO_DATA_FILE))

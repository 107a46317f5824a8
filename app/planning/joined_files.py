"""Files that hold columns of the same rows (data evolution): read together, and judged by all their columns.

Such files cover the same range of row ids. Of the files that hold a column the newest has its values, so a
group's bounds of a column are those of one of its files. Indexes are not asked, since an older file's index
may be about values that a newer file has replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from app.planning.answers import KeepReason, SkipStep
from app.planning.merge_units import sections
from app.predicates.column_bounds import UNKNOWN_COUNT
from app.predicates.verdicts import Verdict, evaluate_bounds
from app.storage import check_deadline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.planning.drafts import Drafts
    from app.planning.file_bounds import FileBounds
    from app.predicates.column_bounds import ColumnBounds
    from app.types import DataField


def judge_joined(drafts: Drafts, files: NDArray[np.int64], bounds: FileBounds) -> None:
    """Groups files by their rows, and skips groups in which by statistics no row matches.

    Args:
        drafts: a plan of a table with data evolution.
        files: the files that are left, ascending.
        bounds: statistics of the version's files.
    """
    drafts.raw_convertible[files] = False
    drafts.keep(files, KeepReason.MERGE_REQUIRED)
    groups = _Groups.of(files, bounds)
    drafts.merge_groups[groups.members] = groups.numbers
    codes = drafts.predicate_codes[groups.members[groups.starts]]
    for code in np.unique(codes[groups.alike]).tolist():
        check_deadline()
        predicate = drafts.predicates[code]
        asked = np.flatnonzero(groups.alike & (codes == code))
        verdicts = evaluate_bounds(predicate, groups.bounds, asked)
        nothing = np.isin(groups.numbers, asked[verdicts == Verdict.NONE])
        drafts.skip(groups.members[nothing], SkipStep.STATISTICS, predicate=predicate)


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Files in groups, one group behind the other.

    Attributes:
        members: int64, shape (m,): the files, sorted by group.
        numbers: int64, shape (m,): the group of each.
        starts: int64, shape (groups,): where each group begins.
        sequence: int64, shape (m,): how new the values of each file are.
        alike: shape (groups,): the files of the group hold just the same rows.
        statistics: of the version's files.
    """

    members: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    sequence: NDArray[np.int64]
    alike: NDArray[np.bool_]
    statistics: FileBounds

    @classmethod
    def of(cls, files: NDArray[np.int64], statistics: FileBounds) -> _Groups:
        """The groups of those files that say which rows they hold."""
        all_files = statistics.version.files
        first, sequence = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
        known = np.zeros(len(files), np.bool_)
        for number, part, rows in all_files.by_manifest(files):
            manifest = all_files.manifests[number]
            first[part], known[part] = manifest.first_row_ids.values[rows], manifest.first_row_ids.known[rows]
            sequence[part] = manifest.max_sequence_numbers[rows]
        files, first, sequence = files[known], first[known], sequence[known]
        last = first + all_files.columns.row_counts[files] - 1
        order, opens = sections(np.zeros(len(files), np.int64), first, last)
        first, last, numbers = first[order], last[order], np.cumsum(opens) - 1
        starts = np.flatnonzero(opens)
        differs = (first != first[starts][numbers]) | (last != last[starts][numbers])
        alike = np.ones(len(starts), np.bool_)
        alike[numbers[differs]] = False
        return cls(files[order], numbers, starts, sequence[order], alike, statistics)

    def bounds(self, column: DataField, groups: NDArray[np.int64]) -> ColumnBounds | None:
        """Bounds of a column in some groups: those of the newest file that has it."""
        holders = self._newest_holders(column)[groups]
        held = holders >= 0
        if not held.any():
            return None
        distinct, back = np.unique(np.where(held, holders, holders.max()), return_inverse=True)
        found = self.statistics.values(column, distinct)
        if found is None:
            return None
        found = found.take(back)
        return replace(
            found,
            has_low=found.has_low & held,
            has_high=found.has_high & held,
            null_count=np.where(held, found.null_count, UNKNOWN_COUNT),
        )

    def _newest_holders(self, column: DataField) -> NDArray[np.int64]:
        """For each group the newest file with the column, -1 where none has it."""
        newest = np.full(len(self.starts), -1, np.int64)
        oldest_first = np.lexsort((self.members, self.sequence))
        holders = oldest_first[self._holds(column)[oldest_first]]
        newest[self.numbers[holders]] = self.members[holders]
        return newest

    def _holds(self, column: DataField) -> NDArray[np.bool_]:
        """Which files were written with the column."""
        version = self.statistics.version
        all_files = version.files
        order = np.argsort(self.members)
        holds = np.zeros(len(self.members), np.bool_)
        for number, part, rows in all_files.by_manifest(self.members[order]):
            manifest = all_files.manifests[number]
            pairs = np.stack([manifest.schema_ids[rows], manifest.write_columns.codes[rows]], axis=1)
            distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
            found = []
            for schema_id, code in distinct.tolist():
                written = version.file_schema(schema_id).by_id.get(column.id)
                names = None if code < 0 else manifest.write_columns.lists[code]
                found.append(written is not None and (names is None or written.name in names))
            holds[order[part]] = np.array(found)[inverse.reshape(-1)]
        return holds

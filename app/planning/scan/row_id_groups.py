"""Data files of a table with data evolution in groups that hold columns of the same rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.scan.merge_units import sections
from app.planning.version.file_bounds import FileBounds
from app.planning.version.files import Files
from app.predicates import ROW_ID, UNKNOWN_COUNT, ColumnBounds
from app.types import DataField
from app.types.values import placeholders

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
        first_rows, last_rows: int64, shape (groups,): row ids of the group's first row and its last.
    """

    members: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    sequence: NDArray[np.int64]
    is_data: NDArray[np.bool_]
    same_rows: NDArray[np.bool_]
    first_rows: NDArray[np.int64]
    last_rows: NDArray[np.int64]
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
        first_rows = np.minimum.reduceat(first[order], starts) if len(starts) else first
        last_rows = np.maximum.reduceat(last[order], starts) if len(starts) else last
        differs = is_data & ((low != low[starts][numbers]) | (high != high[starts][numbers]))
        same_rows = is_data[starts]
        same_rows[numbers[differs]] = False
        ranges = first_rows, last_rows
        return cls(files[order], numbers, starts, sequence[order], is_data, same_rows, *ranges, statistics)

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

    def count_holders(self, column_id: int) -> NDArray[np.int64]:
        """How many files of each group hold a column, shape (groups,)."""
        return np.bincount(self.numbers[self._holds(column_id)], minlength=len(self.starts))

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

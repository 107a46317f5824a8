"""Groups of data files that hold different columns of the same rows, in a table with data evolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.scan.merge_units import sections
from app.planning.version.file_bounds import FileBounds
from app.planning.version.files import Files
from app.planning.version.version import Version
from app.predicates import ROW_ID, UNKNOWN_COUNT, ColumnBounds
from app.table.manifests import Derived
from app.types import DataField
from app.types.values import placeholders

NO_FILE: Final = -1
"""Stands for no file: none of the group qualifies."""
AMBIGUOUS: Final = -2
"""Stands for an unknown file: several of the group may have the newest values of a column."""

_BYTES_OF_MEMBER: Final = 25
_BYTES_OF_GROUP: Final = 49
_NO_DATA_FILE: Final = r"\.blob$|\.vector\."


@dataclass(frozen=True, slots=True, eq=False)
class RowIdGroups:
    """Groups of files whose rows overlap. ``members`` holds one group after the other.

    Attributes:
        members: int64, shape (m,): files by group. In a group, data files come first, newest first.
        numbers: int64, shape (m,): the group of each member.
        starts: int64, shape (groups,): position of each group's first member.
        sizes: int64, shape (groups,): files in each group.
        leads: int64, shape (groups,): the first file of each group.
        alone: int64: data files that share their rows with no other, ascending.
        sequence: int64, shape (m,): largest sequence number of each member.
        is_data: shape (m,): False for blob and vector files.
        same_rows: shape (groups,): True if the group has data files, and all of them hold the same rows.
        first_rows, last_rows: int64, shape (groups,): ids of the group's first row and its last.
    """

    members: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    leads: NDArray[np.int64]
    alone: NDArray[np.int64]
    sequence: NDArray[np.int64]
    is_data: NDArray[np.bool_]
    same_rows: NDArray[np.bool_]
    first_rows: NDArray[np.int64]
    last_rows: NDArray[np.int64]

    @classmethod
    def of(cls, all_files: Files, files: NDArray[np.int64]) -> Self:
        """Group files by their row ids. Omit files without row ids, or without rows.

        ``files``: ascending. It has all files of a bucket that a read has to see, or none of them.
        """
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
        # Ranks overlap where row ids do. ``sections`` shifts them by bucket; row ids could overflow.
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
        members = files[order]
        sizes, leads = np.diff(starts, append=len(members)), members[starts]
        return cls(
            members,
            numbers,
            starts,
            sizes,
            leads,
            np.sort(leads[(sizes == 1) & same_rows]),
            sequence[order],
            is_data,
            same_rows,
            first_rows,
            last_rows,
        )

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _BYTES_OF_MEMBER * len(self.members) + _BYTES_OF_GROUP * len(self.starts)

    def members_of(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Select the files of groups."""
        is_chosen = np.zeros(len(self.starts), np.bool_)
        is_chosen[groups] = True
        return self.members[is_chosen[self.numbers]]

    @property
    def anchors(self) -> NDArray[np.int64]:
        """The oldest data file of each group, NO_FILE if two tie. Its deletion vector is the group's."""
        data = np.flatnonzero(self.is_data)
        anchors = np.full(len(self.starts), NO_FILE, np.int64)
        # For a repeated group number, NumPy keeps the last assignment: that of the oldest member.
        anchors[self.numbers[data]] = self.members[data]
        before, last = data[:-1], data[1:]
        same = (self.numbers[before] == self.numbers[last]) & (self.sequence[before] == self.sequence[last])
        tied = same & (anchors[self.numbers[last]] == self.members[last])
        anchors[self.numbers[last[tied]]] = NO_FILE
        return anchors


@dataclass(frozen=True, slots=True, eq=False)
class GroupColumns:
    """Columns of groups: the file that holds a column, and its bounds.

    Attributes:
        groups: groups of files of a version.
        statistics: bounds of the version's files.
        derived: cache of holders, which lives as long as the version if all of its files are grouped.
    """

    groups: RowIdGroups
    statistics: FileBounds
    derived: Derived

    @classmethod
    def of(cls, version: Version, files: NDArray[np.int64], statistics: FileBounds) -> Self:
        """Group files, as in :meth:`RowIdGroups.of`. Cache the groups of all files with the version."""
        all_files = version.files()
        derived = version.contents().derived if len(files) == len(all_files) else Derived()
        make = partial(RowIdGroups.of, all_files, files)
        groups = derived.get_or_make("row id groups", make, lambda made: made.nbytes)
        return cls(groups, statistics, derived)

    def holders(self, column_id: int) -> NDArray[np.int64]:
        """Return each group's file with the column: its position in ``members``, NO_FILE or AMBIGUOUS."""
        make = partial(self._find_holders, column_id)
        return self.derived.get_or_make(("holders", column_id), make, lambda places: places.nbytes)

    def count_holders(self, column_id: int) -> NDArray[np.int64]:
        """Count the files of each group that hold a column, shape (groups,)."""
        groups = self.groups
        return np.bincount(groups.numbers[self._holds(column_id)], minlength=len(groups.starts))

    def bounds(self, column: DataField, groups: NDArray[np.int64]) -> ColumnBounds | None:
        """Return bounds of a column in groups whose files hold the same rows. None for a key of a map."""
        if column == ROW_ID:
            # All data files of such a group have equal row ids, and the newest leads the group.
            files, back = np.unique(self.groups.leads[groups], return_inverse=True)
            row_ids = self.statistics.values(column, files)
            return None if row_ids is None else row_ids.take(back)
        if self.statistics.version.schema.by_id[column.id].name != column.name:
            return None
        holders = self.holders(column.id)[groups]
        row_count = self.statistics.version.files().columns.row_counts[self.groups.leads[groups]]
        null_count = np.where(holders == NO_FILE, row_count, UNKNOWN_COUNT)
        has_holder = holders >= 0
        files = self.groups.members[holders[has_holder]]
        distinct, back = np.unique(files, return_inverse=True)
        bounds = self.statistics.values(column, distinct) if len(distinct) else None
        if bounds is None:
            unknown, none = placeholders(column.type, len(groups)), np.zeros(len(groups), np.bool_)
            return ColumnBounds(unknown, unknown, none, none, null_count, row_count, none, none)
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
        """Return bounds of a column in files that share their rows with no other file."""
        members = self.groups.members
        order = np.argsort(members)
        places = order[np.searchsorted(members, files, sorter=order)]
        return self.bounds(column, self.groups.numbers[places])

    def _find_holders(self, column_id: int) -> NDArray[np.int64]:
        groups, holds = self.groups, self._holds(column_id)
        numbers, sequence = groups.numbers, groups.sequence
        holders = np.full(len(groups.starts), NO_FILE, np.int64)
        holding = np.flatnonzero(holds & groups.is_data)
        held, first = np.unique(numbers[holding], return_index=True)
        holders[held] = holding[first]
        # Members of a group are ordered by sequence number: a tie for the newest is between neighbours.
        newer, older = holding[:-1], holding[1:]
        are_equal = (numbers[newer] == numbers[older]) & (sequence[newer] == sequence[older])
        tied = are_equal & (holders[numbers[newer]] == newer)
        holders[numbers[newer[tied]]] = AMBIGUOUS
        holders[numbers[holds & ~groups.is_data]] = AMBIGUOUS
        return holders

    def _holds(self, column_id: int) -> NDArray[np.bool_]:
        version, members = self.statistics.version, self.groups.members
        all_files = version.files()
        order = np.argsort(members)
        holds = np.zeros(len(members), np.bool_)
        for number, part, rows in all_files.by_manifest(members[order]):
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

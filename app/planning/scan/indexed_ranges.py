"""Rows for which the entries of global indexes are trusted.

An entry covers a range of row ids as it was when the index was built. It is trusted only for rows of which it
is certainly still true:

* its column has had one type since the table was made. The entry has no other columns, and no sources;
* of the files of a row, a single one holds the column. Where a second one does, the column was updated, maybe
  without an update of the index;
* no schema since the index was built had ``global-index.column-update-action=ignore``: a compaction may have
  hidden an update. The retained snapshots show which entries were added since the last such schema;
* the row is in the partition of the entry, and the entries of the range count as many rows as the range has.

The indexes of a column are computed once, and cached with the version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from pyroaring import BitMap64

from app.errors import CorruptIndexError, CorruptMetadataError, NotFoundError, SnapshotExpiredError
from app.global_index import KINDS, KeyBounds, Part, same_keys, takes
from app.planning.scan.row_id_groups import GroupColumns
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.table import TableSchema, TableSnapshot
from app.table.manifests import IndexEntry
from app.types import DataField
from app.types.row_ids import RowRanges

_BYTES_OF_PART: Final = 1_000
_BYTES_OF_RUN: Final = 48
_MOST_ROWS: Final = 1 << 32
_MOST_SNAPSHOTS: Final = 256
_UPDATED: Final = "it was updated, and these rows are kept: rebuild it after a compaction"
_IGNORED: Final = (
    "the table had global-index.column-update-action=ignore, and no retained snapshot shows that the index "
    "was built since: rebuild it"
)


@dataclass(frozen=True, slots=True, eq=False)
class IndexedRange:
    """Files of one kind and partition that together cover a range of row ids.

    Attributes:
        first: row id from which the files count their rows.
        row_count: rows of the range.
        covered: row ids for which the files are trusted.
        paths: paths of the files.
        nbytes: total size of the files.
    """

    kind: str
    first: int
    row_count: int
    covered: RowRanges
    paths: tuple[str, ...]
    parts: tuple[Part, ...]
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class IndexedColumn:
    """Indexes of a column, as far as they are trusted.

    Attributes:
        covered: rows that some range covers, as ranges.
        rows: the covered rows as a bitmap.
        overlaps: True if several ranges cover one row.
        doubts: reasons why entries are not trusted.
    """

    ranges: tuple[IndexedRange, ...]
    covered: RowRanges
    rows: BitMap64
    overlaps: bool
    doubts: tuple[str, ...]

    @classmethod
    def of(cls, version: Version, column: DataField) -> IndexedColumn:
        """Determine the trusted indexes of a column. Cached with the version."""

        def make() -> IndexedColumn:
            doubts: list[str] = []
            ranges = tuple(_believed(version, column, doubts))
            covered = RowRanges.union(each.covered for each in ranges)
            overlaps = sum(each.covered.count for each in ranges) > covered.count
            return cls(ranges, covered, covered.bitmap(), overlaps, tuple(doubts))

        ignores = version.schema.options.global_index_ignores_updates
        key = "global index", version.schema.id, column.id, ignores
        return version.contents().derived.get_or_make(key, make, lambda made: made.nbytes)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        parts = sum(len(each.parts) for each in self.ranges)
        held = [self.covered, *(each.covered for each in self.ranges)]
        return _BYTES_OF_PART * parts + sum(_BYTES_OF_RUN * len(each.first) for each in held)


def _believed(version: Version, column: DataField, doubts: list[str]) -> Iterator[IndexedRange]:
    why = _why_not(version, column)
    if why is not None:
        doubts.append(why)
        return
    files = version.files()
    columns = GroupColumns.of(version, files.all(), FileBounds(version))
    groups = columns.groups
    ranges, doubtful = _ranges(version, column.id), _names_before_updates(version)
    order = np.argsort(groups.first_rows, kind="stable")
    first, last = groups.first_rows[order], groups.last_rows[order]
    ends = np.maximum.accumulate(last) if len(last) else last
    holders = columns.count_holders(column.id)
    is_sole = groups.same_rows & (holders == 1) & (columns.holders(column.id) >= 0)
    codes = {row: code for code, row in enumerate(files.columns.partitions)}
    partitions = files.columns.partition_codes[groups.leads]
    for (kind, start, stop, partition), entries in ranges.items():
        if any(entry.file.file_name in doubtful for entry in entries):
            doubts += [] if _IGNORED in doubts else [_IGNORED]
            continue
        near = order[np.searchsorted(ends, start) : np.searchsorted(first, stop, "right")]
        near = near[partitions[near] == codes.get(partition, -1)]
        near = near[groups.last_rows[near] >= start]
        low, high = np.maximum(groups.first_rows[near], start), np.minimum(groups.last_rows[near], stop)
        missing = int((high - low + 1).sum()) - sum(entry.file.row_count for entry in entries)
        if missing > 0:
            doubts.append(f"its files lack {missing:,} of the rows {start:,} to {stop:,}: rebuild it")
            continue
        if (holders[near] > 1).any() and _UPDATED not in doubts:
            doubts.append(_UPDATED)
        covered = RowRanges.of(low[is_sole[near]], high[is_sole[near]])
        try:
            parts = tuple(_part(entry, kind, stop - start + 1, column) for entry in entries)
        except CorruptIndexError as error:
            doubts.append(f"{error} (rows {start:,} to {stop:,})")
            continue
        if covered.count:
            paths = tuple(map(version.source.paths.global_index_file, entries))
            nbytes = sum(entry.file.file_size for entry in entries)
            yield IndexedRange(kind, start, stop - start + 1, covered, paths, parts, nbytes)


def _part(entry: IndexEntry, kind: str, row_count: int, column: DataField) -> Part:
    covered = entry.file.global_index
    bounds = KeyBounds.read(None if covered is None else covered.metadata, column.type)
    return Part(KINDS[kind](entry.file.file_size, row_count, column.type), bounds)


def _why_not(version: Version, column: DataField) -> str | None:
    """Return the reason to trust no index of a column. Return None if there is none."""
    schema = version.schema
    if schema.options.global_index_ignores_updates:
        return (
            "global-index.column-update-action=ignore lets it become wrong: unset the option, then rebuild it"
        )
    if not takes(column.type):
        return f"values of type {column.type} are not read"
    try:
        schemas = _schemas(version)
    except (SnapshotExpiredError, NotFoundError) as error:
        return f"its former type is unknown: {error}"
    types = [each.by_id[column.id].type for each in schemas if column.id in each.by_id]
    if all(same_keys(each, column.type) for each in types):
        return None
    return f"the type of the column has changed to {column.type}: drop the index, and rebuild it"


def _schemas(version: Version) -> list[TableSchema]:
    """Read the schemas up to the newest of a version, each with its own options."""
    snapshot, own = version.resolved.snapshot, version.schema.id
    newest = own if snapshot is None else max(own, snapshot.schema_id)
    # A version has the newest options, which may differ from those that its schema had.
    read_own = partial(version.table.schema_of, own, version.resolved.branch)
    return [read_own() if number == own else version.file_schema(number) for number in range(newest + 1)]


def _names_before_updates(version: Version) -> frozenset[str]:
    """Return the names of index files that later updates may have ignored."""
    ignoring = [each.id for each in _schemas(version) if each.options.global_index_ignores_updates]
    snapshot = version.resolved.snapshot
    if snapshot is None or not ignoring:
        return frozenset()
    try:
        before = replace(version.resolved, snapshot=_last_under(version, snapshot, ignoring[-1]))
        entries = version.table.metadata.index_entries(before)
    except (CorruptMetadataError, SnapshotExpiredError):
        entries = version.table.metadata.index_entries(version.resolved)
    return frozenset(entry.file.file_name for entry in entries)


def _last_under(version: Version, snapshot: TableSnapshot, schema_id: int) -> TableSnapshot:
    """Return a snapshot. Index files that it lacks were committed under schemas later than ``schema_id``."""
    first, branch = snapshot.id - _MOST_SNAPSHOTS, version.resolved.branch
    listed = version.table.snapshots(branch, first, _MOST_SNAPSHOTS).entries.values()
    retained = [each for each in listed if each.id <= snapshot.id]
    # Without a snapshot under the schema, nothing shows when the files of the oldest one were committed.
    return ([each for each in retained if each.schema_id <= schema_id] or retained[:1] or [snapshot])[-1]


def _ranges(version: Version, column_id: int) -> dict[tuple[str, int, int, bytes], list[IndexEntry]]:
    ranges: dict[tuple[str, int, int, bytes], list[IndexEntry]] = defaultdict(list)
    for entry in version.contents().global_indexes[column_id]:
        covered = entry.file.global_index
        if covered is not None and 0 <= covered.last_row - covered.first_row < _MOST_ROWS:
            key = entry.file.index_type, covered.first_row, covered.last_row, entry.partition
            ranges[key].append(entry)
    return ranges

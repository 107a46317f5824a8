"""Groups the files of a bucket that merge with one another when they are read.

A primary key table keeps versions of a key in several files. A read merges them. The files of a bucket fall
into *units* whose key ranges do not overlap, so all versions of a key are in one unit:

* a unit of one file holds the only version of each of its keys: its own values decide about it. If it has no
delete rows it is *raw convertible*: a reader takes rows straight from the file, by their positions;
* a unit of several files is merged on read. Skipping one file of it by its values may bring an older version
of a row back to life, so the unit is judged as a whole (:mod:`app.planning.scan.planner`).

If a bucket needs no merging at all (tables with deletion vectors or the first-row engine, or all files on one
level above 0, and no delete rows), every file is a raw convertible unit of its own. Under
``deletion-vectors.merge-on-read`` readers see level 0, so versions merge in buckets with files there.

The engine judges an overlapping bucket as a whole. Units are its key-range sections, by which it builds
splits. Judging by section skips more, and is safe for the reason above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.planning.version.files import FileColumns
from app.planning.version.version import Version
from app.table.statistics import key_ranks

Ranks = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class MergeUnits:
    """Files by the unit in which they are read."""

    files: NDArray[np.int64]  # Shape (m,), sorted by unit and inside it by key.
    numbers: NDArray[np.int64]  # Shape (m,): the unit of each file, from 0 on without gaps.
    starts: NDArray[np.int64]  # Shape (units,): place of each unit's first file.
    raw_convertible: NDArray[np.bool_]  # Shape (units,): one file that can be read without merging.

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Files in each unit, shape (units,)."""
        return np.diff(self.starts, append=len(self.files))


def units_of_version(version: Version, files: NDArray[np.int64]) -> MergeUnits:
    """Partition the kept files of a primary key table, ascending, into units."""
    all_files = version.files()

    def ranks(chosen: NDArray[np.int64]) -> Ranks:
        parts = ((all_files.manifests[number], rows) for number, _, rows in all_files.by_manifest(chosen))
        return key_ranks(parts, version.file_schema, version.schema)

    return merge_units(files, all_files.columns, ranks, one_version=version.schema.keeps_one_version)


def merge_units(
    files: NDArray[np.int64],
    columns: FileColumns,
    ranks: Callable[[NDArray[np.int64]], Ranks],
    *,
    one_version: bool,
) -> MergeUnits:
    """Partition files into units, bucket by bucket.

    ``files``: those that a read still has to see, ascending.
    ``ranks``: returns the ranks of each file's smallest and largest key among the keys of the given files.
    ``one_version``: compacted files hold at most one live version of a key (deletion vectors, first-row).
    """
    buckets = _numbered(columns.bucket_keys[files])
    without_deletes = columns.delete_row_counts[files] == 0
    plain = _is_plain(buckets, columns.levels[files], without_deletes, one_version=one_version)[buckets]
    low, high = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
    merging = ~plain
    if merging.any():
        low[merging], high[merging] = ranks(files[merging])
    order, opens = sections(buckets, low, high)
    # In a bucket that needs no merging every file is a unit, whatever its keys.
    opens |= plain[order]
    starts = np.flatnonzero(opens)
    alone = np.diff(starts, append=len(files)) == 1
    return MergeUnits(
        files[order], np.cumsum(opens) - 1, starts, alone & (without_deletes | plain)[order][starts]
    )


def sections(
    groups: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Cut each group of ranges into sections that do not overlap. A range includes both ends.

    Return the order by group and range, and for each range in this order True if it begins a section.
    """
    order = np.lexsort((high, low, groups))
    # Shifted so that groups do not overlap either: one running maximum then serves all of them.
    first = int(low.min(initial=0))
    span = int(max(low.max(initial=0), high.max(initial=0))) - first + 1
    begins, ends = (groups * span + low - first)[order], (groups * span + high - first)[order]
    reach = np.maximum.accumulate(ends)
    opens = np.ones(len(order), np.bool_)
    opens[1:] = (begins[1:] > reach[:-1]) | (groups[order][1:] != groups[order][:-1])
    return order, opens


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _is_plain(
    buckets: NDArray[np.int64],
    levels: NDArray[np.int32],
    without_deletes: NDArray[np.bool_],
    *,
    one_version: bool,
) -> NDArray[np.bool_]:
    count = int(buckets.max(initial=-1)) + 1
    plain = np.ones(count, np.bool_)
    plain[buckets[(levels <= 0) | ~without_deletes]] = False
    if not one_version:
        lowest = np.full(count, np.iinfo(np.int32).max)
        np.minimum.at(lowest, buckets, levels)
        plain[buckets[levels != lowest[buckets]]] = False
    return plain

"""The hash index of one partition: a map from key hashes to buckets.

It merges the hash index files of all buckets into two arrays, six bytes per key. If two buckets list one hash
(a defect that writers can leave behind), both stay: either may have rows of the key, while a lookup returns
the bucket whose file was read last, as the engine does.

Assigned hashes are added in ascending runs: the loaded index, which is shared and never written to, and a run
per batch. A run not longer than twice the next is merged with it, so there are few runs, and each hash moves
about as often as the total doubles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes
from app.errors import CorruptMetadataError
from app.options import MAX_BUCKET

# Bucket of a hash that no file lists.
UNKNOWN: Final = -1

_MAX_FILES: Final = 1 << 16
# An entry of the merge: as one 64-bit number it sorts by hash, then by the order of files.
_ENTRY: Final = np.dtype([("bucket", "<u2"), ("rank", "<u2"), ("hash", "<i4")])


@dataclass(frozen=True, slots=True, eq=False)
class PartitionIndex:
    """Hash index files of one partition, merged. Shared between requests."""

    # int32, ascending, one for each hash of each file; read-only.
    hashes: Hashes
    # Bucket of each hash; read-only. Equal hashes are in the order of files.
    buckets: npt.NDArray[np.int16]
    # Number of hashes in each bucket's files, in the order in which files were read.
    rows: Mapping[int, int]

    @classmethod
    def merge(cls, files: Sequence[tuple[int, Hashes]]) -> PartitionIndex:
        """Merge files, given as bucket and hashes (in any order), in the order of the index manifest.

        Raises CorruptMetadataError if a bucket is not a dynamic bucket, or there are more files than buckets.
        """
        if len(files) > _MAX_FILES:
            raise CorruptMetadataError(
                f"a partition has at most {_MAX_FILES} hash indexes, found {len(files)}"
            )
        rows: dict[int, int] = {}
        for bucket, listed in files:
            if not 0 <= bucket <= MAX_BUCKET:
                raise CorruptMetadataError(
                    f"a dynamic bucket is numbered 0 to {MAX_BUCKET}, found bucket {bucket}"
                )
            if len(listed):
                rows[bucket] = rows.get(bucket, 0) + len(listed)
        entries = np.empty(sum(rows.values()), _ENTRY)
        at = 0
        for rank, (bucket, listed) in enumerate(files):
            part = entries[at : at + len(listed)]
            part["bucket"], part["rank"], part["hash"] = bucket, rank, listed
            at += len(listed)
        numbers = entries.view(np.dtype("<i8"))
        numbers.sort()
        is_last = np.ones(len(numbers), dtype=np.bool_)
        np.not_equal(numbers[:-1], numbers[1:], out=is_last[:-1])
        hashes = entries["hash"][is_last].astype(np.int32, copy=False)
        buckets = entries["bucket"][is_last].astype(np.int16)
        hashes.setflags(write=False)
        buckets.setflags(write=False)
        return cls(hashes, buckets, rows)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.hashes.nbytes + self.buckets.nbytes

    def lookup(self, hashes: Sequence[int] | Hashes) -> npt.NDArray[np.int16]:
        """Return the bucket of each key hash, in order, :data:`UNKNOWN` where there is none."""
        requested = np.asarray(hashes, dtype=np.int32)
        buckets = np.empty(len(requested), dtype=np.int16)
        order = np.argsort(requested)
        buckets[order] = find_ascending(self.hashes, self.buckets, requested[order])
        return buckets

    def holding(self, hashes: Sequence[int] | Hashes) -> frozenset[int]:
        """Return the buckets that list at least one of the key hashes."""
        requested = np.unique(np.asarray(hashes, dtype=np.int32))
        first = np.searchsorted(self.hashes, requested, side="left")
        counts = np.searchsorted(self.hashes, requested, side="right") - first
        places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        return frozenset(np.unique(self.buckets[places]).tolist())


def find_ascending(
    hashes: Hashes, buckets: npt.NDArray[np.int16], requested: Hashes
) -> npt.NDArray[np.int16]:
    """Look up ascending hashes. The result is UNKNOWN where absent, and the last bucket where repeated."""
    found_buckets = np.full(len(requested), UNKNOWN, dtype=np.int16)
    # Ascending requests keep the search in CPU caches: each continues where the last one ended.
    places = np.searchsorted(hashes, requested, side="right") - 1
    is_found = places >= 0
    is_found[is_found] = hashes[places[is_found]] == requested[is_found]
    found_buckets[is_found] = buckets[places[is_found]]
    return found_buckets


Buckets: TypeAlias = NDArray[np.int16]

_GROWTH: Final = 2


class KnownHashes:
    """Map from hashes to buckets that can grow."""

    def __init__(self, loaded: PartitionIndex) -> None:
        self._runs: list[tuple[Hashes, Buckets]] = [(loaded.hashes, loaded.buckets)]

    def find(self, requested: Hashes) -> Buckets:
        """Return the bucket of each of the ascending hashes, ``UNKNOWN`` where there is none."""
        found_buckets = np.full(len(requested), UNKNOWN, np.int16)
        for hashes, buckets in self._runs:
            # A hash is in one run at most, and every bucket is above UNKNOWN.
            np.maximum(found_buckets, find_ascending(hashes, buckets, requested), out=found_buckets)
        return found_buckets

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Add distinct, ascending, unknown hashes."""
        run = (hashes, buckets)
        while self._runs and len(self._runs[-1][0]) <= _GROWTH * len(run[0]):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)


def _merged(one: tuple[Hashes, Buckets], other: tuple[Hashes, Buckets]) -> tuple[Hashes, Buckets]:
    places = np.searchsorted(one[0], other[0])
    return np.insert(one[0], places, other[0]), np.insert(one[1], places, other[1])

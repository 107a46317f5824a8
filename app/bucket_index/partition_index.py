"""The hash index of one partition: which buckets each known key hash belongs to.

It merges the hash index files of all the partition's buckets into two arrays, six bytes a key. Where two
buckets list one hash (a defect that writers can leave behind), all of them stay: rows of the key may lie in
each, while a look-up answers the bucket whose file was read last, as in the engine.

While keys are assigned, the hashes grow. They lie in ascending runs, six bytes each: the index that was
loaded, which others may share and which is never written to, and one run per batch of new ones. A run that is
no longer than twice the next is merged with it, so there are few, and each hash is moved about as often as
their total doubles.
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

UNKNOWN: Final = -1
"""Stands for the bucket of a hash that no file holds."""

_MAX_FILES: Final = 1 << 16
_ENTRY: Final = np.dtype([("bucket", "<u2"), ("rank", "<u2"), ("hash", "<i4")])
"""An entry while files are merged: read as one 64-bit number, it sorts by hash, then by reading order."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionIndex:
    """What the hash index files of one partition say; shared between requests.

    Attributes:
        hashes: int32, ascending: one for each hash of each file; read-only.
        buckets: the bucket of each; read-only. Those of equal hashes stand in the order of the files.
        rows: per bucket the number of hashes in its files, in the order in which files were read.
    """

    hashes: Hashes
    buckets: npt.NDArray[np.int16]
    rows: Mapping[int, int]

    @classmethod
    def merge(cls, files: Sequence[tuple[int, Hashes]]) -> PartitionIndex:
        """Merges files, given as bucket and hashes (in any order) in the order of the index manifest.

        Raises:
            CorruptMetadataError: a bucket that no dynamic bucket can have, or more files than buckets allow.
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
        """Bytes of memory."""
        return self.hashes.nbytes + self.buckets.nbytes

    def lookup(self, hashes: Sequence[int] | Hashes) -> npt.NDArray[np.int16]:
        """The bucket of each key hash in the order asked, :data:`UNKNOWN` where there is none."""
        asked = np.asarray(hashes, dtype=np.int32)
        buckets = np.empty(len(asked), dtype=np.int16)
        order = np.argsort(asked)
        buckets[order] = find_ascending(self.hashes, self.buckets, asked[order])
        return buckets

    def holding(self, hashes: Sequence[int] | Hashes) -> frozenset[int]:
        """The buckets that list at least one of some key hashes."""
        asked = np.unique(np.asarray(hashes, dtype=np.int32))
        first = np.searchsorted(self.hashes, asked, side="left")
        counts = np.searchsorted(self.hashes, asked, side="right") - first
        places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        return frozenset(np.unique(self.buckets[places]).tolist())


def find_ascending(hashes: Hashes, buckets: npt.NDArray[np.int16], asked: Hashes) -> npt.NDArray[np.int16]:
    """The bucket of each hash that is asked for, :data:`UNKNOWN` where there is none.

    ``buckets``: the bucket of each; of equal hashes the last one counts. ``asked``: ascending too, since a
    search that goes on where the one before it ended stays in the caches.
    """
    known = np.full(len(asked), UNKNOWN, dtype=np.int16)
    places = np.searchsorted(hashes, asked, side="right") - 1
    is_known = places >= 0
    is_known[is_known] = hashes[places[is_known]] == asked[is_known]
    known[is_known] = buckets[places[is_known]]
    return known


Buckets: TypeAlias = NDArray[np.int16]

_GROWTH: Final = 2


class KnownHashes:
    """A map of hashes to buckets."""

    def __init__(self, loaded: PartitionIndex) -> None:
        self._runs: list[tuple[Hashes, Buckets]] = [(loaded.hashes, loaded.buckets)]

    def find(self, asked: Hashes) -> Buckets:
        """The bucket of each of some ascending hashes, ``UNKNOWN`` where there is none."""
        known = np.full(len(asked), UNKNOWN, np.int16)
        for hashes, buckets in self._runs:
            # A hash is in one run at most, and every bucket is above UNKNOWN.
            np.maximum(known, find_ascending(hashes, buckets, asked), out=known)
        return known

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Adds distinct ascending hashes that are not known."""
        run = (hashes, buckets)
        while self._runs and len(self._runs[-1][0]) <= _GROWTH * len(run[0]):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)


def _merged(one: tuple[Hashes, Buckets], other: tuple[Hashes, Buckets]) -> tuple[Hashes, Buckets]:
    places = np.searchsorted(one[0], other[0])
    return np.insert(one[0], places, other[0]), np.insert(one[1], places, other[1])

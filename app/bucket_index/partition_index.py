"""The hash index of one partition: which bucket each known key hash belongs to.

It merges the hash index files of all the partition's buckets. Where two files hold one hash (a defect that
writers can leave behind), the file that is read last decides, as in the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from app.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.bucket_index.hash_index import Hashes, HashIndex

MAX_BUCKET: Final = 32766
"""The highest bucket that dynamic buckets can reach; the engine keeps them in 16 bits."""

UNKNOWN: Final = -1
"""Stands for the bucket of a hash that no file holds."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionIndex:
    """What the hash index files of one partition say; shared between requests.

    Attributes:
        hashes: distinct key hashes, ascending; read-only.
        buckets: the bucket of each; read-only.
        rows: per bucket the number of hashes in its files, in the order in which files were read.
    """

    hashes: Hashes
    buckets: npt.NDArray[np.int16]
    rows: Mapping[int, int]

    @classmethod
    def merge(cls, files: Sequence[tuple[int, HashIndex]]) -> PartitionIndex:
        """Merges files, given as bucket and content in the order of the index manifest.

        Raises:
            CorruptMetadataError: a bucket that no dynamic bucket can have.
        """
        rows: dict[int, int] = {}
        for bucket, index in files:
            if not 0 <= bucket <= MAX_BUCKET:
                raise CorruptMetadataError(
                    f"a dynamic bucket is numbered 0 to {MAX_BUCKET}, found bucket {bucket}"
                )
            if index.rows:
                rows[bucket] = rows.get(bucket, 0) + index.rows
        # A hash in the high half and the file's rank in the low half sort by hash, then by reading order.
        ranked = np.empty(sum(rows.values()), dtype=np.int64)
        at = 0
        for rank, (_, index) in enumerate(files):
            ranked[at : at + index.rows] = index.hashes
            ranked[at : at + index.rows] <<= 32
            ranked[at : at + index.rows] |= rank
            at += index.rows
        ranked.sort()
        hashes = (ranked >> 32).astype(np.int32)
        is_last = np.ones(len(hashes), dtype=np.bool_)
        np.not_equal(hashes[1:], hashes[:-1], out=is_last[:-1])
        bucket_by_rank = np.array([bucket for bucket, _ in files], dtype=np.int16)
        hashes, buckets = hashes[is_last], bucket_by_rank[ranked[is_last] & 0xFFFFFFFF]
        hashes.setflags(write=False)
        buckets.setflags(write=False)
        return cls(hashes, buckets, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.hashes.nbytes + self.buckets.nbytes

    def find(self, key_hash: int) -> int:
        """The bucket of one key hash, or :data:`UNKNOWN`."""
        place = int(self.hashes.searchsorted(np.int32(key_hash)))
        if place == len(self.hashes) or self.hashes[place] != key_hash:
            return UNKNOWN
        return int(self.buckets[place])

    def lookup(self, hashes: Sequence[int] | Hashes) -> npt.NDArray[np.int16]:
        """The bucket of each key hash in the order asked, :data:`UNKNOWN` where there is none."""
        asked = np.asarray(hashes, dtype=np.int32)
        found = np.full(len(asked), UNKNOWN, dtype=np.int16)
        if not len(self.hashes):
            return found
        places = np.searchsorted(self.hashes, asked).clip(max=len(self.hashes) - 1)
        is_known = self.hashes[places] == asked
        found[is_known] = self.buckets[places[is_known]]
        return found

"""The buckets of all key hashes of a partition, which grow while keys are assigned.

Hashes lie in ascending runs, six bytes each: the index that was loaded, which others may share and which is
never written to, and one run per batch of new ones. A run that is no longer than twice the next is merged
with it, so there are few, and each hash is moved about as often as their total doubles.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes
from app.bucket_index.partition_index import UNKNOWN, PartitionIndex, find_ascending

Buckets: TypeAlias = NDArray[np.int16]

_GROWTH: Final = 2


class KnownHashes:
    """A map of hashes to buckets.

    Args:
        loaded: what is known at first.
    """

    def __init__(self, loaded: PartitionIndex) -> None:
        self._runs: list[tuple[Hashes, Buckets]] = [(loaded.hashes, loaded.buckets)]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(hashes.nbytes + buckets.nbytes for hashes, buckets in self._runs)

    def find(self, asked: Hashes) -> Buckets:
        """The bucket of each of some ascending hashes, ``UNKNOWN`` where there is none."""
        found = np.full(len(asked), UNKNOWN, np.int16)
        for hashes, buckets in self._runs:
            # A hash is in one run at most, and every bucket is above UNKNOWN.
            np.maximum(found, find_ascending(hashes, buckets, asked), out=found)
        return found

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Adds distinct ascending hashes that are not known."""
        run = (hashes, buckets)
        while self._runs and len(self._runs[-1][0]) <= _GROWTH * len(run[0]):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)


def _merged(one: tuple[Hashes, Buckets], other: tuple[Hashes, Buckets]) -> tuple[Hashes, Buckets]:
    places = np.searchsorted(one[0], other[0])
    return np.insert(one[0], places, other[0]), np.insert(one[1], places, other[1])

"""The assigner of a writer that overwrites: it loads no index, since nothing of it will remain.

Each partition starts with the lowest bucket of the assigner and fills its buckets one after the other. At
the bound, the engine means to choose at random among the buckets in use, but the list that it chooses from
only ever holds the bucket that the partition started with, so that one takes all further keys. An assigner
whose buckets end below the bound never reaches it, and goes on with its last bucket. One to which the bound
leaves no bucket uses bucket 0, which is not its own.

As in :mod:`app.bucket_index.assigner` the highest bucket handed out is shared by all partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.bucket_index.batch_assignment import BatchAssignment, PartitionState
from app.bucket_index.key_batch import KeyBatch
from app.bucket_index.known_hashes import KnownHashes
from app.bucket_index.partition_index import PartitionIndex
from app.bucket_index.placement import Placement, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.bucket_index.assignments import Assignments
    from app.bucket_index.hash_index import Integers
    from app.options.dynamic_buckets import AssignerOptions


class SimpleHashBucketAssigner:
    """One overwriting assigner over the partitions that it meets; keeps state, so one thread at a time."""

    def __init__(self, options: AssignerOptions) -> None:
        self._options = options
        self._partitions: dict[bytes, PartitionState] = {}
        # Nothing is random here, see the module.
        self._assignment = BatchAssignment(options.highest_allowed, np.random.default_rng(0))

    def assign(self, partition: bytes, hashes: Integers) -> Assignments:
        """Assigns keys of one partition in their order, as :meth:`assign_batch` does."""
        return self.assign_batch(KeyBatch.of_one(partition, hashes))

    def assign_batch(self, batch: KeyBatch) -> Assignments:
        """Assigns keys, which unlike in the other assigner may belong to anybody, and remembers them.

        Raises:
            FilterError: no bucket is left for a key; none is remembered then.
        """
        return self._assignment.assign(batch, self._state_of)

    def _state_of(self, partition: bytes) -> PartitionState:
        state = self._partitions.get(partition)
        if state is None:
            first = next(iter(self._options.own_buckets()), 0)
            state = PartitionState(
                KnownHashes(PartitionIndex.merge(())), _OverwrittenBuckets(self._options, first, first)
            )
            self._partitions[partition] = state
        return state


@dataclass(slots=True)
class _OverwrittenBuckets:
    """The buckets of one partition.

    Attributes:
        options: of the assigner.
        first: the bucket that the partition started with.
        current: the bucket that is being filled.
        rows: rows in the current bucket.
    """

    options: AssignerOptions
    first: int
    current: int
    rows: int = 0

    def place(self, draws: NDArray[np.float64], creating: int) -> Placement:
        """See :class:`~app.bucket_index.placement.BucketRoom`."""
        keys = len(draws)
        runs = list(self._fill(keys, creating if self.options.is_bounded else keys))
        left = keys - sum(run.keys for run in runs)
        if not left or not self.options.is_bounded:
            return Placement(runs, np.empty(0, np.int16), ())
        reaches_bound = self.options.highest_allowed in self.options.own_buckets()
        last = runs[-1].bucket if runs else self.current
        further = self.first if reaches_bound else last
        return Placement(runs, np.full(left, further, np.int16), (further,))

    def accept(self, placement: Placement) -> None:
        """See :class:`~app.bucket_index.placement.BucketRoom`."""
        for run in placement.runs:
            self.rows = run.keys if run.opens else self.rows + run.keys
            self.current = run.bucket

    def _fill(self, keys: int, creating: int) -> Iterator[Run]:
        """Fills the current bucket, then those that follow."""
        placed = min(self.options.capacity - self.rows, keys)
        if placed:
            yield Run(self.current, placed, opens=self.rows == 0)
        for bucket in self.options.own_buckets(self.current + 1):
            if placed >= min(keys, creating):
                return
            run = Run(bucket, min(self.options.capacity, keys - placed), opens=True)
            placed += run.keys
            yield run

"""The assigner of a dynamic-bucket writer: which bucket each key goes to, known or new.

Per partition it goes through four steps and takes the first that applies:

1. *existing*: the key's hash is in the partition's hash index, or was assigned before: its bucket.
2. *non_full*: the first bucket of its own, in the order of a Java HashMap, with fewer rows than the target;
   full ones met on the way are never tried again.
3. *new*: the lowest bucket of its own that is not in use, if the partition has none yet, or if the highest
   bucket that this **assigner** has handed out lies below the bound.
4. *random*: any bucket of its own that is in use, however full.

That highest bucket starts at 0, not at what the index holds, and all partitions share it: a partition first
seen after another one reached the bound gets a single bucket. Rows are counted by hashes in the index files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from app.bucket_index.batch_assignment import BatchAssignment, PartitionState
from app.bucket_index.channels import assigners_of
from app.bucket_index.key_batch import KeyBatch
from app.bucket_index.known_hashes import KnownHashes
from app.bucket_index.partition_buckets import PartitionBuckets
from app.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.bucket_index.assignments import Assignments
    from app.bucket_index.batch_assignment import RandomSource
    from app.bucket_index.hash_index import Integers
    from app.bucket_index.partition_index import PartitionIndex
    from app.options.dynamic_buckets import AssignerOptions

    LoadIndex: TypeAlias = Callable[[bytes], PartitionIndex]
    """Gives the hash index of a partition, which is named by its row without the number of fields."""


class HashBucketAssigner:
    """One assigner over the partitions that it meets; keeps state, so one thread at a time.

    Args:
        options: its place among the assigners, and the table's options.
        load: gives the hash index of a partition when it is first met.
        source: decides where the choice is free; seeded by the system if None.
    """

    def __init__(self, options: AssignerOptions, load: LoadIndex, source: RandomSource | None = None) -> None:
        self._options = options
        self._load = load
        self._partitions: dict[bytes, _Partition] = {}
        self._assignment = BatchAssignment(
            options.highest_allowed, np.random.default_rng() if source is None else source
        )

    @property
    def cached_partitions(self) -> tuple[bytes, ...]:
        """The partitions whose index is held in memory."""
        return tuple(self._partitions)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the hashes that are held."""
        return sum(partition.state.known.nbytes for partition in self._partitions.values())

    def assign(self, partition: bytes, hashes: Integers) -> Assignments:
        """Assigns keys of one partition in their order, as :meth:`assign_batch` does."""
        return self.assign_batch(KeyBatch.of_one(partition, hashes))

    def assign_batch(self, batch: KeyBatch) -> Assignments:
        """Assigns keys in their order and remembers them: all of them, or none if one cannot be.

        Raises:
            FilterError: another assigner decides about a key, or no bucket is left for it.
        """
        options = self._options
        responsible = assigners_of(batch.partition_hashes, batch.hashes, options.channels, options.assigners)
        foreign = np.flatnonzero(responsible != options.assign_id)
        if len(foreign):
            raise FilterError(
                f"key hash {batch.hashes[foreign[0]]} belongs to assigner {responsible[foreign[0]]}, "
                f"not to assigner {options.assign_id}"
            )
        return self._assignment.assign(batch, self._state_of)

    def prepare_commit(self, identifier: int, latest_committed: Callable[[], int | None]) -> None:
        """Notes a commit, and forgets partitions that have been idle since a commit that succeeded.

        Args:
            identifier: of the commit that is being prepared.
            latest_committed: identifier of the latest snapshot of this writer, None if it has none; asked
                only where it matters, since a writer's first snapshot is expensive to look for.
        """
        has_history = any(known.last_access is not None for known in self._partitions.values())
        committed = latest_committed() if has_history else None
        for partition, known in list(self._partitions.items()):
            if known.accessed:
                known.last_access = identifier
            elif committed is not None and known.last_access is not None and known.last_access <= committed:
                del self._partitions[partition]
            known.accessed = False

    def _state_of(self, partition: bytes) -> PartitionState:
        known = self._partitions.get(partition)
        if known is None:
            index = self._load(partition)
            room = PartitionBuckets.restore(index.rows, self._options)
            known = self._partitions[partition] = _Partition(PartitionState(KnownHashes(index), room))
        known.accessed = True
        return known.state


@dataclass(slots=True)
class _Partition:
    """A partition in memory.

    Attributes:
        state: where its keys are.
        accessed: whether a key was assigned since the last commit.
        last_access: identifier of the last commit that the partition took part in.
    """

    state: PartitionState
    accessed: bool = False
    last_access: int | None = None

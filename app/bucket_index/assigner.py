"""Assigns keys to dynamic buckets, as the engine's writer does.

Within a partition, the first of these steps that applies decides:

1. *existing*: the bucket of the key's hash in the partition's hash index, or in an earlier assignment.
2. *non_full*: the assigner's first own bucket, in the order of a Java HashMap, with fewer rows than the
   target. A full bucket is never tried again.
3. *new*: the lowest own bucket not in use, if the partition has none yet, or if the highest bucket that this
   **assigner** has handed out is below the limit.
4. *random*: any own bucket in use, however full.

The highest bucket starts at 0, not at the index's highest, and all partitions share it: a partition first
seen after another one reached the limit gets a single bucket. Rows are counted by hashes in the index files.

A batch has the result of assigning its keys one by one. Each new key draws a random number, needed or not, so
that results do not depend on how keys are divided into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes, HashNumbers
from app.bucket_index.key_batch import KeyBatch
from app.bucket_index.partition_buckets import (
    NUMBERS,
    Assignments,
    PartitionBuckets,
    Placement,
    Strategy,
    assigners_of,
)
from app.bucket_index.partition_index import UNKNOWN, KnownHashes, PartitionIndex
from app.errors import FilterError
from app.options import AssignerOptions

# Loads the hash index of a partition, given as its row without the number of fields.
LoadIndex: TypeAlias = Callable[[bytes], PartitionIndex]


_POSITION_BITS: Final = 32
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


class RandomSource(Protocol):
    """Source of random numbers, such as ``numpy.random.Generator``."""

    def random(self, size: int) -> NDArray[np.float64]:
        """Return ``size`` numbers in [0, 1), equal to those of ``size`` single draws."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State of an assigner for one partition."""

    known: KnownHashes
    room: PartitionBuckets


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Keys of a batch in one partition. Positions refer to the batch."""

    partition: bytes
    state: PartitionState
    # Positions of all keys, by ascending hash, then position.
    positions: NDArray[np.intp]
    # Index of each key's hash in `distinct`.
    places: NDArray[np.intp]
    # The hashes, ascending.
    distinct: Hashes
    # Bucket of each distinct hash, or UNKNOWN.
    known: NDArray[np.int16]
    # Position of each distinct hash's first key.
    firsts: NDArray[np.intp]
    # Indexes of unknown distinct hashes, in the order of the batch.
    new: NDArray[np.intp]

    @classmethod
    def of(
        cls, partition: bytes, state: PartitionState, positions: NDArray[np.intp], hashes: Hashes
    ) -> _Group:
        # One sort of plain numbers orders the keys by hash, and those of equal hashes by position.
        packed = (hashes.astype(np.int64) << _POSITION_BITS) | np.arange(len(hashes))
        packed.sort()
        ascending = (packed >> _POSITION_BITS).astype(np.int32)
        is_first = np.ones(len(ascending), np.bool_)
        np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
        ordered = positions[packed & _POSITION_MASK]
        distinct, firsts = ascending[is_first], ordered[is_first]
        known = state.known.find(distinct)
        new = np.flatnonzero(known == UNKNOWN)
        new = new[np.argsort(firsts[new])]
        return cls(partition, state, ordered, np.cumsum(is_first) - 1, distinct, known, firsts, new)

    @property
    def new_positions(self) -> NDArray[np.intp]:
        return self.firsts[self.new]

    def reaching(self, bucket: int, placement: Placement) -> list[int]:
        known = self.firsts[self.known >= bucket]
        new = self.new_positions[: len(placement)][placement.buckets() >= bucket]
        return [int(positions.min()) for positions in (known, new) if len(positions)]

    def settle(self, placement: Placement) -> NDArray[np.int16]:
        """Record where new keys go, and return the bucket of each key, in the order of ``positions``."""
        buckets = self.known.copy()
        buckets[self.new] = placement.buckets()
        ascending = np.sort(self.new)
        self.state.known.add(self.distinct[ascending], buckets[ascending])
        self.state.room.accept(placement)
        return buckets[self.places]


class HashBucketAssigner:
    """Assigns buckets in all partitions of its keys. It has state, so one thread at a time may use it.

    ``load``: called for the first key of a partition. ``source``: random numbers of step 4. None for those
    of a random seed.
    """

    def __init__(self, options: AssignerOptions, load: LoadIndex, source: RandomSource | None = None) -> None:
        self._options = options
        self._load = load
        self._partitions: dict[bytes, PartitionState] = {}
        self._source: RandomSource = np.random.default_rng() if source is None else source
        # The engine starts at 0, too, instead of at the highest loaded bucket.
        self._highest = 0

    def assign(self, partition: bytes, hashes: HashNumbers) -> Assignments:
        """Assign keys of one partition, in order."""
        return self.assign_batch(KeyBatch.of_one(partition, hashes))

    def assign_batch(self, batch: KeyBatch) -> Assignments:
        """Assign keys in order and record the result, or record nothing if one cannot be assigned.

        Raises FilterError if a key belongs to another assigner, or no bucket is left for it.
        """
        options = self._options
        responsible = assigners_of(batch.partition_hashes, batch.hashes, options.channels, options.assigners)
        foreign = np.flatnonzero(responsible != options.assign_id)
        if len(foreign):
            raise FilterError(
                f"key hash {batch.hashes[foreign[0]]} belongs to assigner {responsible[foreign[0]]}, "
                f"not to assigner {options.assign_id}"
            )
        groups = [
            _Group.of(partition, self._state_of(partition), positions, batch.hashes[positions])
            for partition, positions in batch.by_partition()
        ]
        placements = self._place(groups, self._draw(groups))
        for group, placement in zip(groups, placements, strict=True):
            if len(placement) < len(group.new):
                raise FilterError(
                    f"no bucket up to {self._options.highest_allowed} is left for a new key: raise "
                    "dynamic-bucket.target-row-num, or dynamic-bucket.max-buckets if that is set"
                )
        buckets = np.empty(len(batch.hashes), np.int32)
        strategies = np.full(len(batch.hashes), NUMBERS[Strategy.EXISTING], np.uint8)
        for group, placement in zip(groups, placements, strict=True):
            buckets[group.positions] = group.settle(placement)
            strategies[group.new_positions] = placement.strategies()
        self._highest = max(self._highest, int(buckets.max(initial=0)))
        permitted = [placement.permitted for placement in placements]
        return Assignments(
            batch,
            buckets,
            strategies,
            dict(zip((group.partition for group in groups), permitted, strict=True)),
        )

    def _draw(self, groups: Sequence[_Group]) -> list[NDArray[np.float64]]:
        positions = np.concatenate([np.empty(0, np.intp), *(group.new_positions for group in groups)])
        drawn = np.empty(len(positions))
        drawn[np.argsort(positions)] = self._source.random(len(positions))
        return np.split(drawn, np.cumsum([len(group.new) for group in groups], dtype=np.intp))[:-1]

    def _place(self, groups: Sequence[_Group], draws: Sequence[NDArray[np.float64]]) -> list[Placement]:
        # Partitions interact in one number only, the highest bucket handed out. So a batch is first placed as
        # if that never reached the limit; keys after the first one that reaches it are placed again without
        # creating buckets.
        last = -1
        if self._highest < self._options.highest_allowed:
            unhindered = [
                group.state.room.place(drawn, len(drawn)) for group, drawn in zip(groups, draws, strict=True)
            ]
            reaching = [
                position
                for group, placement in zip(groups, unhindered, strict=True)
                for position in group.reaching(self._options.highest_allowed, placement)
            ]
            if not reaching:
                return unhindered
            last = min(reaching)
        return [
            group.state.room.place(drawn, int(group.new_positions.searchsorted(last, side="right")))
            for group, drawn in zip(groups, draws, strict=True)
        ]

    def _state_of(self, partition: bytes) -> PartitionState:
        state = self._partitions.get(partition)
        if state is None:
            index = self._load(partition)
            room = PartitionBuckets.restore(index.rows, self._options)
            state = self._partitions[partition] = PartitionState(KnownHashes(index), room)
        return state

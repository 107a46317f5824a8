"""The assigner of a dynamic-bucket writer: which bucket each key goes to, known or new.

Per partition it goes through four steps and takes the first that applies:

1. *existing*: the key's hash is in the partition's hash index, or was assigned before: its bucket.
2. *non_full*: the first bucket of its own, in the order of a Java HashMap, with fewer rows than the target;
   full ones are never tried again.
3. *new*: the lowest bucket of its own that is not in use, if the partition has none yet, or if the highest
   bucket that this **assigner** has handed out lies below the bound.
4. *random*: any bucket of its own that is in use, however full.

That highest bucket starts at 0, not at what the index holds, and all partitions share it: a partition first
seen after another one reached the bound gets a single bucket. Rows are counted by hashes in the index files.

A batch has the same outcome as its keys one after the other. Partitions meet in one number only, the highest
bucket that was handed out: once it reaches the bound, no more are created anywhere. So a batch is placed as
if it never did; what follows the key that reaches the bound first is placed again without creating buckets.
Each new key draws a random number, needed or not, so that numbers do not depend on how keys are cut into
batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes, Integers
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

LoadIndex: TypeAlias = Callable[[bytes], PartitionIndex]
"""Gives the hash index of a partition, which is named by its row without the number of fields."""


_POSITION_BITS: Final = 32
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


class RandomSource(Protocol):
    """Where free choices come from; a ``numpy.random.Generator`` is one."""

    def random(self, size: int) -> NDArray[np.float64]:
        """Numbers from 0 to below 1; the same ones at once as one by one."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What an assigner knows about one partition."""

    known: KnownHashes
    room: PartitionBuckets


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The keys of a batch that are in one partition; positions are those in the batch.

    Attributes:
        positions: of all keys by ascending hash, those of equal hashes ascending.
        places: of each of these, where its hash stands in ``distinct``.
        distinct: the hashes, ascending.
        known: the bucket of each, or UNKNOWN.
        firsts: the position of the first key of each.
        new: which of these are not known, in the order of the batch.
    """

    partition: bytes
    state: PartitionState
    positions: NDArray[np.intp]
    places: NDArray[np.intp]
    distinct: Hashes
    known: NDArray[np.int16]
    firsts: NDArray[np.intp]
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
        """Remembers where new keys go. Returns the bucket of each key, in the order of ``positions``."""
        buckets = self.known.copy()
        buckets[self.new] = placement.buckets()
        ascending = np.sort(self.new)
        self.state.known.add(self.distinct[ascending], buckets[ascending])
        self.state.room.accept(placement)
        return buckets[self.places]


class HashBucketAssigner:
    """One assigner over the partitions that it meets; keeps state, so one thread at a time.

    ``load``: gives the hash index of a partition when it is first met. ``source``: decides where the choice
    is free; seeded by the system if None.
    """

    def __init__(self, options: AssignerOptions, load: LoadIndex, source: RandomSource | None = None) -> None:
        self._options = options
        self._load = load
        self._partitions: dict[bytes, PartitionState] = {}
        self._source: RandomSource = np.random.default_rng() if source is None else source
        # Not the highest bucket that was loaded: the engine starts at 0 too.
        self._highest = 0

    def assign(self, partition: bytes, hashes: Integers) -> Assignments:
        """Assigns keys of one partition in their order, as :meth:`assign_batch` does."""
        return self.assign_batch(KeyBatch.of_one(partition, hashes))

    def assign_batch(self, batch: KeyBatch) -> Assignments:
        """Assigns keys in their order and remembers them: all of them, or none if one cannot be.

        Raises FilterError: another assigner decides about a key, or no bucket is left for it.
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

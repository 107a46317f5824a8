"""Buckets of one partition that one assigner fills: with room, in use, and free to be created.

New keys go through the steps 2 to 4 of :mod:`app.bucket_index.assigner`. They fill buckets one after the
other, in *runs*. Once no bucket has room and none may be created, each remaining key goes to a random bucket.
A full bucket is never tried again, even if a compaction empties it, until the partition is loaded again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes
from app.bucket_index.key_batch import KeyBatch
from app.options import AssignerOptions

_LEAST_SLOTS: Final = 16
# Load factor of a Java HashMap.
_MOST_PER_SLOT: Final = 0.75


class Strategy(StrEnum):
    """Step that decided about a key. See :mod:`app.bucket_index.assigner`."""

    EXISTING = "existing"
    NON_FULL = "non_full"
    NEW = "new"
    RANDOM = "random"


# Strategies by their number in arrays.
STRATEGIES: Final = tuple(Strategy)

# Number of each strategy in arrays.
NUMBERS: Final = {strategy: number for number, strategy in enumerate(STRATEGIES)}


@dataclass(frozen=True, slots=True)
class Assignment:
    """Bucket of one key. ``permitted``: for RANDOM, the buckets to choose from, ascending."""

    bucket: int
    strategy: Strategy
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """Buckets of the keys of a batch.

    ``buckets``, int32, and ``strategies``, by number, have an item per key. ``permitted`` are the buckets
    that random keys of each partition could get, ascending.
    """

    batch: KeyBatch
    buckets: NDArray[np.int32]
    strategies: NDArray[np.uint8]
    permitted: Mapping[bytes, tuple[int, ...]]

    def tolist(self) -> list[Assignment]:
        """Return one object per key."""
        keys = zip(self.batch.codes.tolist(), self.buckets.tolist(), self.strategies.tolist(), strict=True)
        return [
            Assignment(
                bucket,
                STRATEGIES[number],
                self.permitted[self.batch.partitions[code]] if number == NUMBERS[Strategy.RANDOM] else None,
            )
            for code, bucket, number in keys
        ]


def assigners_of(
    partition_hashes: Hashes, key_hashes: Hashes, channels: int, assigners: int
) -> NDArray[np.int64]:
    """Return the assigner, from 0, that decides about each row, shape (rows,).

    Spark repartitions by the sum of two row hashes, of the partition and of the trimmed primary key.
    """
    of_partitions = _magnitudes(partition_hashes) % channels
    return (of_partitions + _magnitudes(key_hashes) % assigners) % channels


def owns(assigner: int, bucket: int, assigners: int) -> bool:
    """Return True if an assigner may create and fill a bucket."""
    # If a writer's channels are not a multiple of the assigners, two assigners may own one bucket. Neither
    # counts the other's keys, so the bucket may reach twice the target, as in the engine.
    return bucket % assigners == assigner % assigners


def _magnitudes(hashes: Hashes) -> NDArray[np.int64]:
    # Java's remainder keeps the sign of the hash, and its absolute value counts.
    return np.abs(hashes.astype(np.int64))


@dataclass(slots=True)
class PartitionBuckets:
    """Buckets of one partition.

    ``room`` has buckets and the keys that each still takes, in the order in which they are tried. Every own
    bucket below ``next_free`` is in use.
    """

    options: AssignerOptions
    room: deque[tuple[int, int]]
    used: set[int]
    next_free: int = 0

    @classmethod
    def restore(cls, rows: Mapping[int, int], options: AssignerOptions) -> PartitionBuckets:
        """Start an assigner from the rows of every bucket, in the order in which files were read."""
        own = [bucket for bucket in rows if owns(options.assign_id, bucket, options.assigners)]
        # The engine counts each row by a call of `compute`, which finds the bucket present except at its
        # first row.
        own = _in_map_order(own, most_present=len(own) if own and rows[own[-1]] > 1 else len(own) - 1)
        room = ((bucket, options.target_rows - rows[bucket]) for bucket in own)
        return cls(options, deque((bucket, keys) for bucket, keys in room if keys > 0), set(own))

    def place(self, draws: NDArray[np.float64], creating: int) -> Placement:
        """Place the next new keys, or fewer if there is no bucket for the rest, without changing state.

        ``draws``: a random number in [0, 1) for each key.
        ``creating``: number of leading keys that may create buckets.
        """
        runs = list(self._fill(len(draws), creating))
        placed = sum(run.keys for run in runs)
        is_used = bool(self.used or runs)
        if placed == len(draws) or not is_used or (placed < creating and not self.options.is_bounded):
            return Placement(runs, np.empty(0, np.int16), ())
        permitted = np.array(sorted(self.used | {run.bucket for run in runs}), np.int16)
        chosen = permitted[(draws[placed:] * len(permitted)).astype(np.intp)]
        return Placement(runs, chosen, tuple(permitted.tolist()))

    def accept(self, placement: Placement) -> None:
        """Apply the last placement of :meth:`place`."""
        # Only runs take room: keys sent to a random bucket do not count.
        for run in placement.runs:
            if run.opens:
                self.used.add(run.bucket)
                self.next_free = run.bucket + 1
                room = self.options.capacity
            else:
                _, room = self.room.popleft()
            if room > run.keys:
                self.room.appendleft((run.bucket, room - run.keys))

    def _fill(self, keys: int, creating: int) -> Iterator[KeyRun]:
        placed = 0
        for bucket, room in self.room:
            if placed == keys:
                return
            yield KeyRun(bucket, min(room, keys - placed), opens=False)
            placed += min(room, keys - placed)
        is_used = bool(self.used)
        for bucket in self.options.own_buckets(self.next_free):
            if placed == keys or (placed >= creating and is_used):
                return
            if bucket not in self.used:
                is_used = True
                yield KeyRun(bucket, min(self.options.capacity, keys - placed), opens=True)
                placed += min(self.options.capacity, keys - placed)


def _in_map_order(buckets: Sequence[int], most_present: int) -> list[int]:
    """Sort buckets as a Java HashMap iterates after ``compute``: within a slot the latest comes first.

    ``most_present`` is the highest number of buckets that a call found. If it exceeds 3/4 of the slots, these
    are doubled. With eight or more in a slot, as when assigners own buckets a multiple of 16 apart, Java's
    order differs.
    """
    slots = _LEAST_SLOTS
    while most_present > slots * _MOST_PER_SLOT:
        slots *= 2
    latest_first = buckets[::-1]
    return sorted(latest_first, key=lambda bucket: bucket % slots)


class KeyRun(NamedTuple):
    """Consecutive keys for one bucket. ``opens`` if the first of them creates it."""

    bucket: int
    keys: int
    opens: bool


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Buckets of new keys: first the ``runs``, then a ``chosen`` one per key, out of ``permitted``."""

    runs: Sequence[KeyRun]
    chosen: NDArray[np.int16]
    permitted: tuple[int, ...]

    def __len__(self) -> int:
        return sum(run.keys for run in self.runs) + len(self.chosen)

    def buckets(self) -> NDArray[np.int16]:
        """Return the bucket of each key."""
        in_runs = np.repeat([run.bucket for run in self.runs], [run.keys for run in self.runs])
        return np.concatenate((in_runs.astype(np.int16), self.chosen))

    def strategies(self) -> NDArray[np.uint8]:
        """Return the number of each key's strategy."""
        numbers = np.full(len(self), NUMBERS[Strategy.NON_FULL], np.uint8)
        at = 0
        for run in self.runs:
            if run.opens:
                numbers[at] = NUMBERS[Strategy.NEW]
            at += run.keys
        numbers[at:] = NUMBERS[Strategy.RANDOM]
        return numbers

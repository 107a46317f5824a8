"""The buckets of one partition that one assigner fills: with room, in use, and free to be created.

New keys go through the steps 2 to 4 of :mod:`app.bucket_index.assigner`. A bucket that is found full is
never tried again, even if a compaction empties it, until the partition is loaded anew; keys that were sent
to a bucket at random do not count.

A writer has a number of channels (its parallelism), and each partition is spread over a number of assigners
among them, each with buckets of its own. Where the channels are no multiple of the assigners, two may own the
same buckets. Their keys differ, so nothing is lost, but neither counts what the other adds: such a bucket may
get up to twice the target. The engine does the same.

New keys fill buckets one after the other, so their buckets are *runs*; once no bucket has room and none may
be created, each of the keys that remain goes to a bucket of its own choice.
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
_MOST_PER_SLOT: Final = 0.75
"""Of a HashMap."""


class Strategy(StrEnum):
    """The step that decided; see :mod:`app.bucket_index.assigner`."""

    EXISTING = "existing"
    NON_FULL = "non_full"
    NEW = "new"
    RANDOM = "random"


STRATEGIES: Final = tuple(Strategy)
"""Strategies by the number that stands for each in arrays."""

NUMBERS: Final = {strategy: number for number, strategy in enumerate(STRATEGIES)}
"""The number of each strategy."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where one key goes; for RANDOM with the buckets that it could as well go to, ascending."""

    bucket: int
    strategy: Strategy
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """Where the keys of a batch go.

    Attributes:
        buckets: of each key, int32.
        strategies: of each key, the number of its strategy.
        permitted: by partition, the buckets that its RANDOM keys could choose from, ascending.
    """

    batch: KeyBatch
    buckets: NDArray[np.int32]
    strategies: NDArray[np.uint8]
    permitted: Mapping[bytes, tuple[int, ...]]

    def tolist(self) -> list[Assignment]:
        """One object per key."""
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
    """The assigner, numbered from 0, that decides about each row: Spark repartitions by the sum of the two.

    ``partition_hashes``: row hashes of the partitions, shape (rows,). ``key_hashes``: row hashes of the
    trimmed primary keys, shape (rows,).
    """
    of_partitions = _magnitudes(partition_hashes) % channels
    return (of_partitions + _magnitudes(key_hashes) % assigners) % channels


def owns(assigner: int, bucket: int, assigners: int) -> bool:
    """Whether an assigner may create, and fill, a bucket."""
    return bucket % assigners == assigner % assigners


def _magnitudes(hashes: Hashes) -> NDArray[np.int64]:
    """What remainders are taken of: Java's keep the sign of the hash, and their absolute value counts."""
    return np.abs(hashes.astype(np.int64))


@dataclass(slots=True)
class PartitionBuckets:
    """The buckets of one partition.

    ``room``: buckets with the number of keys that each still takes, in the order in which they are tried.
    ``next_free``: no bucket of this assigner below this number is free.
    """

    options: AssignerOptions
    room: deque[tuple[int, int]]
    used: set[int]
    next_free: int = 0

    @classmethod
    def restore(cls, rows: Mapping[int, int], options: AssignerOptions) -> PartitionBuckets:
        """The buckets of an assigner that starts.

        ``rows``: rows of every bucket of the partition, in the order in which files were read. ``options``:
        of the assigner; buckets of others are left out.
        """
        own = [bucket for bucket in rows if owns(options.assign_id, bucket, options.assigners)]
        # The engine counts rows by a call each: all but the first of a bucket find the bucket in the map.
        own = _in_map_order(own, seen=len(own) if own and rows[own[-1]] > 1 else len(own) - 1)
        room = ((bucket, options.target_rows - rows[bucket]) for bucket in own)
        return cls(options, deque((bucket, keys) for bucket, keys in room if keys > 0), set(own))

    def place(self, draws: NDArray[np.float64], creating: int) -> Placement:
        """Where the next new keys go; changes nothing.

        Args:
            draws: a random number from 0 to below 1 for each key, for those that have a choice.
            creating: how many keys come before buckets are no longer created.

        Returns:
            A placement of fewer keys if there is no bucket for the others.
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
        """Takes the keys in, as :meth:`place` has said last."""
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


def _in_map_order(buckets: Sequence[int], seen: int) -> list[int]:
    """Buckets in the order of a Java HashMap that ``compute`` has put them into: in a slot the latest first.

    ``seen``: the most buckets that a call has found there; it doubles the slots once they are 3/4 taken. Of
    eight and more in a slot, as where assigners own buckets a multiple of 16 apart, Java's order is another.
    """
    slots = _LEAST_SLOTS
    while seen > slots * _MOST_PER_SLOT:
        slots *= 2
    latest_first = buckets[::-1]
    return sorted(latest_first, key=lambda bucket: bucket % slots)


class KeyRun(NamedTuple):
    """Keys that go to one bucket in a row; ``opens``: whether the first of them creates the bucket."""

    bucket: int
    keys: int
    opens: bool


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where some new keys go.

    Attributes:
        runs: the first of them.
        chosen: the buckets of the others, one each.
        permitted: the buckets that ``chosen`` was chosen from, ascending.
    """

    runs: Sequence[KeyRun]
    chosen: NDArray[np.int16]
    permitted: tuple[int, ...]

    def __len__(self) -> int:
        """The number of keys that have a place."""
        return sum(run.keys for run in self.runs) + len(self.chosen)

    def buckets(self) -> NDArray[np.int16]:
        """The bucket of each key."""
        in_runs = np.repeat([run.bucket for run in self.runs], [run.keys for run in self.runs])
        return np.concatenate((in_runs.astype(np.int16), self.chosen))

    def strategies(self) -> NDArray[np.uint8]:
        """The number of each key's strategy."""
        numbers = np.full(len(self), NUMBERS[Strategy.NON_FULL], np.uint8)
        at = 0
        for run in self.runs:
            if run.opens:
                numbers[at] = NUMBERS[Strategy.NEW]
            at += run.keys
        numbers[at:] = NUMBERS[Strategy.RANDOM]
        return numbers

"""The buckets of one partition that one assigner fills: with room, in use, and free to be created.

New keys go through the steps 2 to 4 of :mod:`app.bucket_index.assigner`. A bucket that is found full is
never tried again, even if a compaction empties it, until the partition is loaded anew; keys that were sent
to a bucket at random do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.channels import owns
from app.bucket_index.placement import Placement, Run
from app.java_orders.hash_map import iteration_order
from app.options.dynamic_buckets import AssignerOptions


@dataclass(slots=True)
class PartitionBuckets:
    """The buckets of one partition.

    Attributes:
        options: of the assigner.
        room: buckets with the number of keys that each still takes, in the order in which they are tried.
        used: buckets in use.
        next_free: no bucket of this assigner below this number is free.
    """

    options: AssignerOptions
    room: deque[tuple[int, int]]
    used: set[int]
    next_free: int = 0

    @classmethod
    def restore(cls, rows: Mapping[int, int], options: AssignerOptions) -> PartitionBuckets:
        """The buckets of an assigner that starts.

        Args:
            rows: rows of every bucket of the partition, in the order in which their indexes were read.
            options: of the assigner; buckets of others are left out.
        """
        own = [bucket for bucket in rows if owns(options.assign_id, bucket, options.assigners)]
        numbers = np.array(own, np.int32)
        # The engine counts rows in a map, one call each: all but a bucket's first one find it there.
        order = iteration_order(numbers, numbers, looked_up_last=bool(own) and rows[own[-1]] > 1)
        room = ((bucket, options.target_rows - rows[bucket]) for bucket in numbers[order].tolist())
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

    def _fill(self, keys: int, creating: int) -> Iterator[Run]:
        """Fills the buckets that have room, then new ones."""
        placed = 0
        for bucket, room in self.room:
            if placed == keys:
                return
            yield Run(bucket, min(room, keys - placed), opens=False)
            placed += min(room, keys - placed)
        is_used = bool(self.used)
        for bucket in self.options.own_buckets(self.next_free):
            if placed == keys or (placed >= creating and is_used):
                return
            if bucket not in self.used:
                is_used = True
                yield Run(bucket, min(self.options.capacity, keys - placed), opens=True)
                placed += min(self.options.capacity, keys - placed)

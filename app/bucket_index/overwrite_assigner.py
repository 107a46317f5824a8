"""The assigner of a writer that overwrites: it loads no index, since nothing of it will remain.

Each partition starts with the lowest bucket of the assigner and fills its buckets one after the other. At
the bound, the engine means to choose at random among the buckets in use, but the list that it chooses from
only ever holds the bucket that the partition started with, so that one takes all further keys. An assigner
to which the bound leaves no bucket uses bucket 0, which is not its own.

As in :mod:`app.bucket_index.assigner` the highest bucket handed out is shared by all partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.bucket_index.assigner import UNBOUNDED, Assignment, Strategy
from app.errors import FilterError

if TYPE_CHECKING:
    from app.bucket_index.assigner import AssignerOptions


class SimpleHashBucketAssigner:
    """One overwriting assigner over the partitions that it meets; keeps state, so one thread at a time."""

    def __init__(self, options: AssignerOptions) -> None:
        self._options = options
        self._partitions: dict[bytes, _Partition] = {}
        self._highest = 0

    def assign(self, partition: bytes, key_hash: int) -> Assignment:
        """Assigns one key, which unlike in the other assigner may belong to anybody, and remembers it.

        Args:
            partition: the partition's row without the number of fields.
            key_hash: hash of the trimmed primary key.

        Raises:
            FilterError: no bucket is left for this key.
        """
        state = self._partitions.get(partition)
        if state is None:
            first = next(iter(self._options.own_buckets()), 0)
            state = self._partitions[partition] = _Partition(first, first)
        assignment = state.assign(key_hash, self._options, self._highest)
        self._highest = max(self._highest, assignment.bucket)
        return assignment


@dataclass(slots=True)
class _Partition:
    """What the assigner knows about one partition.

    Attributes:
        first: the bucket that it started with.
        current: the bucket that is being filled.
        rows: rows in the current bucket; stays at the target when buckets are full for good.
        assigned: bucket by key hash.
    """

    first: int
    current: int
    rows: int = 0
    assigned: dict[int, int] = field(default_factory=dict)

    def assign(self, key_hash: int, options: AssignerOptions, highest: int) -> Assignment:
        known = self.assigned.get(key_hash)
        if known is not None:
            return Assignment(known, Strategy.EXISTING)
        strategy = self._advance(options, highest)
        self.assigned[key_hash] = self.current
        permitted = (self.current,) if strategy is Strategy.RANDOM else None
        return Assignment(self.current, strategy, permitted)

    def _advance(self, options: AssignerOptions, highest: int) -> Strategy:
        """Makes ``current`` the bucket of the next new key."""
        if self.rows < options.target_rows:
            self.rows += 1
            return Strategy.NEW if self.rows == 1 else Strategy.NON_FULL
        if highest >= options.highest_allowed and options.max_buckets != UNBOUNDED:
            self.current = self.first
            return Strategy.RANDOM
        following = next(iter(options.own_buckets(self.current + 1)), None)
        if following is not None:
            self.current, self.rows = following, 1
            return Strategy.NEW
        if options.max_buckets == UNBOUNDED:
            raise FilterError(f"no bucket above {self.current} is free: raise dynamic-bucket.target-row-num")
        return Strategy.RANDOM

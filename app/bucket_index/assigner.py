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

import random
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from app.bucket_index.channels import assigner_of, owns
from app.bucket_index.java_hash_map import iteration_order
from app.bucket_index.partition_index import MAX_BUCKET, UNKNOWN, PartitionIndex
from app.errors import FilterError
from app.types.binary_row import row_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNBOUNDED: Final = -1
"""The value of ``dynamic-bucket.max-buckets`` that sets no bound."""

DEFAULT_TARGET_ROWS: Final = 2_000_000

LoadIndex: TypeAlias = "Callable[[bytes], PartitionIndex]"
"""Gives the hash index of a partition, which is named by its row without the number of fields."""

Choose: TypeAlias = "Callable[[Sequence[int]], int]"
"""Picks one of some buckets."""


class Strategy(StrEnum):
    """The step that decided; see the module."""

    EXISTING = "existing"
    NON_FULL = "non_full"
    NEW = "new"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where one key goes.

    Attributes:
        permitted: the buckets that a writer could as well have chosen, ascending; only for RANDOM.
    """

    bucket: int
    strategy: Strategy
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AssignerOptions:
    """What an assigner is told when it starts.

    Attributes:
        channels: parallelism of the writer.
        assigners: assigners per partition.
        assign_id: the number of this one.
        target_rows: ``dynamic-bucket.target-row-num``.
        max_buckets: ``dynamic-bucket.max-buckets``, or :data:`UNBOUNDED`.
    """

    channels: int = 1
    assigners: int = 1
    assign_id: int = 0
    target_rows: int = DEFAULT_TARGET_ROWS
    max_buckets: int = UNBOUNDED

    @property
    def highest_allowed(self) -> int:
        """The highest bucket that may be created."""
        return MAX_BUCKET if self.max_buckets == UNBOUNDED else self.max_buckets - 1

    def own_buckets(self, start: int = 0) -> range:
        """The buckets from ``start`` on that this assigner may create, ascending."""
        first = start + (self.assign_id - start) % self.assigners
        return range(first, self.highest_allowed + 1, self.assigners)


class HashBucketAssigner:
    """One assigner over the partitions that it meets; keeps state, so one thread at a time.

    Args:
        options: its place among the assigners, and the table's options.
        load: gives the hash index of a partition when it is first met.
        choose: decides where the choice is free.
    """

    def __init__(self, options: AssignerOptions, load: LoadIndex, choose: Choose = random.choice) -> None:
        self._options = options
        self._load = load
        self._choose = choose
        self._partitions: dict[bytes, _Partition] = {}
        self._highest = 0

    @property
    def cached_partitions(self) -> tuple[bytes, ...]:
        """The partitions whose index is held in memory."""
        return tuple(self._partitions)

    def assign(self, partition: bytes, key_hash: int) -> Assignment:
        """Assigns one key and remembers it.

        Args:
            partition: the partition's row without the number of fields.
            key_hash: hash of the trimmed primary key.

        Raises:
            FilterError: another assigner decides about this key, or no bucket is left for it.
        """
        options = self._options
        responsible = assigner_of(row_hash(partition), key_hash, options.channels, options.assigners)
        if responsible != options.assign_id:
            raise FilterError(
                f"key hash {key_hash} belongs to assigner {responsible}, not to assigner {options.assign_id}"
            )
        state = self._partitions.get(partition)
        if state is None:
            state = _Partition.restore(self._load(partition), options)
            self._partitions[partition] = state
        assignment = state.assign(key_hash, options, self._highest, self._choose)
        self._highest = max(self._highest, assignment.bucket)
        return assignment

    def prepare_commit(self, identifier: int, latest_committed: Callable[[], int | None]) -> None:
        """Notes a commit, and forgets partitions that have been idle since a commit that succeeded.

        Args:
            identifier: of the commit that is being prepared.
            latest_committed: identifier of the latest snapshot of this writer, None if it has none; asked
                only where it matters, since a writer's first snapshot is expensive to look for.
        """
        has_history = any(state.last_access is not None for state in self._partitions.values())
        committed = latest_committed() if has_history else None
        for partition, state in list(self._partitions.items()):
            if state.accessed:
                state.last_access = identifier
            elif committed is not None and state.last_access is not None and state.last_access <= committed:
                del self._partitions[partition]
            state.accessed = False


@dataclass(slots=True)
class _Partition:
    """What an assigner knows about one partition.

    Attributes:
        index: what was loaded.
        non_full: bucket and rows, in the order in which buckets are tried; full ones until they are met.
        used: buckets of this assigner.
        used_ascending: the same in order, once it is needed.
        assigned: buckets of hashes that the index does not hold.
        next_free: no bucket of this assigner below this number is free.
        accessed: whether a key was assigned since the last commit.
        last_access: identifier of the last commit that the partition took part in.
    """

    index: PartitionIndex
    non_full: deque[tuple[int, int]]
    used: set[int]
    used_ascending: tuple[int, ...] | None = None
    assigned: dict[int, int] = field(default_factory=dict)
    next_free: int = 0
    accessed: bool = False
    last_access: int | None = None

    @classmethod
    def restore(cls, index: PartitionIndex, options: AssignerOptions) -> _Partition:
        own = [bucket for bucket in index.rows if owns(options.assign_id, bucket, options.assigners)]
        return cls(index, deque((bucket, index.rows[bucket]) for bucket in iteration_order(own)), set(own))

    def assign(self, key_hash: int, options: AssignerOptions, highest: int, choose: Choose) -> Assignment:
        self.accessed = True
        known = self.assigned.get(key_hash, UNKNOWN)
        if known == UNKNOWN:
            known = self.index.find(key_hash)
        if known != UNKNOWN:
            return Assignment(known, Strategy.EXISTING)
        assignment = self._fill(options) or self._create(options, highest) or self._choose_used(choose)
        self.assigned[key_hash] = assignment.bucket
        return assignment

    def _fill(self, options: AssignerOptions) -> Assignment | None:
        while self.non_full:
            bucket, rows = self.non_full[0]
            if rows < options.target_rows:
                self.non_full[0] = (bucket, rows + 1)
                return Assignment(bucket, Strategy.NON_FULL)
            self.non_full.popleft()
        return None

    def _create(self, options: AssignerOptions, highest: int) -> Assignment | None:
        if self.used and highest >= options.highest_allowed:
            return None
        for bucket in options.own_buckets(self.next_free):
            if bucket not in self.used:
                self.next_free = bucket + 1
                self.used.add(bucket)
                self.used_ascending = None
                self.non_full.append((bucket, 1))
                return Assignment(bucket, Strategy.NEW)
        if options.max_buckets == UNBOUNDED:
            raise FilterError(
                f"no bucket up to {MAX_BUCKET} is free: raise dynamic-bucket.target-row-num above "
                f"{options.target_rows}"
            )
        return None

    def _choose_used(self, choose: Choose) -> Assignment:
        if not self.used:
            raise FilterError("dynamic-bucket.max-buckets leaves this assigner no bucket")
        if self.used_ascending is None:
            self.used_ascending = tuple(sorted(self.used))
        return Assignment(choose(self.used_ascending), Strategy.RANDOM, self.used_ascending)

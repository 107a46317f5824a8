"""Options of dynamic buckets, and what one assigner is told of them.

====================================  =========  =======================================================
option                                default    meaning
====================================  =========  =======================================================
dynamic-bucket.target-row-num         2000000    keys in a bucket before it counts as full
dynamic-bucket.max-buckets            -1         most buckets of a partition; -1 for no bound
dynamic-bucket.initial-buckets        channels   assigners that each partition is spread over, and so the
                                                 number of buckets that it starts with
dynamic-bucket.assigner-parallelism   writer's   channels, among which partitions find their assigners
====================================  =========  =======================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.options.reading import INT32_MAX, INT64_MAX, OptionReader

UNBOUNDED: Final = -1
"""The value of ``dynamic-bucket.max-buckets`` that sets no bound."""

DEFAULT_TARGET_ROWS: Final = 2_000_000

MAX_BUCKET: Final = 32766
"""The highest bucket that dynamic buckets can reach; the engine keeps them in 16 bits."""


@dataclass(frozen=True, slots=True)
class AssignerOptions:
    """What an assigner is told when it starts."""

    channels: int = 1
    assigners: int = 1
    assign_id: int = 0
    target_rows: int = DEFAULT_TARGET_ROWS
    max_buckets: int = UNBOUNDED

    @property
    def is_bounded(self) -> bool:
        """Whether the table bounds the number of buckets."""
        return self.max_buckets != UNBOUNDED

    @property
    def highest_allowed(self) -> int:
        """The highest bucket that may be created."""
        return min(self.max_buckets - 1, MAX_BUCKET) if self.is_bounded else MAX_BUCKET

    @property
    def capacity(self) -> int:
        """Rows of a new bucket; the key that opens it goes there whatever the target."""
        return max(1, self.target_rows)

    def own_buckets(self, start: int = 0) -> range:
        """The buckets from ``start`` on that this assigner may create, ascending."""
        first = start + (self.assign_id - start) % self.assigners
        return range(first, self.highest_allowed + 1, self.assigners)


@dataclass(frozen=True, slots=True)
class DynamicBucketOptions:
    """What a table's options say about dynamic buckets; ``target_rows`` is at least 1 if they were given."""

    target_rows: int = DEFAULT_TARGET_ROWS
    max_buckets: int = UNBOUNDED
    initial_buckets: int | None = None
    assigner_parallelism: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> DynamicBucketOptions:
        """Reads the options that are given for writing to a table."""
        reader = OptionReader(options, given=True)
        return cls(
            *_for_reading(reader),
            initial_buckets=reader.integer("dynamic-bucket.initial-buckets", most=INT32_MAX),
            assigner_parallelism=reader.integer("dynamic-bucket.assigner-parallelism", most=INT32_MAX),
        )

    @classmethod
    def stored(cls, options: Mapping[str, str]) -> DynamicBucketOptions:
        """What a table's stored options say of its buckets; what only writers need is passed over."""
        return cls(*_for_reading(OptionReader(options, given=False)))

    def assigners(self, parallelism: int) -> tuple[AssignerOptions, ...]:
        """All assigners of a writer, one for each channel: as many as the table says, else ``parallelism``.

        A partition uses as many of them as it has initial buckets; rows find theirs through
        :mod:`app.bucket_index.partition_buckets`.
        """
        channels = parallelism if self.assigner_parallelism is None else self.assigner_parallelism
        assigners = channels if self.initial_buckets is None else min(self.initial_buckets, channels)
        return tuple(
            AssignerOptions(channels, assigners, assign_id, self.target_rows, self.max_buckets)
            for assign_id in range(channels)
        )


def _for_reading(reader: OptionReader) -> tuple[int, int]:
    target_rows = reader.integer("dynamic-bucket.target-row-num", most=INT64_MAX)
    max_buckets = reader.integer("dynamic-bucket.max-buckets", most=INT32_MAX, special=UNBOUNDED)
    return (
        DEFAULT_TARGET_ROWS if target_rows is None else target_rows,
        UNBOUNDED if max_buckets is None else max_buckets,
    )

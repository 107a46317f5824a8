"""Table options that decide how a table is read, and which buckets new keys get.

====================================  ========================  ===========================================
option                                default                   meaning
====================================  ========================  ===========================================
bucket                                -1                        fixed number of buckets; -1 dynamic or none;
                                                                -2 postponed
bucket-key                            primary key               columns that are hashed, comma separated
bucket-function.type                  default                   ``default``, ``mod`` or ``hive``
merge-engine                          deduplicate               how versions of one key become one row
deletion-vectors.enabled              false                     deleted positions are listed, not merged
deletion-vectors.merge-on-read        false                     level 0 is read and merged all the same
num-levels                            one more than the next    levels that files of a key are merged into
num-sorted-run.compaction-trigger     5                         files of a bucket that start a compaction
file-index.read.enabled               true                      whether file indexes may be used
global-index.enabled                  true                      whether global indexes may be used
partition.default-name                __DEFAULT_PARTITION__     directory of null and blank values
partition.legacy-name                 true                      text of values in partition directories
data-file.path-directory              none                      directory that partitions are below
index-file-in-data-file-dir           false                     hash and deletion vector files are in buckets
row-tracking.enabled                  false                     rows have row ids; a file has its first one
data-evolution.enabled                false                     one row may be spread over several files
write-mode                            none                      ``change-log`` or ``append-only``; until 0.5
dynamic-bucket.target-row-num         2000000                   keys in a bucket before it counts as full
dynamic-bucket.max-buckets            -1                        most buckets of a partition; -1 for no bound
dynamic-bucket.initial-buckets        channels                  assigners, and so first buckets, per partition
dynamic-bucket.assigner-parallelism   writer's                  channels that partitions are spread over
====================================  ========================  ===========================================

:attr:`TableOptions.refusal` refuses options under which the engine's batch reads see other rows than those of
the planned version: a plan that ignored one would omit rows of another branch or bucket, or judge rows that a
reader sees changed. ``docs/tables.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from app.errors import UnsupportedFormatError
from app.options.file_indexes import IndexDeclaration, stored_indexes
from app.options.reading import INT32_MAX, INT64_MAX, OptionReader

# Value of `dynamic-bucket.max-buckets` for no limit.
UNBOUNDED: Final = -1

DEFAULT_TARGET_ROWS: Final = 2_000_000

# Highest dynamic bucket: the engine keeps bucket numbers in 16 bits.
MAX_BUCKET: Final = 32766

BUCKET_KEY: Final = "bucket-key"
UNBOUNDED_BUCKETS = -1
POSTPONED_BUCKETS = -2

_COMPACTION_TRIGGER: Final = 5

_OTHER_VERSION: Final = "reads another version, or the changes between two"
_OTHER_BRANCH: Final = "reads partitions of another branch, too"

# Effect of each option on a batch read, unless it has a harmless value.
REFUSED: Final = {
    "scan.mode": _OTHER_VERSION,
    "log.scan": _OTHER_VERSION,
    "scan.snapshot-id": _OTHER_VERSION,
    "scan.tag-name": _OTHER_VERSION,
    "scan.version": _OTHER_VERSION,
    "scan.watermark": _OTHER_VERSION,
    "scan.timestamp": _OTHER_VERSION,
    "scan.timestamp-millis": _OTHER_VERSION,
    "log.scan.timestamp-millis": _OTHER_VERSION,
    "scan.creation-time-millis": _OTHER_VERSION,
    "scan.file-creation-time-millis": _OTHER_VERSION,
    "incremental-between": _OTHER_VERSION,
    "incremental-between-timestamp": _OTHER_VERSION,
    "incremental-to-auto-tag": _OTHER_VERSION,
    "batch-scan-mode": "reads files that a compaction is to read",
    "stream-scan-mode": "reads files as they come",
    "scan.bucket": "reads one bucket",
    "branch": "reads another branch",
    "scan.fallback-branch": _OTHER_BRANCH,
    "scan.primary-branch": _OTHER_BRANCH,
    "chain-table.enabled": "reads rows of two branches together",
    "postpone.merge-on-read": "reads rows that wait for their bucket, too",
    "query-auth.enabled": "hides or masks values by reader",
    "type": "is about files that have no snapshots",
}

# Options that together make it unknown which files merge.
_UNMERGED: Final = ("pk-clustering-override", "deletion-vectors.merge-on-read")
_OFF: Final = frozenset({"", "false"})
_HARMLESS: Final = {
    "scan.mode": frozenset({"default", "latest-full", "full", "latest"}),
    "log.scan": frozenset({"default", "latest-full", "full", "latest"}),
    "batch-scan-mode": frozenset({"none"}),
    "stream-scan-mode": frozenset({"none"}),
    "branch": frozenset({"", "main"}),
    "type": frozenset({"table", "materialized-table"}),
}


@dataclass(frozen=True, slots=True)
class AssignerOptions:
    """Options of one assigner."""

    channels: int = 1
    assigners: int = 1
    assign_id: int = 0
    target_rows: int = DEFAULT_TARGET_ROWS
    max_buckets: int = UNBOUNDED

    @property
    def is_bounded(self) -> bool:
        """True if the table limits the number of buckets."""
        return self.max_buckets != UNBOUNDED

    @property
    def highest_allowed(self) -> int:
        """Highest bucket that may be created."""
        return min(self.max_buckets - 1, MAX_BUCKET) if self.is_bounded else MAX_BUCKET

    @property
    def capacity(self) -> int:
        """Rows of a new bucket: at least the key that opens it."""
        return max(1, self.target_rows)

    def own_buckets(self, start: int = 0) -> range:
        """Return the buckets from ``start`` on that this assigner may create, ascending."""
        first = start + (self.assign_id - start) % self.assigners
        return range(first, self.highest_allowed + 1, self.assigners)


@dataclass(frozen=True, slots=True)
class DynamicBucketOptions:
    """Options of dynamic buckets. Given ``target_rows`` are at least 1."""

    target_rows: int = DEFAULT_TARGET_ROWS
    max_buckets: int = UNBOUNDED
    initial_buckets: int | None = None
    assigner_parallelism: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> DynamicBucketOptions:
        """Parse options that are given for writing to a table."""
        reader = OptionReader(options, given=True)
        return cls(
            *_for_reading(reader),
            initial_buckets=reader.integer("dynamic-bucket.initial-buckets", most=INT32_MAX),
            assigner_parallelism=reader.integer("dynamic-bucket.assigner-parallelism", most=INT32_MAX),
        )

    @classmethod
    def stored(cls, options: Mapping[str, str]) -> DynamicBucketOptions:
        """Parse a table's stored options, without those that only writers need."""
        return cls(*_for_reading(OptionReader(options, given=False)))

    def assigners(self, parallelism: int) -> tuple[AssignerOptions, ...]:
        """Return one assigner per channel. ``parallelism`` is the default number of channels.

        A partition uses as many of them as it has initial buckets; :mod:`app.bucket_index.partition_buckets`
        routes rows.
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


class MergeEngine(StrEnum):
    """Rule that merges versions of a key into one row. Values are those of the option."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


@dataclass(frozen=True)
class TableOptions:
    """Options of one schema, each parsed once.

    Properties raise ``CorruptMetadataError`` for a malformed value.
    """

    values: Mapping[str, str]

    @cached_property
    def bucket(self) -> int:
        """Fixed number of buckets, or -1 or -2."""
        number = self._reader.integer("bucket", most=INT32_MAX)
        return UNBOUNDED_BUCKETS if number is None else number

    @cached_property
    def bucket_key(self) -> tuple[str, ...]:
        """Columns that are hashed, empty if the option is not set."""
        names = (name.strip() for name in self.values.get(BUCKET_KEY, "").split(","))
        return tuple(name for name in names if name)

    @cached_property
    def bucket_function(self) -> str:
        """Bucket function: ``default``, ``mod``, ``hive``, or an unknown value."""
        return self.values.get("bucket-function.type", "default").strip().lower()

    @cached_property
    def merge_engine(self) -> MergeEngine:
        """Merge engine of a primary key table."""
        written = self.values.get("merge-engine", MergeEngine.DEDUPLICATE)
        try:
            return MergeEngine(written.strip().lower())
        except ValueError as error:
            raise UnsupportedFormatError(f"merge engine {written!r} is not supported") from error

    @cached_property
    def deletion_vectors(self) -> bool:
        """True if deletion vectors are enabled."""
        return self._reader.boolean("deletion-vectors.enabled", default=False)

    @cached_property
    def merge_on_read(self) -> bool:
        """True if files of level 0, which await compaction, are read and merged."""
        return self._reader.boolean("deletion-vectors.merge-on-read", default=False)

    @cached_property
    def top_level(self) -> int:
        """Level that a full compaction of a primary key table writes."""
        levels = self._reader.integer("num-levels", most=INT32_MAX)
        if levels is not None:
            return levels - 1
        trigger = self._reader.integer("num-sorted-run.compaction-trigger", most=INT32_MAX)
        return _COMPACTION_TRIGGER if trigger is None else trigger

    @cached_property
    def file_index_read(self) -> bool:
        """True if file indexes may be used."""
        return self._reader.boolean("file-index.read.enabled", default=True)

    @cached_property
    def row_tracking(self) -> bool:
        """True if rows have row ids."""
        return self._reader.boolean("row-tracking.enabled", default=False)

    @cached_property
    def data_evolution(self) -> bool:
        """True if several files may hold columns of one row."""
        return self._reader.boolean("data-evolution.enabled", default=False)

    @cached_property
    def global_index_read(self) -> bool:
        """True if global indexes may be used."""
        return self._reader.boolean("global-index.enabled", default=True)

    @cached_property
    def global_index_ignores_updates(self) -> bool:
        """True if updates of a column leave its global index unchanged."""
        return self.values.get("global-index.column-update-action", "").strip().lower() == "ignore"

    @cached_property
    def global_index_search_mode(self) -> str:
        """Treatment of rows that no global index covers: ``fast`` skips them."""
        mode = self.values.get("scalar-index.search-mode") or self.values.get(
            "global-index.search-mode", "fast"
        )
        return mode.strip().lower()

    @cached_property
    def change_log(self) -> bool:
        """True if releases 0.4 and 0.5 store changes of rows. Later ones always do for tables with a key."""
        return self.values.get("write-mode", "").strip().lower() == "change-log"

    @cached_property
    def default_partition(self) -> str:
        """Directory name of null and blank partition values."""
        return self.values.get("partition.default-name", "__DEFAULT_PARTITION__")

    @cached_property
    def legacy_partition_names(self) -> bool:
        """True if partition directories show Java's internal values instead of SQL text."""
        return self._reader.boolean("partition.legacy-name", default=True)

    @cached_property
    def data_directory(self) -> str | None:
        """Directory below the table that holds partitions and buckets, without outer slashes."""
        return self.values.get("data-file.path-directory", "").strip("/") or None

    @cached_property
    def index_files_beside_data(self) -> bool:
        """True if hash and deletion vector files are in bucket directories."""
        return self._reader.boolean("index-file-in-data-file-dir", default=False)

    @cached_property
    def file_indexes(self) -> tuple[IndexDeclaration, ...]:
        """File indexes that new files get, by column, then kind."""
        return stored_indexes(self.values)

    @cached_property
    def dynamic_buckets(self) -> DynamicBucketOptions:
        """Limits of keys per dynamic bucket, and of buckets."""
        return DynamicBucketOptions.stored(self.values)

    @cached_property
    def refusal(self) -> str | None:
        """Reason why batch reads may see other rows than those of the version. None if they cannot."""
        for name in sorted(REFUSED.keys() & self.values.keys()):
            value = self.values[name]
            if value.strip().lower() not in _HARMLESS.get(name, _OFF):
                return (
                    f"has the option {name}={value:.100}, under which the engine {REFUSED[name]}: unset it, "
                    f"or read the table with the engine"
                )
        written = (self.values.get(name, "") for name in _UNMERGED)
        if all(value.strip().lower() == "true" for value in written):
            return (
                f"has the options {' and '.join(_UNMERGED)}, under which it is unknown which files merge: "
                "unset one of them, or read the table with the engine"
            )
        return None

    @property
    def _reader(self) -> OptionReader:
        return OptionReader(self.values, given=False)

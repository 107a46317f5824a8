"""Dynamic buckets of rows, decided in tasks: known keys keep their bucket, new keys fill buckets.

Each task does the work of the engine's assigners of its channels. It takes rows in their order, so that a
repeated task decides as it did before.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from app.bucket_index import HashBucketAssigner, KeyBatch, PartitionIndex, hash_index
from app.jobs.job_table import Place
from app.jobs.rows.preparing import BUCKET, CHANNEL, HASH, PARTITION, SLOT, values_schema
from app.jobs.rows.target import Target
from app.options import AssignerOptions, DynamicBucketOptions
from app.table import TablePaths
from app.table.manifests import IndexEntry
from app.types.binary_row import ARITY_BYTES
from app.types.index_files import HASH as HASH_INDEX
from app.types.index_files import IndexFileMeta

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class HashFile:
    """A hash index file of a snapshot."""

    bucket: int
    path: str
    meta: IndexFileMeta

    def read(self, place: Place) -> bytes:
        """Read the file."""
        return bytes(place.open().read(self.path))


@dataclass(frozen=True, slots=True)
class BucketAssignment:
    """Assigns buckets to rows, with the hash indexes of each partition by its serialized row."""

    # A class instead of a closure: Spark's workers find it by its name.
    target: Target
    assigners: Sequence[AssignerOptions]
    files: Mapping[bytes, Sequence[HashFile]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take prepared rows, and yield their values, partitions and buckets."""
        assigners: dict[int, HashBucketAssigner] = {}
        for batch in batches:
            channels = np.asarray(batch.column(CHANNEL))
            buckets = np.empty(batch.num_rows, np.int32)
            for channel in np.unique(channels).tolist():
                if channel not in assigners:
                    assigners[channel] = self._assigner(channel)
                places = np.flatnonzero(channels == channel)
                keys = _keys(batch.take(pa.array(places)))
                buckets[places] = assigners[channel].assign_batch(keys).buckets
            names = [name for name in batch.schema.names if name not in (HASH, CHANNEL, SLOT)]
            columns = [batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(buckets)], [*names, BUCKET])

    def _assigner(self, channel: int) -> HashBucketAssigner:
        # A repeated task must draw the numbers of its first attempt.
        seed = [uuid.UUID(self.target.run).int, channel]
        return HashBucketAssigner(self.assigners[channel], self._load, np.random.default_rng(seed))

    def _load(self, partition: bytes) -> PartitionIndex:
        arity = len(self.target.schema.partition_keys).to_bytes(ARITY_BYTES, "big")
        listed = self.files.get(arity + partition, ())
        return PartitionIndex.merge(
            [(file.bucket, hash_index.read_whole(file.read(self.target.place), file.meta)) for file in listed]
        )


def assigned_schema(target: Target) -> StructType:
    """Return the output of :class:`BucketAssignment` in Spark's types."""
    from pyspark.sql import types  # noqa: PLC0415 - an extra

    return types.StructType(
        [
            *values_schema(target),
            types.StructField(PARTITION, types.BinaryType()),
            types.StructField(BUCKET, types.IntegerType()),
        ]
    )


def assigners_for(target: Target, parallelism: int) -> tuple[AssignerOptions, ...]:
    """Return the assigners of a table by channel: as many as the table sets, or ``parallelism``."""
    options = DynamicBucketOptions.parse(target.schema.options.values)
    channels = options.assigner_parallelism or parallelism
    # An assigner without a bucket would have no work.
    if options.max_buckets > 0:
        channels = min(channels, options.max_buckets)
    return DynamicBucketOptions(
        options.target_rows, options.max_buckets, options.initial_buckets, channels
    ).assigners(channels)


def hash_files(paths: TablePaths, entries: Iterable[IndexEntry]) -> dict[bytes, list[HashFile]]:
    """Select hash indexes of index files, by serialized row of the partition."""
    by_partition: dict[bytes, list[HashFile]] = defaultdict(list)
    for entry in entries:
        if entry.file.index_type == HASH_INDEX:
            by_partition[entry.partition].append(HashFile(entry.bucket, paths.index_file(entry), entry.file))
    return dict(by_partition)


def _keys(batch: pa.RecordBatch) -> KeyBatch:
    coded = batch.column(PARTITION).dictionary_encode()
    partitions = [row.as_py()[ARITY_BYTES:] for row in coded.dictionary]
    return KeyBatch.of(partitions, np.asarray(coded.indices), np.asarray(batch.column(HASH)))

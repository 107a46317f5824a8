"""Writes files of new rows, bucket by bucket, from rows that Spark has sorted.

One task writes all of a bucket: its data files, and its hash index if buckets are dynamic. Rows arrive sorted
by partition, bucket, key, sequence field and order, so rows of one key are adjacent. The last of them wins,
or the first one under the merge engine first-row. Sequence numbers continue from those of the bucket's files,
in the order of the new files' rows.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.bucket_index import DynamicBucketIndexMaintainer, key_hashes
from app.errors import CorruptIndexError, RequestError, UnsupportedFormatError
from app.jobs.rows.assigning import HashFile
from app.jobs.rows.data_file import DataFileWriter, Layout
from app.jobs.rows.incoming import KIND
from app.jobs.rows.preparing import BUCKET, PARTITION
from app.jobs.rows.target import Target
from app.storage import Writing
from app.table import BucketMode, TablePaths
from app.table.manifests import DataFileMeta, FileKind, IndexEntry
from app.types.arrow_fields import field_values
from app.types.index_files import HASH, IndexFileMeta

RESULTS: Final = "result binary"
"""Output of writing, in Spark's types: pickled :class:`WrittenBucket`."""
_NAMES_PER_ATTEMPT: Final = 1_000_000
_RESULTS: Final = pa.schema([("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class BucketState:
    """State of a bucket before new rows. The sequence number is -1 if it has no rows."""

    sequence: int = -1
    hash_file: HashFile | None = None


@dataclass(slots=True)
class WrittenBucket:
    """Files written to a bucket of a serialized partition, and the number of hashes added to its index."""

    partition: bytes
    bucket: int
    rows_read: int = 0
    files: list[DataFileMeta] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hash_index: IndexFileMeta | None = None
    keys_added: int = 0


@dataclass(frozen=True, slots=True)
class BucketWriting:
    """Writes the buckets of a task. ``total_buckets``: number of buckets of each partition with files."""

    # A class instead of a closure: Spark's workers find it by its name.
    target: Target
    states: Mapping[tuple[bytes, int], BucketState]
    total_buckets: Mapping[bytes, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take sorted rows, and yield :data:`RESULTS`."""
        from pyspark import TaskContext  # noqa: PLC0415 - an extra

        context = TaskContext.get()
        # Each attempt of a task has its own names, so that no two of them write to one file.
        first = 0 if context is None else context.taskAttemptId() * _NAMES_PER_ATTEMPT
        names = (f"{self.target.run}-{number}" for number in itertools.count(first))
        layout = Layout.of(self.target)
        current: _Bucket | None = None
        for batch in batches:
            for partition, bucket, rows in _by_bucket(batch):
                if current is None or not current.is_of(partition, bucket):
                    if current is not None:
                        yield _result(current.close())
                    current = self._bucket(layout, partition, bucket, names)
                current.add(rows)
        if current is not None:
            yield _result(current.close())

    def _bucket(self, layout: Layout, partition: bytes, bucket: int, names: Iterator[str]) -> _Bucket:
        declared, actual = self.target.schema.options.bucket, self.total_buckets.get(partition)
        if actual not in (None, declared):
            raise UnsupportedFormatError(
                f"a partition of table {self.target.name} has {actual} buckets, but bucket={declared} now: "
                f"overwrite the partition with the engine first"
            )
        state = self.states.get((partition, bucket), BucketState())
        maintainer = None
        if self.target.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
            file = state.hash_file
            maintainer = (
                DynamicBucketIndexMaintainer()
                if file is None
                else DynamicBucketIndexMaintainer.restore(file.meta, file.read(self.target.place))
            )
        return _Bucket(layout, WrittenBucket(partition, bucket), names, state.sequence + 1, maintainer)


@dataclass(slots=True)
class _Bucket:
    layout: Layout
    written: WrittenBucket
    names: Iterator[str]
    sequence: int
    hashes: DynamicBucketIndexMaintainer | None
    _pending: pa.RecordBatch | None = None
    _file: DataFileWriter | None = None

    def is_of(self, partition: bytes, bucket: int) -> bool:
        return (self.written.partition, self.written.bucket) == (partition, bucket)

    def add(self, rows: pa.RecordBatch) -> None:
        self.written.rows_read += rows.num_rows
        target = self.layout.target
        if not self.layout.keys:
            self._write(rows)
            return
        pending, self._pending = self._pending, rows.slice(rows.num_rows - 1)
        joined = rows if pending is None else _joined(pending, rows)
        repeats = self._repeats(joined)
        if target.merges_rows and repeats.any():
            raise RequestError(
                f"several rows have the same key, which the merge engine of table {target.name} would merge: "
                f"merge them first, or write them with the engine"
            )
        if target.keeps_first:
            # The pending row was written when it came.
            is_new = np.append(pending is None, ~repeats)
            self._write(joined.filter(pa.array(is_new)))
        else:
            # The next row decides whether the last one wins, so it stays pending.
            self._write(joined.filter(pa.array(np.append(~repeats, False))))

    def close(self) -> WrittenBucket:
        if self._pending is not None and not self.layout.target.keeps_first:
            self._write(self._pending)
        self._close_file()
        if self.hashes is not None and self.hashes.is_modified:
            self._write_hashes(self.hashes)
        return self.written

    def _repeats(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        is_repeated = np.ones(rows.num_rows - 1, np.bool_)
        for column in self._key_columns(rows):
            is_repeated &= np.asarray(pc.equal(column[:-1], column[1:]))
        return is_repeated

    def _key_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        places = {column.name: at for at, column in enumerate(self.layout.columns)}
        return [rows.column(f"c{places[key.name]}") for key in self.layout.keys]

    def _write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._file is None:
            prefix = self.layout.options.prefix
            path = f"{self._directory()}/{prefix}{next(self.names)}.parquet"
            self._file = DataFileWriter(self.layout, path, self.sequence)
        kinds = rows.column(KIND) if self.layout.target.has_kinds else None
        self._file.write([rows.column(f"c{at}") for at in range(len(self.layout.columns))], kinds)
        self.sequence += rows.num_rows
        if self.hashes is not None:
            fields = [
                field_values(column, key.type)
                for column, key in zip(self._key_columns(rows), self.layout.keys, strict=True)
            ]
            before = len(self.hashes)
            self.hashes.record(key_hashes(fields, rows.num_rows))
            self.written.keys_added += len(self.hashes) - before
        if self._file.is_full:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            meta, paths = self._file.close()
            self.written.files.append(meta)
            self.written.paths += paths
            self._file = None

    def _write_hashes(self, hashes: DynamicBucketIndexMaintainer) -> None:
        target, content = self.layout.target, hashes.content()
        meta = IndexFileMeta(HASH, f"index-{next(self.names)}", len(content), len(hashes))
        entry = IndexEntry(FileKind.ADD, self.written.partition, self.written.bucket, meta)
        path = TablePaths(target.directory, target.schema).index_file(entry)
        if not Writing(target.place.open()).create(path, content):
            raise CorruptIndexError("a file with the name of a new one already exists", path=path)
        self.written.paths.append(path)
        self.written.hash_index = meta

    def _directory(self) -> str:
        target = self.layout.target
        paths = TablePaths(target.directory, target.schema)
        return paths.bucket_directory(self.written.partition, self.written.bucket)


def _by_bucket(batch: pa.RecordBatch) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    partitions, buckets = batch.column(PARTITION), np.asarray(batch.column(BUCKET))
    codes = np.asarray(partitions.dictionary_encode().indices)
    starts = np.flatnonzero((codes[1:] != codes[:-1]) | (buckets[1:] != buckets[:-1])) + 1
    for start, end in itertools.pairwise([0, *starts.tolist(), batch.num_rows]):
        yield partitions[start].as_py(), int(buckets[start]), batch.slice(start, end - start)


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches([first, second]).combine_chunks().to_batches()
    return joined


def _result(written: WrittenBucket) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(written)], pa.binary())], schema=_RESULTS)

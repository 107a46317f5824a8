"""New rows on top of one version: the plan for Spark, and the changes to commit."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.building import Advance
from app.errors import JobError
from app.jobs.rows.assigning import BucketAssignment, assigned_schema, assigners_for, hash_files
from app.jobs.rows.incoming import ORDER
from app.jobs.rows.preparing import BUCKET, CHANNEL, PARTITION, SLOT, Preparation, prepared_schema
from app.jobs.rows.target import Target
from app.jobs.rows.writing import RESULTS, BucketState, BucketWriting, WrittenBucket
from app.jobs.tasks import Lean, Progress, spark_failed
from app.planning import Version
from app.table import BucketMode
from app.table.commits import Changes, CommitKind, Expectations, hash_index_names, highest_sequences
from app.table.manifests import FileKind, IndexEntry, ManifestEntry, live_rows
from app.types.index_files import HASH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_OURS: Final = re.compile(r"app\.errors\.\w+: (.*)")
"""The last line of a Python traceback of one of our exceptions."""


@dataclass(slots=True)
class WriteAttempt:
    """Rows written on top of one version."""

    target: Target
    version: Version
    parallelism: int
    _states: dict[tuple[bytes, int], BucketState] | None = None

    def write(self, spark: SparkSession, rows: DataFrame, advance: Advance) -> list[WrittenBucket]:
        """Write the files of all buckets."""
        label = f"upsert {self.target.name}"
        try:
            with Progress(spark.sparkContext, label, 1, advance, self.target.run):
                collected = self._plan(rows).collect()
        except Exception as error:
            # Spark wraps the worker's traceback into its own text; users need the last line of ours.
            ours = _OURS.findall(str(error))
            raise (JobError(f"{label}: {ours[-1]}") if ours else spark_failed(label, error)) from error
        # The pickles come from our own tasks.
        return [pickle.loads(bytes(row[0])) for row in collected]  # noqa: S301

    def changes(self, written: Sequence[WrittenBucket]) -> Changes:
        """Build the changes to commit."""
        mode = self.target.schema.bucket_mode
        total = self.target.schema.options.bucket if mode is BucketMode.HASH_FIXED else -1
        files = tuple(
            ManifestEntry(FileKind.ADD, bucket.partition, bucket.bucket, total, file)
            for bucket in written
            for file in bucket.files
        )
        replaced = {
            (entry.partition, entry.bucket): entry
            for entry in self._index_entries()
            if entry.file.index_type == HASH
        }
        index_files = []
        for bucket in written:
            if bucket.hash_index is not None:
                old = replaced.get((bucket.partition, bucket.bucket))
                if old is not None:
                    index_files.append(IndexEntry(FileKind.DELETE, bucket.partition, bucket.bucket, old.file))
                index_files.append(
                    IndexEntry(FileKind.ADD, bucket.partition, bucket.bucket, bucket.hash_index)
                )
        return Changes(CommitKind.APPEND, files, tuple(index_files), self._expected(written))

    def _plan(self, rows: DataFrame) -> DataFrame:
        schema, target = self.target.schema, self.target
        mode = schema.bucket_mode
        if mode is BucketMode.HASH_DYNAMIC:
            assigners = assigners_for(target, self.parallelism)
            first = Preparation(target, assigners[0].channels, assigners[0].assigners)
            prepared = rows.mapInArrow(Lean(first), prepared_schema(target))
            # A task does the work of several assigners if the table sets more of them.
            tasks = min(len(assigners), self.parallelism)
            routed = prepared.repartition(tasks, SLOT).sortWithinPartitions(CHANNEL, ORDER)
            files = hash_files(self.version.source.paths, self._index_entries())
            assignment = BucketAssignment(target, assigners, files)
            placed = routed.mapInArrow(Lean(assignment), assigned_schema(target))
        else:
            placed = rows.mapInArrow(Lean(Preparation(target)), prepared_schema(target))
        if mode is not BucketMode.BUCKET_UNAWARE:
            placed = placed.repartition(PARTITION, BUCKET)
        if mode is not BucketMode.BUCKET_UNAWARE or schema.partition_keys:
            placed = placed.sortWithinPartitions(PARTITION, BUCKET, *self._order())
        writing = BucketWriting(target, self.states(), self._total_buckets())
        return placed.mapInArrow(Lean(writing), RESULTS)

    def _order(self) -> list[Column]:
        from pyspark.sql import functions  # noqa: PLC0415 - an extra

        schema, options = self.target.schema, self.target.file_options
        places = {column.name: f"c{at}" for at, column in enumerate(schema.fields)}
        columns = []
        if schema.primary_keys:
            columns = [functions.col(places[key.name]) for key in schema.trimmed_primary_keys]
            for name in options.sequence_fields:
                # The engine takes null for the lowest value in either direction.
                column = functions.col(places[name])
                columns.append(column.desc_nulls_first() if options.descending else column.asc_nulls_first())
        return [*columns, functions.col(ORDER)]

    def states(self) -> dict[tuple[bytes, int], BucketState]:
        """Return the state of each bucket. It is empty without buckets, since files are independent then."""
        if self._states is None:
            self._states = self._read_states()
        return self._states

    def _read_states(self) -> dict[tuple[bytes, int], BucketState]:
        if self.target.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return {}
        sequences = highest_sequences(self.version.manifests())
        hashes = {
            (partition, file.bucket): file
            for partition, files in hash_files(self.version.source.paths, self._index_entries()).items()
            for file in files
        }
        return {
            key: BucketState(sequences.get(key, -1), hashes.get(key))
            for key in sequences.keys() | hashes.keys()
        }

    def _total_buckets(self) -> dict[bytes, int]:
        if self.target.schema.bucket_mode is not BucketMode.HASH_FIXED:
            return {}
        manifests = self.version.manifests()
        return {
            manifest.partitions[code]: total
            for manifest, live in zip(manifests, live_rows(manifests), strict=True)
            for code, total in set(
                zip(
                    manifest.partition_codes[live].tolist(),
                    manifest.total_buckets[live].tolist(),
                    strict=True,
                )
            )
        }

    def _expected(self, written: Iterable[WrittenBucket]) -> Expectations:
        mode, states = self.target.schema.bucket_mode, self.states()
        if mode is BucketMode.BUCKET_UNAWARE:
            return Expectations()
        keys = {(bucket.partition, bucket.bucket) for bucket in written}
        names = hash_index_names(self._index_entries())
        return Expectations(
            {key: states.get(key, BucketState()).sequence for key in keys},
            {partition: names.get(partition, frozenset()) for partition, _ in keys}
            if mode is BucketMode.HASH_DYNAMIC
            else {},
        )

    def _index_entries(self) -> tuple[IndexEntry, ...]:
        return self.version.table.metadata.index_entries(self.version.resolved)

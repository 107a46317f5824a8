"""``upsert``: rows written to a table, one for each key where it has a primary key.

Tasks check the rows and hash their keys. Where keys have dynamic buckets, rows are shuffled to the assigners
that decide about them, which know the partition's hash indexes: a key that is there keeps its bucket. Then
rows are shuffled by bucket and sorted, and each bucket's task writes data files of level 0 and the bucket's
hash index. The driver commits all of it (``APPEND``).

Where another commit has added rows to one of these buckets meanwhile, or keys to one of these partitions,
all of it is done again on top of that.
"""

from __future__ import annotations

import logging
import pickle
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.building.columns import ignore_progress
from app.errors import CommitConflictError, JobError, PaimonIndexError
from app.jobs.cleaning import WrittenFiles
from app.jobs.rows.assigning import BucketAssignment, assigned_schema, assigners_for, hash_files
from app.jobs.rows.incoming import ORDER, fitted, read_rows
from app.jobs.rows.preparing import BUCKET, CHANNEL, PARTITION, SLOT, Preparation, prepared_schema
from app.jobs.rows.target import Target
from app.jobs.rows.writing import RESULTS, BucketState, BucketWriting
from app.jobs.tasks import Progress, spark_failed
from app.storage import Maintenance
from app.table.commits import Changes, CommitKind, Expectations
from app.table.commits.expectations import hash_index_names, highest_sequences
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.table.schema.schema import BucketMode
from app.types.index_files import HASH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from app.building.columns import Advance
    from app.jobs.job_table import JobTable
    from app.jobs.rows.writing import WrittenBucket
    from app.planning.version.version import Version

_log = logging.getLogger("paimon_index.jobs")

_ATTEMPTS: Final = 5
_OURS: Final = re.compile(r"app\.errors\.\w+: (.*)")
"""How Python tells one of our exceptions at the end of a stack."""


@dataclass(frozen=True, slots=True)
class UpsertReport:
    """What a job did.

    Attributes:
        snapshot_id: the new snapshot; None if there were no rows.
        rows_read: rows that came.
        rows_written: of these, rows that are in the new files: one for each key.
        keys_added: of these, rows of keys with a new hash; None where buckets are not dynamic.
        buckets: that rows were written to.
        buckets_added: of these, buckets that had neither files nor keys.
        files: new data files.
        data_bytes: of these.
        index_bytes: of new hash indexes.
        waits_for_compaction: whether batch reads see the rows only after a compaction.
    """

    snapshot_id: int | None
    rows_read: int
    rows_written: int
    keys_added: int | None
    buckets: int
    buckets_added: int
    files: int
    data_bytes: int
    index_bytes: int
    waits_for_compaction: bool


def upsert(
    spark: SparkSession,
    table: JobTable,
    rows: DataFrame,
    *,
    row_kind_column: str | None = None,
    parallelism: int | None = None,
    advance: Advance = ignore_progress,
) -> UpsertReport:
    """Writes rows to a table.

    Args:
        spark: the session.
        table: the table.
        rows: with all columns of the table, in any order. Of rows with one key the last one wins, unless
            the table has a sequence field; the order is that of Spark's partitions and of the rows in them.
        row_kind_column: a further column, which tells by ``+I``, ``+U``, ``-U`` or ``-D`` what becomes of a
            row: the last two delete their key.
        parallelism: channels of assigners of dynamic buckets, unless the table says; by default as many as
            the engine has in Spark, the larger one of ``spark.default.parallelism`` and
            ``spark.sql.shuffle.partitions``.
        advance: told of tasks.

    Raises:
        UnsupportedFormatError: such a table is not written here.
        RequestError: the rows' columns do not fit the table.
        CommitConflictError: other commits came in between again and again.
        JobError: a value does not fit, or Spark gave up. In every case the table is as it was.
        PaimonIndexError: the table cannot be read.
    """
    version = table.latest()
    fitted(rows, Target.of(table, version, has_kinds=row_kind_column is not None), row_kind_column)
    committer = table.committer()
    for attempt in range(1, _ATTEMPTS + 1):
        version = table.latest()
        target = Target.of(table, version, has_kinds=row_kind_column is not None)
        job = _Upsert(target, version, parallelism or _parallelism(spark))
        try:
            with WrittenFiles(table.writing, _FilesOfRun(target)) as cleaned:
                written = job.write(spark, fitted(rows, target, row_kind_column), advance)
                cleaned.paths = [path for each in written for path in each.paths]
                changes = job.changes(written)
                cleaned.are_committed = True
                snapshot_id = committer.commit(changes) if changes.files else None
        except CommitConflictError as error:
            if attempt == _ATTEMPTS:
                raise
            _log.info("upsert into %s: once more, since %s", table.name, error)
            continue
        return job.report(snapshot_id, written)
    raise AssertionError("the last attempt raises")


def rows_from_files(
    spark: SparkSession,
    table: JobTable,
    paths: Sequence[str],
    *,
    data_format: str = "parquet",
    options: Mapping[str, str] | None = None,
    row_kind_column: str | None = None,
) -> DataFrame:
    """Rows for :func:`upsert` from files.

    Args:
        spark: the session.
        table: the table.
        paths: as Spark takes them.
        data_format: as Spark calls it. Of formats without types, such as ``csv`` and ``json``, columns are
            read in the table's types; a value that has not its type is an error.
        options: of Spark's reader, such as ``header``.
        row_kind_column: as of :func:`upsert`.

    Raises:
        UnsupportedFormatError: such a table is not written here.
        RequestError: Spark does not read the files.
    """
    target = Target.of(table, table.latest(), has_kinds=row_kind_column is not None)
    return read_rows(
        spark, target, paths, data_format=data_format, options=options, kind_column=row_kind_column
    )


def _parallelism(spark: SparkSession) -> int:
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(int(spark.sparkContext.defaultParallelism), partitions)


@dataclass(frozen=True, slots=True)
class _FilesOfRun:
    """Paths of what tasks have written, looked for where it is needed: when they failed."""

    target: Target

    def __iter__(self) -> Iterator[str]:
        target = self.target
        try:
            found = Maintenance(target.place.open()).walk(target.directory)
        except PaimonIndexError as error:
            _log.warning("files named %s may stay, which nothing refers to: %s", target.run, error)
            return
        yield from (path for path in found if target.run in path)


@dataclass(slots=True)
class _Upsert:
    """One attempt, on top of one version.

    Attributes:
        target: the table.
        version: the version.
        parallelism: channels of assigners, unless the table says.
    """

    target: Target
    version: Version
    parallelism: int
    _known_states: dict[tuple[bytes, int], BucketState] | None = None

    def write(self, spark: SparkSession, rows: DataFrame, advance: Advance) -> list[WrittenBucket]:
        """Writes the files of all buckets.

        Raises:
            JobError: a value does not fit, or Spark gave up.
        """
        what = f"upsert {self.target.name}"
        try:
            with Progress(spark.sparkContext, what, 1, advance):
                collected = self._plan(rows).collect()
        except Exception as error:
            ours = _OURS.findall(str(error))
            raise (JobError(f"{what}: {ours[-1]}") if ours else spark_failed(what, error)) from error
        # They come from our own tasks.
        return [pickle.loads(bytes(row[0])) for row in collected]  # noqa: S301

    def changes(self, written: Sequence[WrittenBucket]) -> Changes:
        """What the files change."""
        mode = self.target.schema.bucket_mode
        total = self.target.schema.options.bucket if mode is BucketMode.HASH_FIXED else -1
        files = tuple(
            ManifestEntry(FileKind.ADD, each.partition, each.bucket, total, file)
            for each in written
            for file in each.files
        )
        replaced = {
            (entry.partition, entry.bucket): entry
            for entry in self._index_entries()
            if entry.file.index_type == HASH
        }
        index_files = []
        for each in written:
            if each.hash_index is not None:
                old = replaced.get((each.partition, each.bucket))
                if old is not None:
                    index_files.append(IndexEntry(FileKind.DELETE, each.partition, each.bucket, old.file))
                index_files.append(IndexEntry(FileKind.ADD, each.partition, each.bucket, each.hash_index))
        return Changes(CommitKind.APPEND, files, tuple(index_files), self._expected(written))

    def report(self, snapshot_id: int | None, written: Sequence[WrittenBucket]) -> UpsertReport:
        """What came of it."""
        there = self._states()
        files = [file for each in written for file in each.files]
        dynamic = self.target.schema.bucket_mode is BucketMode.HASH_DYNAMIC
        return UpsertReport(
            snapshot_id,
            rows_read=sum(each.rows_read for each in written),
            rows_written=sum(file.row_count for file in files),
            keys_added=sum(each.keys_added for each in written) if dynamic else None,
            buckets=len({(each.partition, each.bucket) for each in written}),
            buckets_added=len({(each.partition, each.bucket) for each in written} - there.keys()),
            files=len(files),
            data_bytes=sum(file.file_size for file in files),
            index_bytes=sum(each.hash_index.file_size for each in written if each.hash_index is not None),
            waits_for_compaction=self.target.waits_for_compaction,
        )

    def _plan(self, rows: DataFrame) -> DataFrame:
        schema, target = self.target.schema, self.target
        mode = schema.bucket_mode
        if mode is BucketMode.HASH_DYNAMIC:
            assigners = assigners_for(target, self.parallelism)
            first = Preparation(target, assigners[0].channels, assigners[0].assigners)
            prepared = rows.mapInArrow(first, prepared_schema(target))
            routed = prepared.repartition(len(assigners), SLOT).sortWithinPartitions(CHANNEL, ORDER)
            files = hash_files(self.version.source.paths, self._index_entries())
            placed = routed.mapInArrow(BucketAssignment(target, assigners, files), assigned_schema(target))
        else:
            placed = rows.mapInArrow(Preparation(target), prepared_schema(target))
        if mode is not BucketMode.BUCKET_UNAWARE:
            placed = placed.repartition(PARTITION, BUCKET)
        if mode is not BucketMode.BUCKET_UNAWARE or schema.partition_keys:
            placed = placed.sortWithinPartitions(PARTITION, BUCKET, *self._order())
        return placed.mapInArrow(BucketWriting(target, self._states(), self._total_buckets()), RESULTS)

    def _order(self) -> list[Column]:
        """Of the rows in a bucket."""
        from pyspark.sql import functions  # noqa: PLC0415 - comes with the extra jobs

        schema, options = self.target.schema, self.target.file_options
        places = {column.name: f"c{at}" for at, column in enumerate(schema.fields)}
        columns = []
        if schema.primary_keys:
            columns = [functions.col(places[key.name]) for key in schema.trimmed_primary_keys]
            for name in options.sequence_fields:
                # The engine takes null for the lowest either way.
                column = functions.col(places[name])
                columns.append(column.desc_nulls_first() if options.descending else column.asc_nulls_first())
        return [*columns, functions.col(ORDER)]

    def _states(self) -> dict[tuple[bytes, int], BucketState]:
        """What is in each bucket; in tables without buckets every file is on its own."""
        if self._known_states is None:
            self._known_states = self._read_states()
        return self._known_states

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
        """How many buckets each partition has, where that is fixed."""
        if self.target.schema.bucket_mode is not BucketMode.HASH_FIXED:
            return {}
        manifests = self.version.manifests()
        return {
            manifest.partitions[code]: total
            for manifest, some in zip(manifests, live_rows(manifests), strict=True)
            for code, total in set(
                zip(
                    manifest.partition_codes[some].tolist(),
                    manifest.total_buckets[some].tolist(),
                    strict=True,
                )
            )
        }

    def _expected(self, written: Iterable[WrittenBucket]) -> Expectations:
        mode, states = self.target.schema.bucket_mode, self._states()
        if mode is BucketMode.BUCKET_UNAWARE:
            return Expectations()
        keys = {(each.partition, each.bucket) for each in written}
        names = hash_index_names(self._index_entries())
        return Expectations(
            {key: states.get(key, BucketState()).sequence for key in keys},
            {partition: names.get(partition, frozenset()) for partition, _ in keys}
            if mode is BucketMode.HASH_DYNAMIC
            else {},
        )

    def _index_entries(self) -> tuple[IndexEntry, ...]:
        return self.version.table.index_entries(self.version.resolved)

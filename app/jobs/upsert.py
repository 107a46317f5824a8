"""``upsert``: rows written to a table, one for each key if it has a primary key.

Tasks check the rows and hash their keys. For dynamic buckets, rows are shuffled to assigners, which read the
partition's hash indexes so that an existing key keeps its bucket. Then rows are shuffled by bucket and
sorted, and each bucket's task writes data files of level 0 and the bucket's hash index. The driver commits
them (``APPEND``).

If another commit adds rows to one of these buckets first, or keys to one of these partitions, the whole job
starts again from that commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from app.building import Advance, ignore_progress
from app.jobs.job_table import JobTable
from app.jobs.rows.attempt import WriteAttempt
from app.jobs.rows.incoming import fitted, read_rows
from app.jobs.rows.target import Target
from app.jobs.rows.writing import WrittenBucket
from app.jobs.run import RETRYING, FilesOfRun, JobRun, WrittenFiles, remove
from app.table import BucketMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("paimon_index.jobs")
_BYTES_OF_ASSIGNER: Final = 1 << 20
_NO_STATISTICS: Final = 1 << 62
"""Least estimate without statistics: Spark then estimates the largest number that it has."""


@dataclass(frozen=True, slots=True)
class UpsertReport:
    """Result of a job.

    ``rows_written``: rows in the new files, one for each key. ``keys_added``: rows written for keys with a
    new hash. None unless buckets are dynamic. ``waits_for_compaction``: batch reads see the rows only after a
    compaction.
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
    """Write rows to a table.

    ``rows``: all columns of the table, in any order. The last row of a key wins, in the order of Spark's
    partitions and of the rows in them, unless the table has a sequence field. ``row_kind_column``: an extra
    column with ``+I``, ``+U``, ``-U`` or ``-D``. The last two delete the key. ``parallelism``: channels of
    assigners of dynamic buckets, unless the table sets them. Default: one for each MiB of rows, as Spark
    estimates them. With a local master there is at most one for each core. Elsewhere the engine's limit
    holds: the larger of ``spark.default.parallelism`` and ``spark.sql.shuffle.partitions``.
    """
    version = table.latest()
    fitted(rows, Target.of(table, version, has_kinds=row_kind_column is not None), row_kind_column)
    committer = table.committer()

    def attempt() -> UpsertReport:
        version = table.latest()
        target = Target.of(table, version, has_kinds=row_kind_column is not None)
        writing = WriteAttempt(target, version, parallelism or _parallelism(spark, table.name, rows))
        run = JobRun(spark.sparkContext, target.run)
        files = FilesOfRun(run, partial(table.writing.files_below, target.directory))
        with WrittenFiles(table.writing, files) as cleaned:
            written = writing.write(spark, fitted(rows, target, row_kind_column), advance)
            paths = [path for bucket in written for path in bucket.paths]
            is_complete = run.settle()
            if is_complete:
                cleaned.paths = paths
            changes = writing.changes(written)
            cleaned.is_committing = True
            snapshot_id = committer.commit(changes) if changes.files else None
        if not is_complete:
            remove(table.writing, replace(files, named={path.rpartition("/")[2] for path in paths}))
        return _report(writing, snapshot_id, written)

    return RETRYING(attempt)


def rows_from_files(
    spark: SparkSession,
    table: JobTable,
    paths: Sequence[str],
    *,
    data_format: str = "parquet",
    options: Mapping[str, str] | None = None,
    row_kind_column: str | None = None,
) -> DataFrame:
    """Read files into rows for :func:`upsert`.

    ``data_format``: Spark's name of the format. Columns of formats without types, such as ``csv`` and
    ``json``, are read in the table's types. A value of another type is an error.
    """
    target = Target.of(table, table.latest(), has_kinds=row_kind_column is not None)
    return read_rows(
        spark, target, paths, data_format=data_format, options=options, kind_column=row_kind_column
    )


def _parallelism(spark: SparkSession, name: str, rows: DataFrame) -> int:
    context = spark.sparkContext
    most = cores = int(context.defaultParallelism)
    if not context.master.startswith("local"):
        most = max(cores, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    statistics = rows._jdf.queryExecution().optimizedPlan().stats()  # noqa: SLF001 - no other door
    # A number, or an object of the virtual machine that prints one.
    size_bytes = int(str(statistics.sizeInBytes()))
    assigners = max(1, min(most, size_bytes // _BYTES_OF_ASSIGNER))
    size = f"{size_bytes:,}" if size_bytes < _NO_STATISTICS else "unknown"
    _log.info("upsert %s: files %s, bytes %s, assigners %s", name, len(rows.inputFiles()), size, assigners)
    return assigners


def _report(writing: WriteAttempt, snapshot_id: int | None, written: Sequence[WrittenBucket]) -> UpsertReport:
    states, target = writing.states(), writing.target
    files = [file for bucket in written for file in bucket.files]
    buckets = {(bucket.partition, bucket.bucket) for bucket in written}
    dynamic = target.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    return UpsertReport(
        snapshot_id,
        rows_read=sum(bucket.rows_read for bucket in written),
        rows_written=sum(file.row_count for file in files),
        keys_added=sum(bucket.keys_added for bucket in written) if dynamic else None,
        buckets=len(buckets),
        buckets_added=len(buckets - states.keys()),
        files=len(files),
        data_bytes=sum(file.file_size for file in files),
        index_bytes=sum(bucket.hash_index.file_size for bucket in written if bucket.hash_index is not None),
        waits_for_compaction=target.waits_for_compaction,
    )

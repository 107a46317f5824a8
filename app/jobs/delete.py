"""``delete``: rows of an append table that meet a condition, deleted by deletion vectors.

The planner finds the files that can have such rows. Tasks read these files in the columns of the table, and
Spark evaluates the condition as it would in a query of this session. Tasks then put the positions of matching
rows into one bitmap for each file. The driver merges the bitmaps into the vectors of their buckets and
commits (``OVERWRITE``).

If another commit changes one of these files or vectors first, the whole job starts again from that commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from app.building import Advance, ignore_progress
from app.deletion_vectors import (
    VectorChange,
    VectorFile,
    delete_in_bucket,
    delete_without_buckets,
    files_to_read,
    read_vectors,
)
from app.errors import CommitConflictError, UnsupportedFormatError
from app.jobs.job_table import JobTable
from app.jobs.matching_rows import matching_rows, read_condition
from app.jobs.run import RETRYING, WrittenFiles
from app.options import VectorOptions
from app.planning import Version
from app.planning.request import PlanRequest, SelectionForm
from app.table import BucketMode
from app.table.commits import Changes, CommitKind
from app.table.manifests import FileKind, IndexEntry
from app.types.index_files import DELETION_VECTORS, index_file_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """Result of a job. ``rows_deleted`` excludes matching rows that were deleted before."""

    snapshot_id: int | None
    files_total: int
    files_read: int
    files_changed: int
    rows_matched: int
    rows_deleted: int
    index_bytes: int


def delete(
    spark: SparkSession, table: JobTable, where: str, *, advance: Advance = ignore_progress
) -> DeleteReport:
    """Delete the rows that meet a condition, under the time zone and settings of the session."""
    committer = table.committer()

    def attempt() -> DeleteReport:
        version = table.latest()
        check_deletable(table.name, version)
        deletion = _Deletion.find(spark, table, version, where, advance)
        with WrittenFiles(table.writing, deletion.written) as written:
            changes = deletion.changes(table)
            written.is_committing = True
            snapshot_id = committer.commit(changes) if changes.index_files else None
        return deletion.report(snapshot_id)

    return RETRYING(attempt)


def check_deletable(name: str, version: Version) -> None:
    """Raise UnsupportedFormatError unless vectors can delete rows of the table."""
    schema = version.schema
    if schema.primary_keys:
        raise UnsupportedFormatError(
            f"table {name} has a primary key: its rows are deleted by writing deletions of keys, with the "
            f"engine"
        )
    if not schema.options.deletion_vectors:
        raise UnsupportedFormatError(
            f"table {name} has no deletion vectors: set deletion-vectors.enabled, or delete with the engine, "
            f"which rewrites its files"
        )
    if schema.options.data_evolution:
        raise UnsupportedFormatError(f"table {name} has data evolution: delete its rows with the engine")


@dataclass(slots=True)
class _Deletion:
    version: Version
    files_read: int
    rows: dict[int, BitMap64]
    written: list[str]
    rows_deleted: int = 0
    index_bytes: int = 0

    @classmethod
    def find(
        cls, spark: SparkSession, table: JobTable, version: Version, where: str, advance: Advance
    ) -> _Deletion:
        condition = read_condition(spark, table, version, where)
        request = PlanRequest(filter=condition.predicate, selection=SelectionForm.NONE)
        plan = table.service.plan(version, request)
        planned = {(file.file_name, file.path) for file in plan.files}
        paths = version.source.data
        entries = version.files().entries(version.files().all())
        files = {
            number: entry
            for number, entry in enumerate(entries)
            if (entry.file.file_name, paths.data_file(entry)) in planned
        }
        rows = matching_rows(spark, table, version, files, where, condition.names, advance)
        return cls(version, len(files), rows, [])

    def changes(self, table: JobTable) -> Changes:
        by_bucket: dict[tuple[bytes, int], dict[str, BitMap64]] = defaultdict(dict)
        for number, positions in self.rows.items():
            entry = self.version.files().entry(number)
            by_bucket[entry.partition, entry.bucket][entry.file.file_name] = positions
        names = index_file_names()
        index_files: list[IndexEntry] = []
        for (partition, bucket), deletions in by_bucket.items():
            change = self._change(table, partition, bucket, deletions, names)
            index_files += [IndexEntry(FileKind.DELETE, partition, bucket, meta) for meta in change.removed]
            for file in change.added:
                new = IndexEntry(FileKind.ADD, partition, bucket, file.meta)
                path = self.version.source.paths.index_file(new)
                self.written.append(path)
                if not table.writing.create(path, file.content):
                    raise CommitConflictError(f"{path} is there already")
                index_files.append(new)
                self.index_bytes += len(file.content)
        return Changes(CommitKind.OVERWRITE, (), tuple(index_files))

    def report(self, snapshot_id: int | None) -> DeleteReport:
        return DeleteReport(
            snapshot_id,
            files_total=len(self.version.files()),
            files_read=self.files_read,
            files_changed=len(self.rows) if snapshot_id is not None else 0,
            rows_matched=sum(map(len, self.rows.values())),
            rows_deleted=self.rows_deleted,
            index_bytes=self.index_bytes,
        )

    def _change(
        self,
        table: JobTable,
        partition: bytes,
        bucket: int,
        deletions: Mapping[str, BitMap64],
        names: Iterator[str],
    ) -> VectorChange:
        schema, paths, warehouse = self.version.schema, self.version.source.paths, table.place.open()
        options = VectorOptions.parse(schema.options.values)
        previous = [
            entry
            for entry in self.version.table.metadata.index_entries(self.version.resolved)
            if entry.file.index_type == DELETION_VECTORS
            and (entry.partition, entry.bucket) == (partition, bucket)
        ]
        metas = [entry.file for entry in previous]
        if schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            needed = {meta.file_name for meta in files_to_read(metas, deletions)}
            contents = {
                entry.file.file_name: warehouse.read(paths.index_file(entry))
                for entry in previous
                if entry.file.file_name in needed
            }
            change = delete_without_buckets(metas, contents, deletions, names, options)
        else:
            contents = {
                meta.file_name: warehouse.read(paths.index_file(entry))
                for entry, meta in zip(previous, metas, strict=True)
            }
            old = VectorFile(metas[0], contents[metas[0].file_name]) if metas else None
            change = delete_in_bucket(old, deletions, next(names), options)
        removed = [VectorFile(meta, contents[meta.file_name]) for meta in change.removed]
        self.rows_deleted += sum(map(_deleted_rows, change.added)) - sum(map(_deleted_rows, removed))
        return change


def _deleted_rows(file: VectorFile) -> int:
    # Metadata of old releases has no counts.
    vectors = read_vectors(file.content, [(place.offset, place.length) for place in file.meta.ranges])
    return sum(vector.cardinality for vector in vectors)

"""Paths of the files of a table as the engine names them: new data files, and index files.

::

    <table>/[<data-file.path-directory>/][<partition>/]bucket-<n>/<data file>, <its extra files>
    <table>/index/<index file>, or next to the data under index-file-in-data-file-dir

:mod:`app.table.data_paths` finds existing data files, which other writers may have placed elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.table.manifests.index_manifest import IndexEntry
from app.table.schema.partition import partition_path
from app.table.schema.schema import TableSchema

POSTPONED_BUCKET = -2


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths relative to the warehouse, or URIs of external files.

    Methods raise :class:`CorruptMetadataError` if an entry's partition row does not fit ``schema``, the
    schema of the plan: its partition columns and options name directories.
    """

    directory: str
    schema: TableSchema

    @property
    def root(self) -> str:
        """The directory of partitions."""
        return "/".join(filter(None, (self.directory, self.schema.options.data_directory)))

    def partition_directory(self, partition: bytes) -> str:
        """Return the directory of a partition's new files."""
        return "/".join(filter(None, (self.root, partition_path(partition, self.schema))))

    def bucket_directory(self, partition: bytes, bucket: int) -> str:
        """Return the directory of a bucket's new files, without a slash at the end."""
        return bucket_below(self.partition_directory(partition), bucket)

    def index_file(self, entry: IndexEntry) -> str:
        """Return the path of a hash index or deletion vector file."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        if self.schema.options.index_files_beside_data:
            return f"{self.bucket_directory(entry.partition, entry.bucket)}/{entry.file.file_name}"
        return self.global_index_file(entry)

    def global_index_file(self, entry: IndexEntry) -> str:
        """Return the path of a global index file, which is never next to the data."""
        return entry.file.external_path or f"{self.directory}/index/{entry.file.file_name}"

    def any_index_file(self, entry: IndexEntry) -> str:
        """Return the path of a file of any index."""
        is_global = entry.file.global_index is not None
        return self.global_index_file(entry) if is_global else self.index_file(entry)


def bucket_below(directory: str, bucket: int) -> str:
    """Return the directory of a bucket."""
    return f"{directory}/bucket-{'postpone' if bucket == POSTPONED_BUCKET else bucket}"

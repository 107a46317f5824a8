"""Where the files of a table lie.

::

    <table>/[<data-file.path-directory>/][<partition>/]bucket-<n>/<data file>, <its extra files>
    <table>/index/<index file>, or beside the data under index-file-in-data-file-dir

A file with an external path lies exactly there, and its extra files beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import ManifestEntry
from app.table.schema.partition import partition_path
from app.table.schema.schema import TableSchema

POSTPONED_BUCKET = -2


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths relative to the warehouse, or URIs of external files.

    Every method that takes an entry raises :class:`CorruptMetadataError` if its partition row does not fit
    the schema.

    Attributes:
        directory: the table's, without a slash at the end.
        schema: whose partition columns and options name directories: the one the plan is made with.
    """

    directory: str
    schema: TableSchema

    def bucket_directory(self, partition: bytes, bucket: int) -> str:
        """The directory of a bucket, without a slash at the end."""
        name = "bucket-postpone" if bucket == POSTPONED_BUCKET else f"bucket-{bucket}"
        parts = (
            self.directory,
            self.schema.options.data_directory,
            partition_path(partition, self.schema),
            name,
        )
        return "/".join(part for part in parts if part)

    def data_file(self, entry: ManifestEntry) -> str:
        """The data file."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        return f"{self.bucket_directory(entry.partition, entry.bucket)}/{entry.file.file_name}"

    def index_file(self, entry: IndexEntry) -> str:
        """A hash index or deletion vector file."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        if self.schema.options.index_files_beside_data:
            return f"{self.bucket_directory(entry.partition, entry.bucket)}/{entry.file.file_name}"
        return f"{self.directory}/index/{entry.file.file_name}"

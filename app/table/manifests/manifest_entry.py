"""One data file as a manifest describes it: a row of :mod:`app.table.manifests.manifest` as an object."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from app.table.manifests.row_statistics import RowStatistics

FILE_INDEX_SUFFIX: Final = ".index"
"""How the name of the extra file ends that holds the file index."""


class FileKind(IntEnum):
    """What a commit did with a file; the values are those of ``_KIND``."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """What wrote a file; the values are those of ``_FILE_SOURCE``."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """A data file as its manifest describes it; attributes are named after the fields of a manifest.

    Rows of keys and statistics stay bytes until somebody asks (:mod:`app.table.statistics.statistics`).
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_statistics: RowStatistics
    value_statistics: RowStatistics
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_millis: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = field(default=None, repr=False)
    file_source: FileSource | None = None
    value_statistics_columns: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file that was added or removed.

    Attributes:
        kind: which of both.
        partition: serialized row of the partition columns; one object per partition and manifest.
        bucket: number of the bucket, -2 while its rows wait for one.
        total_buckets: of the partition at that time, -1 without buckets.
        file: the file.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    def without_index(self) -> ManifestEntry:
        """The same file without its file index, wherever that is."""
        others = tuple(name for name in self.file.extra_files if not name.endswith(FILE_INDEX_SUFFIX))
        return replace(self, file=replace(self.file, embedded_index=None, extra_files=others))

"""Manifests: Avro files with one record per data file that a commit added or removed.

A record is ``_VERSION int`` (2), ``_KIND int`` (0 ADD, 1 DELETE), ``_PARTITION bytes`` (a serialized row),
``_BUCKET int``, ``_TOTAL_BUCKETS int`` (of the partition at that time; -1 without buckets) and ``_FILE``:

===========================================  =======================================================
field                                        meaning
===========================================  =======================================================
_FILE_NAME string, _FILE_SIZE long           inside of its bucket directory
_ROW_COUNT long                              rows, deleted ones included
_MIN_KEY, _MAX_KEY bytes                     serialized rows of the trimmed primary key
_KEY_STATS, _VALUE_STATS                     statistics of key columns and of columns
_MIN_SEQUENCE_NUMBER, _MAX_... long          versions of keys in it
_SCHEMA_ID long                              the schema it was written with
_LEVEL int                                   of the merge tree
_EXTRA_FILES array<string>                   files beside it; one that ends in ``.index`` is its file index
_CREATION_TIME [null, long]                  milliseconds
_DELETE_ROW_COUNT [null, long]               rows that retract a key
_EMBEDDED_FILE_INDEX [null, bytes]           the complete file index, if it is small
_FILE_SOURCE [null, int]                     0 APPEND, 1 COMPACT
_VALUE_STATS_COLS [null, array<string>]      columns of _VALUE_STATS, if not all
_EXTERNAL_PATH [null, string]                where it lies, if not in its bucket directory
_FIRST_ROW_ID [null, long]                   id of its first row, if the table tracks rows
_WRITE_COLS [null, array<string>]            columns in the file, if not all
===========================================  =======================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro import read_records
from app.table.avro_schema import ArrayOf, Nullable, RecordOf
from app.table.row_statistics import STATISTICS, RowStatistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VERSION = 2
_FILE = RecordOf(
    {
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_MIN_KEY": "bytes",
        "_MAX_KEY": "bytes",
        "_KEY_STATS": STATISTICS,
        "_VALUE_STATS": STATISTICS,
        "_MIN_SEQUENCE_NUMBER": "long",
        "_MAX_SEQUENCE_NUMBER": "long",
        "_SCHEMA_ID": "long",
        "_LEVEL": "int",
        "_EXTRA_FILES": ArrayOf("string"),
        "_CREATION_TIME": Nullable("long"),
        "_DELETE_ROW_COUNT": Nullable("long"),
        "_EMBEDDED_FILE_INDEX": Nullable("bytes"),
        "_FILE_SOURCE": Nullable("int"),
        "_VALUE_STATS_COLS": Nullable(ArrayOf("string")),
        "_EXTERNAL_PATH": Nullable("string"),
        "_FIRST_ROW_ID": Nullable("long"),
        "_WRITE_COLS": Nullable(ArrayOf("string")),
    }
)
_RECORD = RecordOf(
    {
        "_VERSION": "int",
        "_KIND": "int",
        "_PARTITION": "bytes",
        "_BUCKET": "int",
        "_TOTAL_BUCKETS": "int",
        "_FILE": _FILE,
    }
)
_MEMORY_PER_ENTRY = 900
"""Objects, numbers and short strings of one entry, without the bytes that are counted one by one."""

FileIdentity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


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
    """A data file as its manifest describes it; attributes are named after the fields above.

    Rows of keys and statistics stay bytes until somebody asks (:mod:`app.table.statistics`).
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

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        variable = len(self.min_key) + len(self.max_key) + len(self.embedded_index or b"")
        return _MEMORY_PER_ENTRY + variable + self.key_statistics.nbytes + self.value_statistics.nbytes


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

    @property
    def identity(self) -> FileIdentity:
        """What an ADD and its DELETE have in common, and no other file."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """The entries of one manifest, in order.

    Attributes:
        entries: of both kinds.
        nbytes: about how much memory the object takes.
    """

    entries: tuple[ManifestEntry, ...]
    nbytes: int

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads a manifest.

        Raises:
            CorruptMetadataError: the bytes are no manifest.
            UnsupportedFormatError: it is of another version or format.
        """
        shared = _Shared()
        entries = tuple(_entry(record, shared) for record in read_records(data, _RECORD))
        return cls(entries, sum(entry.file.nbytes for entry in entries))


class _Shared:
    """One object for equal values: partitions and column lists repeat from entry to entry."""

    def __init__(self) -> None:
        self._partitions: dict[bytes, bytes] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def partition(self, partition: bytes) -> bytes:
        return self._partitions.setdefault(partition, partition)

    def names(self, names: Sequence[str] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        listed = tuple(names)
        return self._names.setdefault(listed, listed)


def _entry(record: Mapping[str, Any], shared: _Shared) -> ManifestEntry:
    if record["_VERSION"] != _VERSION:
        raise UnsupportedFormatError(f"manifests of version {record['_VERSION']} cannot be read")
    try:
        kind = FileKind(record["_KIND"])
    except ValueError as error:
        raise CorruptMetadataError(f"expected a manifest entry of kind 0 or 1: {error}") from error
    return ManifestEntry(
        kind,
        shared.partition(record["_PARTITION"]),
        record["_BUCKET"],
        record["_TOTAL_BUCKETS"],
        _data_file(record["_FILE"], shared),
    )


def _data_file(record: Mapping[str, Any], shared: _Shared) -> DataFileMeta:
    name, size, rows = record["_FILE_NAME"], record["_FILE_SIZE"], record["_ROW_COUNT"]
    if size < 0 or rows < 0:
        raise CorruptMetadataError(f"data file {name!r} with {size} bytes and {rows} rows")
    source = record.get("_FILE_SOURCE")
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=rows,
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_statistics=RowStatistics.of(record["_KEY_STATS"]),
        value_statistics=RowStatistics.of(record["_VALUE_STATS"]),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=shared.names(record["_EXTRA_FILES"]) or (),
        creation_time_millis=record.get("_CREATION_TIME"),
        delete_row_count=record.get("_DELETE_ROW_COUNT"),
        embedded_index=record.get("_EMBEDDED_FILE_INDEX"),
        file_source=FileSource(source) if source in _SOURCES else None,
        value_statistics_columns=shared.names(record.get("_VALUE_STATS_COLS")),
        external_path=record.get("_EXTERNAL_PATH"),
        first_row_id=record.get("_FIRST_ROW_ID"),
        write_columns=shared.names(record.get("_WRITE_COLS")),
    )


_SOURCES = frozenset(FileSource)

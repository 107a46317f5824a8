"""Manifest entry: the record of one data file that a commit added or removed, and its form as an object.

A record is ``_VERSION int`` (2), ``_KIND int`` (0 ADD, 1 DELETE), ``_PARTITION bytes`` (a serialized row),
``_BUCKET int``, ``_TOTAL_BUCKETS int`` (of the partition at that time; -1 without buckets) and ``_FILE``:

===========================================  =======================================================
field                                        meaning
===========================================  =======================================================
_FILE_NAME string, _FILE_SIZE long           inside its bucket directory
_ROW_COUNT long                              rows, deleted ones included
_MIN_KEY, _MAX_KEY bytes                     serialized rows of the trimmed primary key
_KEY_STATS, _VALUE_STATS                     statistics of key columns and of columns
_MIN_SEQUENCE_NUMBER, _MAX_... long          versions of keys in it
_SCHEMA_ID long                              the schema it was written with
_LEVEL int                                   of the merge tree
_EXTRA_FILES array<string>                   files next to it; one that ends in ``.index`` is its file index
_CREATION_TIME [null, long]                  milliseconds
_DELETE_ROW_COUNT [null, long]               rows that retract a key
_EMBEDDED_FILE_INDEX [null, bytes]           the complete file index, if it is small
_FILE_SOURCE [null, int]                     0 APPEND, 1 COMPACT
_VALUE_STATS_COLS [null, array<string>]      columns of _VALUE_STATS, if not all
_EXTERNAL_PATH [null, string]                location outside the bucket directory
_FIRST_ROW_ID [null, long]                   id of its first row, if the table tracks rows
_WRITE_COLS [null, array<string>]            columns in the file, if not all
===========================================  =======================================================

Statistics are two serialized rows (:mod:`app.types.binary_row`) and an array, with one slot per column of the
record around them: ``_MIN_VALUES bytes``, ``_MAX_VALUES bytes``, ``_NULL_COUNTS [null, array<[null,
long]>]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.table.records.columns import ArrayOf, Nullable, OptionalIntegers, RecordColumns, RecordOf
from app.types import BytesColumn

# Avro record that several others contain.
STATISTICS = RecordOf(
    {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": Nullable(ArrayOf(Nullable("long")))}
)

_UNKNOWN = -1
_MEMORY = 250
_MEMORY_PER_COUNT = 16


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics of one file or manifest, as stored: serialized rows of bounds.

    A null count is None if that column was not counted. The tuple is empty if none was.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]

    @property
    def nbytes(self) -> int:
        """Approximate memory of the object."""
        rows = len(self.min_values) + len(self.max_values)
        return _MEMORY + rows + _MEMORY_PER_COUNT * len(self.null_counts)


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsColumns:
    """Statistics of many files."""

    # Serialized rows of bounds, shape (n,); null where there are none.
    min_values: BytesColumn
    max_values: BytesColumn
    # int64, -1 where not counted: counts of the first file's columns, then the second's, and so on.
    null_counts: NDArray[np.int64]
    # int64, shape (n + 1,): start of each file's counts; a file may have none.
    null_count_starts: NDArray[np.int64]

    @classmethod
    def of(cls, records: RecordColumns) -> Self:
        """Convert decoded Avro records."""
        lists = records.lists("_NULL_COUNTS", pa.int64())
        counts = OptionalIntegers.of(lists.values)
        return cls(
            records.strings("_MIN_VALUES"),
            records.strings("_MAX_VALUES"),
            np.where(counts.known & (counts.values >= 0), counts.values, _UNKNOWN),
            np.asarray(lists.offsets).astype(np.int64),
        )

    @property
    def say_nothing(self) -> NDArray[np.bool_]:
        """Mask of files that have neither bounds nor null counts, shape (n,)."""
        return self.min_values.is_null

    def without(self, files: NDArray[np.bool_]) -> Self:
        """Return a copy without statistics of the masked ``files``, shape (n,)."""
        if not files.any():
            return self
        of_counts = np.repeat(files, np.diff(self.null_count_starts))
        first, last = self.null_count_starts[[0, -1]]
        counts = self.null_counts[first:last]
        return type(self)(
            self.min_values.without(files),
            self.max_values.without(files),
            np.where(of_counts, _UNKNOWN, counts),
            self.null_count_starts - first,
        )

    def of_files(self, rows: NDArray[np.int64]) -> Iterator[RowStatistics]:
        """Yield statistics of the files at ``rows``."""
        parts = map(slice, self.null_count_starts[rows].tolist(), self.null_count_starts[rows + 1].tolist())
        counts = (self.null_counts[part].tolist() for part in parts)
        return map(
            RowStatistics,
            (value or b"" for value in self.min_values.take(rows)),
            (value or b"" for value in self.max_values.take(rows)),
            (tuple(None if count < 0 else count for count in row) for row in counts),
        )


# Suffix of the extra file that holds the file index.
FILE_INDEX_SUFFIX: Final = ".index"


class FileKind(IntEnum):
    """Effect of a commit on a file. Values of ``_KIND``."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """Writer of a file. Values of ``_FILE_SOURCE``."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """Data file as its manifest describes it. Attributes are the fields of ``FILE_RECORD``, in order.

    Rows of keys and statistics stay serialized until needed (:mod:`app.table.statistics.statistics`).
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
    """Data file that was added or removed."""

    kind: FileKind
    # Serialized partition row; one object per partition and manifest.
    partition: bytes
    # Bucket number, -2 while a postponed bucket is not yet assigned.
    bucket: int
    # Buckets of the partition at that time, -1 without buckets.
    total_buckets: int
    file: DataFileMeta

    def without_index(self) -> ManifestEntry:
        """Return the entry without its file index, embedded or next to the file."""
        extra_files = tuple(name for name in self.file.extra_files if not name.endswith(FILE_INDEX_SUFFIX))
        return replace(self, file=replace(self.file, embedded_index=None, extra_files=extra_files))


VERSION: Final = 2
FILE_RECORD: Final = RecordOf(
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
RECORD: Final = RecordOf(
    {
        "_VERSION": "int",
        "_KIND": "int",
        "_PARTITION": "bytes",
        "_BUCKET": "int",
        "_TOTAL_BUCKETS": "int",
        "_FILE": FILE_RECORD,
    }
)
# Path of fields to the column of embedded indexes.
EMBEDDED: Final = ("_FILE", "_EMBEDDED_FILE_INDEX")
# First bytes of an embedded index: the magic of its container.
INDEX_START: Final = (1493475289347502).to_bytes(8)

"""Bounds and null counts of some columns, as manifests store them.

Two serialized rows (:mod:`app.types.binary_row`) and an array, with one slot per column: ``_MIN_VALUES
bytes``, ``_MAX_VALUES bytes``, ``_NULL_COUNTS [null, array<[null, long]>]``. Which columns these are, the
surrounding record says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.table.records.columns import ArrayOf, Nullable, OptionalIntegers, RecordColumns, RecordOf
from app.types.bytes_column import BytesColumn

STATISTICS = RecordOf(
    {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": Nullable(ArrayOf(Nullable("long")))}
)
"""The Avro record, for the records that contain it."""

_UNKNOWN = -1
_MEMORY = 250
_MEMORY_PER_COUNT = 16


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics of one file or manifest, as stored: serialized rows of bounds.

    Nulls of a column are None where they were not counted; of all columns empty if nothing was.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        rows = len(self.min_values) + len(self.max_values)
        return _MEMORY + rows + _MEMORY_PER_COUNT * len(self.null_counts)


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsColumns:
    """The statistics of many files.

    Attributes:
        min_values, max_values: serialized rows of bounds, shape (n,); null where nothing is said.
        null_counts: int64: nulls of each column of the first file, then of the second, ...; -1 where not
            counted.
        null_count_starts: int64, shape (n + 1,): where those of each file begin and the file's before it
            end; a file without any counted nothing.
    """

    min_values: BytesColumn
    max_values: BytesColumn
    null_counts: NDArray[np.int64]
    null_count_starts: NDArray[np.int64]

    @classmethod
    def of(cls, records: RecordColumns) -> Self:
        """From decoded Avro records."""
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
        """The files of which neither bounds nor null counts are known, shape (n,)."""
        return self.min_values.is_null

    def without(self, files: NDArray[np.bool_]) -> Self:
        """The same with nothing said of these ``files``, shape (n,)."""
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
        """Those of some files."""
        parts = map(slice, self.null_count_starts[rows].tolist(), self.null_count_starts[rows + 1].tolist())
        counts = (self.null_counts[part].tolist() for part in parts)
        return map(
            RowStatistics,
            (value or b"" for value in self.min_values.take(rows)),
            (value or b"" for value in self.max_values.take(rows)),
            (tuple(None if count < 0 else count for count in row) for row in counts),
        )

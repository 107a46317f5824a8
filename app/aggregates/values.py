"""Values of columns, as far as file indexes, statistics and partitions determine them.

Compares values as Spark reads them: it pads CHAR(n) to n characters and cuts timestamps to
microseconds. Writers may not pad, and keep up to nine digits, so stored values that differ can be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from app.aggregates.answers import Function
from app.errors import CorruptIndexError
from app.file_index import KINDS, FileIndex
from app.file_index.answers import RowIndex
from app.file_index.container import blame
from app.file_index.keys import KeySpace, key_space
from app.planning import FileIndexes, Version
from app.planning.plan import PlanState
from app.predicates import ColumnBounds
from app.types import TIMESTAMP_ROOTS, DataField, DataType, TypeRoot, Value, sql_key
from app.types.civil_time import NANOS_PER_MICRO
from app.types.values import Values, group_rows

# Kinds of index that have the rows of each value, fastest first.
_COUNTED: Final = ("bitmap", "range-bitmap", "bsi")


@dataclass(frozen=True, slots=True, eq=False)
class FileValues:
    """One file, with its index if that was opened."""

    version: Version
    state: PlanState
    file: int
    index: FileIndex | None

    def matching(self) -> tuple[BitMap | None, int]:
        """Return the matching rows (None: all of the file), and their number.

        Raises NotKnownError if only the number is known.
        """
        count = int(self.state.rows_left[self.file])
        rows = self.state.positions.get(self.file)
        if isinstance(rows, BitMap):
            return rows, count
        if rows is not None or count != self._row_count:
            raise NotKnownError
        return None, count

    def has_column(self, column: DataField) -> bool:
        """Return True if the file's schema has a column. Raises NotKnownError if its type differs."""
        written = self._written.get(column.id)
        if written is not None and not written.type.same_kind(column.type):
            raise NotKnownError
        return written is not None

    def row_index(self, column: DataField, *, counts_only: bool = False) -> tuple[RowIndex, KeySpace]:
        """Open an index that has the rows of each value of a column.

        Raises NotKnownError without such an index or, unless ``counts_only``, if different values may share
        a key. Raises CorruptIndexError if it is damaged.
        """
        space, written = key_space(column.type), self._written.get(column.id)
        if self.index is None or space is None or written is None or (space.lossy and not counts_only):
            raise NotKnownError
        for kind in _COUNTED:
            for entry in self.index.entries.get(written.name, ()):
                if entry.kind != kind or entry.is_empty or not KINDS[kind].takes(written.type):
                    continue
                with blame(entry):
                    index: RowIndex = self.index.open(entry, KINDS[kind], written.type)
                    if index.row_count != self._row_count:
                        raise CorruptIndexError(
                            f"expected the {self._row_count} rows of the data file, found {index.row_count}"
                        )
                return index, space
        raise NotKnownError

    def counts(
        self, column: DataField, rows: BitMap | None, count: int
    ) -> Iterator[tuple[Value | None, int]]:
        """Yield the values of a column (None: NULL) in ``count`` rows, with the number of rows of each."""
        if not self.has_column(column):
            yield None, count
            return
        index, space = self.row_index(column)
        uncounted = count
        for key, size in index.key_counts(rows):
            yield as_read(space.value(key), column.type), size
            uncounted -= size
        nulls = len(index.null_rows() if rows is None else index.null_rows() & rows)
        if nulls:
            yield None, nulls
        if uncounted != nulls:
            raise CorruptIndexError(f"expected {uncounted} rows without a value, found {nulls}")

    @property
    def _row_count(self) -> int:
        return int(self.state.files.columns.row_counts[self.file])

    @property
    def _written(self) -> Mapping[int, DataField]:
        schema_id = int(self.state.files.columns.schema_ids[self.file])
        return self.version.file_schema(schema_id).by_id


def open_files(
    version: Version,
    state: PlanState,
    files: NDArray[np.int64],
    columns: Collection[int],
    warnings: list[str],
) -> Iterator[FileValues]:
    """Yield files with their indexes on columns. A damaged index becomes None and a warning."""
    indexes, schema_ids = FileIndexes(version), state.files.columns.schema_ids
    has_index = np.zeros(len(files), np.bool_)
    if columns and version.schema.options.file_index_read:
        has_index = indexes.has_index(files)
    for file in files[~has_index].tolist():
        yield FileValues(version, state, file, None)
    indexed = files[has_index]
    for members in group_rows(schema_ids[indexed]):
        of_schema = indexed[members]
        written = version.file_schema(int(schema_ids[of_schema[0]])).by_id
        names = [written[column_id].name for column_id in columns if column_id in written]
        needed = frozenset((name, KINDS[kind]) for name in names for kind in _COUNTED)
        for file, index in indexes.open(of_schema, needed):
            yield FileValues(version, state, file, index if isinstance(index, FileIndex) else None)
        for file, error in indexes.failures(of_schema):
            warnings.append(f"the index of {state.files.name(file)} is not used: {error}")


class NotKnownError(Exception):
    """Indexes and statistics do not determine the values of a file."""


_BLANK: Final = b" "
# Continuation bytes of UTF-8.
_CONTINUATION: Final = bytes(range(0x80, 0xC0))


def partition_counts(
    version: Version, state: PlanState, place: int, files: NDArray[np.int64]
) -> list[tuple[Value | None, int]]:
    """Count the remaining rows of files by value of the partition column at ``place``."""
    column, codes = version.schema.partition_fields[place], state.files.columns.partition_codes[files]
    counts = []
    for members in group_rows(codes):
        partition = state.files.columns.partitions[int(codes[members[0]])]
        stored = version.partitions.values(partition)[place]
        value = None if stored is None else as_read(stored, column.type)
        counts.append((value, int(state.rows_left[files[members]].sum())))
    return counts


@dataclass(frozen=True, slots=True)
class Ends:
    """The range of values in open files, with None for an unknown end."""

    low: Value | None = None
    high: Value | None = None
    key: Callable[[Value], Any] = int

    @classmethod
    def of(cls, bounds: ColumnBounds | None, data_type: DataType, rows: NDArray[np.int64]) -> Ends:
        """Bound the values of files, given the number of matching rows of each, int64, shape (n,)."""
        if bounds is None:
            return cls()
        # A file whose values are all NULL has no bounds, and none are needed.
        matter = (rows > 0) & (bounds.null_count != bounds.row_count)
        has_low, has_high = bool(bounds.has_low[matter].all()), bool(bounds.has_high[matter].all())
        lows = _taken(bounds.low, matter) if has_low else []
        highs = _taken(bounds.high, matter) if has_high and not bounds.may_hold_nan[matter].any() else []
        read_highs = [high for bound in highs if (high := _high_end(bound, data_type)) is not None]
        key = sql_key(data_type)
        return cls(
            min((_low_end(bound, data_type) for bound in lows), key=key, default=None),
            max(read_highs, key=key) if highs and len(read_highs) == len(highs) else None,
            key,
        )

    def around(self, function: Function, settled: Value | None) -> tuple[Value | None, Value | None]:
        """Widen ``settled``, the MIN or MAX over decided files, by the bounds of the open ones."""
        if settled is None:
            return self.low, self.high
        if function is Function.MIN:
            return None if self.low is None else min(self.low, settled, key=self.key), settled
        return settled, None if self.high is None else max(self.high, settled, key=self.key)


def as_read(value: Value, data_type: DataType) -> Value:
    """Convert a stored value to the one that Spark reads: CHAR is padded, timestamps are cut."""
    if isinstance(value, bytes) and data_type.root is TypeRoot.CHAR:
        characters = len(value.translate(None, _CONTINUATION))
        return value + _BLANK * (data_type.precision - characters)
    if isinstance(value, int) and data_type.root in TIMESTAMP_ROOTS:
        return value - value % NANOS_PER_MICRO
    return value


def _low_end(stored: Value, data_type: DataType) -> Value:
    """Return a lower bound of the values that are stored or read, given their stored lower bound."""
    return min(stored, as_read(stored, data_type))


def _high_end(stored: Value, data_type: DataType) -> Value | None:
    """Return an upper bound of such values, given their stored upper bound. Return None if unknown."""
    if data_type.root is TypeRoot.CHAR and isinstance(stored, bytes):
        # Where the bound continues with a byte below a blank, its prefix is above it when padded.
        return None if any(byte < _BLANK[0] for byte in stored) else as_read(stored, data_type)
    return max(stored, as_read(stored, data_type))


def _taken(values: Values, matter: NDArray[np.bool_]) -> list[Value]:
    taken: list[Value]
    if isinstance(values, np.ndarray):
        taken = values[matter].tolist()
    else:
        taken = values.filter(pa.array(matter)).to_pylist()
    return taken

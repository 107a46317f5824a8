"""The values of files' columns, as far as their indexes tell them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers.row_index import RowIndex
from app.file_index.container import FileIndex, blame
from app.file_index.index_kinds import KINDS
from app.file_index.keys.keys import KeySpace, key_space
from app.planning.plan.state import PlanState
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.version.version import Version
from app.types import DataField, TypeRoot, Value
from app.types.value_arrays import group_rows

_COUNTED: Final = ("bitmap", "range-bitmap", "bsi")
"""Kinds of index that know the rows of each value, the one that answers fastest first."""


@dataclass(frozen=True, slots=True, eq=False)
class FileValues:
    """One file, with its index if that was opened."""

    version: Version
    state: PlanState
    file: int
    index: FileIndex | None

    def matching(self) -> tuple[BitMap | None, int]:
        """The rows that match (None: all of the file), and how many they are.

        Raises:
            NotKnownError: only their number is known.
        """
        count = int(self.state.rows_left[self.file])
        rows = self.state.positions.get(self.file)
        if isinstance(rows, BitMap):
            return rows, count
        if rows is not None or count != self._row_count:
            raise NotKnownError
        return None, count

    def has_column(self, column: DataField) -> bool:
        """Whether the table had a column when the file was written. NotKnownError: with another type."""
        written = self._written.get(column.id)
        if written is not None and not written.type.same_kind(column.type):
            raise NotKnownError
        return written is not None

    def row_index(self, column: DataField, *, counts_only: bool = False) -> tuple[RowIndex, KeySpace]:
        """An index that knows the rows of each value of a column.

        Args:
            counts_only: it matters only which rows have a value.

        Raises:
            NotKnownError: there is none, or values that differ in SQL may be one in it.
            CorruptIndexError: it is damaged.
        """
        space, written = key_space(column.type), self._written.get(column.id)
        is_alike = column.type.root is TypeRoot.CHAR or (space is not None and space.lossy)
        if self.index is None or space is None or written is None or (is_alike and not counts_only):
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
        """How many of ``count`` rows have each value of a column (None: NULL)."""
        if not self.has_column(column):
            yield None, count
            return
        index, space = self.row_index(column)
        left = count
        for key, size in index.key_counts(rows):
            yield space.value(key), size
            left -= size
        nulls = len(index.null_rows() if rows is None else index.null_rows() & rows)
        if nulls:
            yield None, nulls
        if left != nulls:
            raise CorruptIndexError(f"expected {left} rows without a value, found {nulls}")

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
    """Files with their indexes of columns, without one where it is missing or cannot be read.

    Args:
        warnings: takes why indexes cannot be read.
    """
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
        names = [written[each].name for each in columns if each in written]
        needed = frozenset((name, KINDS[kind]) for name in names for kind in _COUNTED)
        for file, index in indexes.open(of_schema, needed):
            yield FileValues(version, state, file, index if isinstance(index, FileIndex) else None)
        for file, error in indexes.failures(of_schema):
            warnings.append(f"the index of {state.files.name(file)} is not used: {error}")


class NotKnownError(Exception):
    """Nothing tells the values of a file that matter."""

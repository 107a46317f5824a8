"""The values of one file's columns, as far as its index tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers.row_index import RowIndex
from app.file_index.container import FileIndex, blame
from app.file_index.index_kinds import KINDS
from app.file_index.keys.keys import KeySpace, key_space
from app.planning.plan.state import PlanState
from app.planning.version.version import Version
from app.types import DataField, TypeRoot, Value

COUNTED: Final = ("bitmap", "range-bitmap", "bsi")
"""Kinds of index that know the rows of each value, the one that answers fastest first."""


@dataclass(frozen=True, slots=True, eq=False)
class FileValues:
    """One file, with its index if that was opened."""

    version: Version
    state: PlanState
    file: int
    index: FileIndex | None

    def has_column(self, column: DataField) -> bool:
        """Whether the table had a column when the file was written.

        Raises:
            NotKnownError: with another type.
        """
        written = self._written.get(column.id)
        if written is not None and not written.type.same_kind(column.type):
            raise NotKnownError
        return written is not None

    def row_index(self, column: DataField, *, counts_only: bool = False) -> tuple[RowIndex, KeySpace]:
        """An index that knows the rows of each value of a column.

        Args:
            column: of the version's schema.
            counts_only: it matters only which rows have a value.

        Raises:
            NotKnownError: there is none, or values that differ in SQL may be one in it.
            CorruptIndexError: it is damaged.
        """
        space, written = key_space(column.type), self._written.get(column.id)
        is_alike = column.type.root is TypeRoot.CHAR or (space is not None and space.lossy)
        if self.index is None or space is None or written is None or (is_alike and not counts_only):
            raise NotKnownError
        if not written.type.same_kind(column.type):
            raise NotKnownError
        for kind in COUNTED:
            for entry in self.index.entries.get(written.name, ()):
                if entry.kind != kind or entry.is_empty or not KINDS[kind].takes(written.type):
                    continue
                with blame(entry):
                    found: RowIndex = self.index.open(entry, KINDS[kind], written.type)
                    expected = int(self.state.files.columns.row_counts[self.file])
                    if found.row_count != expected:
                        raise CorruptIndexError(
                            f"expected the {expected} rows of the data file, found {found.row_count}"
                        )
                return found, space
        raise NotKnownError

    def parts(
        self, column: DataField, rows: BitMap | None, count: int, *, needs_rows: bool = False
    ) -> Iterator[tuple[Value | None, BitMap | None, int]]:
        """Some rows of the file by their value in a column.

        Args:
            column: of the version's schema.
            rows: which; None is all of the file.
            count: how many these are.
            needs_rows: whether the rows of each value matter.

        Yields:
            A value (None: NULL), its rows if they matter, and their number.

        Raises:
            NotKnownError, CorruptIndexError: as :meth:`row_index`.
        """
        if not self.has_column(column):
            yield None, rows, count
            return
        index, space = self.row_index(column)
        left = count
        for key, size in index.key_counts(rows):
            some = index.rows_with([key]) if needs_rows else None
            if some is not None and rows is not None:
                some &= rows
            yield space.value(key), some, size
            left -= size
        nulls = index.null_rows() if rows is None else index.null_rows() & rows
        if nulls:
            yield None, nulls, len(nulls)
        if left != len(nulls):
            raise CorruptIndexError(f"expected {left} rows without a value, found {len(nulls)}")

    @property
    def _written(self) -> Mapping[int, DataField]:
        schema_id = int(self.state.files.columns.schema_ids[self.file])
        return self.version.file_schema(schema_id).by_id


class NotKnownError(Exception):
    """Nothing tells the values of a file that matter."""

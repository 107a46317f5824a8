"""The values of one file's columns, as far as its index tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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

    @property
    def partition(self) -> tuple[Value | None, ...]:
        """Its values in the partition columns."""
        columns = self.state.files.columns
        return self.version.partitions.values(columns.partitions[int(columns.partition_codes[self.file])])

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

    @property
    def _written(self) -> Mapping[int, DataField]:
        schema_id = int(self.state.files.columns.schema_ids[self.file])
        return self.version.file_schema(schema_id).by_id


class NotKnownError(Exception):
    """Nothing tells the values of a file that matter."""

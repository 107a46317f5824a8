"""Columns of a data file in memory: those that are to be indexed, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from app.building.map_values import values_under
from app.errors import CorruptFileError
from app.file_index.table_options import split_map_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from app.building.data_files import DataFile

Advance: TypeAlias = "Callable[[int], None]"
"""Told of work that has been done, in whatever unit the caller counts it."""


def ignore_progress(_done: int) -> None:
    """An :data:`Advance` for those whom progress does not concern."""


def read_columns(
    file: DataFile, names: Collection[str], advance: Advance = ignore_progress
) -> dict[str, pa.ChunkedArray]:
    """Reads columns, one value a row.

    Args:
        file: the data file.
        names: columns that it has, or ``column[key]`` for the values that a map column has under one key.
        advance: told of rows.

    Raises:
        IndexWriteError: a map has a key twice.
        CorruptFileError: the file is damaged.
        StorageError: it cannot be read.
    """
    places = {name: split_map_key(name) for name in names}
    chunks: dict[str, list[pa.Array]] = {name: [] for name in places}
    row = 0
    for batch in file.batches(sorted({column for column, _ in places.values()})):
        for name, (column, key) in places.items():
            values = batch.column(column)
            if key is not None:
                values = values_under(values, key, column=column, first_row=row)
            chunks[name].append(values)
        row += batch.num_rows
        advance(batch.num_rows)
    if row != file.row_count:
        raise CorruptFileError(f"expected {file.row_count} rows, found {row}").at(str(file.path))
    return {
        name: pa.chunked_array(parts) if parts else pa.chunked_array([], _declared_type(file, *places[name]))
        for name, parts in chunks.items()
    }


def _declared_type(file: DataFile, column: str, key: str | None) -> pa.DataType:
    """The type that a column has where there is no row to tell it."""
    found = file.schema.field(column).type
    return found if key is None else found.item_type

"""Columns of a data file in memory: those that are to be indexed, and no others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.building.data_files import DataFile
from app.errors import CorruptFileError, IndexWriteError
from app.options.map_keys import map_key_name, split_map_key

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


def values_under(maps: pa.MapArray, key: str, *, column: str, first_row: int) -> pa.Array:
    """One value a row: null where the map is null, lacks the key or has null under it.

    Args:
        maps: maps with strings as keys.
        key: the key.
        column: name of the column, for errors.
        first_row: row of the file that the first map belongs to, for errors.

    Raises:
        IndexWriteError: a map has the key twice.
    """
    offsets = np.asarray(maps.offsets)
    entries = np.flatnonzero(np.asarray(pc.equal(maps.keys, pa.scalar(key, maps.keys.type))))
    entries = entries[(entries >= offsets[0]) & (entries < offsets[-1])]
    rows = np.searchsorted(offsets, entries, side="right") - 1
    # What lies between the offsets of a null map belongs to no row.
    held = np.asarray(maps.is_valid())[rows]
    entries, rows = entries[held], rows[held]
    repeated = np.flatnonzero(rows[1:] == rows[:-1])
    if len(repeated):
        raise IndexWriteError(
            "expected each key once in a map, found it twice",
            column=map_key_name(column, key),
            row=first_row + int(rows[repeated[0]]),
        )
    places = np.full(len(maps), -1)
    places[rows] = entries
    return maps.items.take(pa.array(places, mask=places < 0))

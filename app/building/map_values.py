"""The values that a map column has under one key, as a column of their own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import IndexWriteError


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
            column=f"{column}[{key}]",
            row=first_row + int(rows[repeated[0]]),
        )
    places = np.full(len(maps), -1)
    places[rows] = entries
    return maps.items.take(pa.array(places, mask=places < 0))

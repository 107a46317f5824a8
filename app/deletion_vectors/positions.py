"""Sets of row positions, in the narrowest form that holds them."""

from __future__ import annotations

import struct
from array import array
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.errors import RequestError
from app.types.roaring import Positions, bitmap_of

RowNumbers: TypeAlias = "Positions | NDArray[np.integer]"
"""0-based rows of a data file: a set of positions, or integers of any width in any order, shape (n,)."""

_FIRST_WIDE: Final = 1 << 32
_FIRST_ENTRY: Final = struct.Struct("<qi")
"""Front of the portable form of 64-bit Roaring: number of bitmaps, and key of the first one."""


def positions_of(rows: RowNumbers) -> Positions:
    """Convert rows to a set. Raises RequestError if one is not an integer, or is negative."""
    if isinstance(rows, BitMap):
        return rows
    if isinstance(rows, BitMap64):
        return _narrowed(rows)
    if not rows.size:
        return BitMap()
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise RequestError(f"expected row positions as integers, found {rows.dtype} of shape {rows.shape}")
    if (lowest := rows.min()) < 0:
        raise RequestError(f"expected row positions from 0 on, found {lowest}")
    if rows.max() < _FIRST_WIDE:
        return bitmap_of(np.sort(rows.astype(np.uint32)))
    # pyroaring takes an array as a whole, which is much faster if it ascends.
    return BitMap64(array("Q", np.sort(rows.astype(np.uint64)).tobytes()))


def union(first: Positions, second: Positions) -> Positions:
    """Unite two sets."""
    if isinstance(first, BitMap) and isinstance(second, BitMap):
        return first | second
    return _widened(first) | _widened(second)


def _narrowed(positions: BitMap64) -> Positions:
    if not positions:
        return BitMap()
    if positions.max() >= _FIRST_WIDE:
        return positions
    # The 64-bit form of a single bitmap is an entry's head and the 32-bit form.
    return BitMap.deserialize(positions.serialize()[_FIRST_ENTRY.size :])


def _widened(positions: Positions) -> BitMap64:
    if isinstance(positions, BitMap64):
        return positions
    return BitMap64.deserialize(_FIRST_ENTRY.pack(1, 0) + positions.serialize())

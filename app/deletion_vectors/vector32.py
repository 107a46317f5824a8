"""The 32-bit deletion vector: deleted rows of one data file, below position 2^31.

======  =====  ==========================================================================
offset  width  meaning
======  =====  ==========================================================================
0       i32    magic 1581511376 (5E 43 F2 D0), big endian
4       rest   one 32-bit roaring bitmap of 0-based row positions, to the end of the data
======  =====  ==========================================================================

:mod:`app.deletion_vectors.file` adds size and checksum around it.
"""

from __future__ import annotations

import struct
from typing import Final

from pyroaring import BitMap

from app.errors import RequestError
from app.types.roaring import Positions, read_bitmap, serialize

MAGIC: Final = struct.pack(">i", 1581511376)
MAX_POSITION: Final = 2**31 - 1


def read(data: memoryview) -> BitMap:
    """Read the deleted positions of a whole vector, magic included.

    Raises CorruptIndexError if the bitmap after the magic does not end with the data, or has positions
    above :data:`MAX_POSITION`.
    """
    positions, _ = read_bitmap(data, len(MAGIC), len(data) - len(MAGIC), row_count=MAX_POSITION + 1)
    return positions


def write(positions: Positions) -> bytes:
    """Encode a vector as the engine does, with runs if shorter.

    Raises RequestError if a position is too high.
    """
    if positions and positions.max() > MAX_POSITION:
        raise RequestError(
            f"a 32-bit deletion vector holds positions up to {MAX_POSITION}, not {positions.max()}; vectors "
            "of 64 bits (deletion-vectors.bitmap64) do"
        )
    return MAGIC + serialize(BitMap(positions))

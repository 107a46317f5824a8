"""The 64-bit deletion vector: deleted rows of one data file, at any position.

Integers are little endian.

======  =====  ====================================================================================
offset  width  meaning
======  =====  ====================================================================================
0       i32    magic 1681511377 (D1 D3 39 64)
4       i64    number of bitmaps n
12             n x (i32 key, 32-bit roaring bitmap): high and low halves of positions, keys ascending
======  =====  ====================================================================================

The engine writes every key from 0 to the highest, with empty bitmaps in the gaps. Readers accept gaps too. An
empty vector has n = 0, or n = 1 with an empty bitmap if it was widened from an empty 32-bit one.

Together with size and checksum (see :mod:`app.deletion_vectors.file`) this is the ``deletion-vector-v1`` blob
of Iceberg's Puffin files.
"""

from __future__ import annotations

import struct
from typing import Final

from pyroaring import BitMap, BitMap64

from app.errors import CorruptIndexError, RequestError
from app.types.roaring import Positions, bitmap_size, read_bitmap, serialize

MAGIC: Final = struct.pack("<i", 1681511377)
MAX_POSITION: Final = 9223372030412324864
_MAX_KEY: Final = 2**31 - 2

_LOW_BITS: Final = 32
# The size of a record is an i32.
_MAX_BYTES: Final = 2**31 - 1

_COUNT: Final = struct.Struct("<q")
_KEY: Final = struct.Struct("<i")
_SHORTEST_ENTRY_BYTES: Final = _KEY.size + 8
"""A key and an empty bitmap."""


def read(data: memoryview) -> Positions:
    """Read the deleted positions of a whole vector, magic included.

    Raises CorruptIndexError for a wrong count, keys that do not ascend, a broken bitmap, or bytes after the
    last one.
    """
    count = _read_count(data)
    narrow = BitMap()
    is_wide = False
    last_key = -1
    at = len(MAGIC) + _COUNT.size
    for _ in range(count):
        key, positions, next_at = _read_entry(data, at)
        if not last_key < key <= _MAX_KEY:
            raise CorruptIndexError(
                f"expected a key from {last_key + 1} to {_MAX_KEY}, found {key}", offset=at
            )
        if key == 0:
            narrow = positions
        is_wide |= key > 0 and bool(positions)
        last_key, at = key, next_at
    if at != len(data):
        raise CorruptIndexError(
            f"expected the last of {count} bitmaps to end the vector, found {len(data) - at} more bytes",
            offset=at,
        )
    if not is_wide:
        return narrow
    # Every part has been validated by now, and keys ascend: this is the portable form of 64-bit Roaring.
    return BitMap64.deserialize(bytes(data[len(MAGIC) :]))


def write(positions: Positions) -> bytes:
    """Encode a vector as the engine does. Raises RequestError if a position is too high for a file."""
    if isinstance(positions, BitMap):
        # The engine widens 32-bit vectors this way: their one key is written even if its bitmap is empty.
        return MAGIC + _COUNT.pack(1) + _KEY.pack(0) + serialize(positions.copy())
    if positions:
        _check_highest(positions.max())
    optimised = positions.copy()
    optimised.run_optimize()
    return MAGIC + _fill_gaps(optimised.serialize())


def _check_highest(position: int) -> None:
    if position > MAX_POSITION:
        raise RequestError(f"a 64-bit deletion vector holds positions up to {MAX_POSITION}, not {position}")
    if (position >> _LOW_BITS) * _SHORTEST_ENTRY_BYTES > _MAX_BYTES:
        raise RequestError(
            f"position {position} makes a deletion vector of more than {_MAX_BYTES} bytes: every "
            f"2^{_LOW_BITS} rows before it take {_SHORTEST_ENTRY_BYTES}"
        )


def _read_count(data: memoryview) -> int:
    start = len(MAGIC)
    room = len(data) - start - _COUNT.size
    if room < 0:
        raise CorruptIndexError(
            f"expected the number of bitmaps, found {len(data) - start} bytes", offset=start
        )
    (count,) = _COUNT.unpack_from(data, start)
    if not 0 <= count <= room // _SHORTEST_ENTRY_BYTES:
        raise CorruptIndexError(
            f"expected at most {room // _SHORTEST_ENTRY_BYTES} bitmaps in {room} bytes, found {count}",
            offset=start,
        )
    return int(count)


def _read_entry(data: memoryview, at: int) -> tuple[int, BitMap, int]:
    if at + _KEY.size > len(data):
        raise CorruptIndexError("expected another bitmap, found the end of the vector", offset=at)
    (key,) = _KEY.unpack_from(data, at)
    positions, size = read_bitmap(data, at + _KEY.size)
    return key, positions, at + _KEY.size + size


def _fill_gaps(portable: bytes) -> bytes:
    """Add the empty keys that the portable form of 64-bit Roaring omits."""
    empty = BitMap().serialize()
    entries: list[bytes] = []
    at = _COUNT.size
    while at < len(portable):
        (key,) = _KEY.unpack_from(portable, at)
        end = at + _KEY.size + bitmap_size(portable, at + _KEY.size)
        entries += (_KEY.pack(missing) + empty for missing in range(len(entries), key))
        entries.append(portable[at:end])
        at = end
    return _COUNT.pack(len(entries)) + b"".join(entries)

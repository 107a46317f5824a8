"""The bit-slice index inside a range-bitmap: rows by the code of their value.

All integers are big endian, bitmaps are portable roaring.

=================  =============  ========================================================================
width              type           meaning
=================  =============  ========================================================================
4                  i32            head length after this field: 10 + 8 * slices
1                  i8             version, 1
1                  i8             number of slices (published as 4 bytes)
4                  i32            length of the existence bitmap
4                  i32            length of the slice table: 8 * slices
8 for each slice   i32, i32       offset, counted from the end of the existence bitmap, and length
the length above   roaring        existence bitmap: rows that have a value
the rest           roaring ...    slices, least significant bit first
=================  =============  ========================================================================

There are as many slices as the largest code has bits, at least one; where no row has a value, the engine
writes 64 empty ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from app.errors import CorruptIndexError
from app.file_index.payloads.cursor import Cursor
from app.file_index.shared.bit_slices import MAX_SLICES, BitSlices, CodedRows, Extent, slice_codes
from app.types.roaring import Buffer

_HEAD = struct.Struct(">ibbii")

VERSION: Final = 1
ENTRY: Final = struct.Struct(">ii")
HEAD_LENGTH_WITHOUT_TABLE: Final = _HEAD.size - 4


def read(buffer: Buffer, offset: int, codes: int, row_count: int) -> BitSlices:
    """Reads the head; the bitmaps are decoded when they are asked for.

    Args:
        buffer: the range-bitmap, of which this is the last part.
        offset: where this part starts.
        codes: number of distinct codes.

    Raises:
        CorruptIndexError: the head contradicts itself, the bytes or the number of codes.
    """
    cursor = Cursor(buffer, offset)
    head_length = cursor.count("head length of the bit-slice index", each_bytes=1)
    cursor.version("bit-slice index", VERSION)
    slices = cursor.i8("number of slices")
    existing_length = cursor.count("length of the existence bitmap", each_bytes=1)
    table_length = cursor.count("length of the slice table", each_bytes=1)
    if not 0 <= slices <= MAX_SLICES or 1 << slices < codes:
        raise CorruptIndexError(f"expected slices for {codes} codes, found {slices}", offset=offset)
    if table_length != slices * ENTRY.size or head_length != HEAD_LENGTH_WITHOUT_TABLE + table_length:
        raise CorruptIndexError(
            f"expected the lengths of a head with {slices} slices, found {head_length} and {table_length}",
            offset=offset,
        )
    table = cursor.take(table_length, "slice table")
    existing = Extent(cursor.position, existing_length)
    body = existing.offset + existing_length
    extents = tuple(Extent(body + start, length) for start, length in ENTRY.iter_unpack(table))
    return BitSlices(buffer, existing, extents, row_count)


def write(rows: Iterable[CodedRows], cardinality: int) -> list[bytes]:
    """The part for rows that have a value and their codes, below ``cardinality``; in parts itself."""
    slices = max(1, (cardinality - 1).bit_length()) if cardinality else MAX_SLICES
    existing, *bodies = slice_codes(rows, slices)
    table, offset = [], 0
    for body in bodies:
        table.append(ENTRY.pack(offset, len(body)))
        offset += len(body)
    head = _HEAD.pack(
        HEAD_LENGTH_WITHOUT_TABLE + slices * ENTRY.size, VERSION, slices, len(existing), slices * ENTRY.size
    )
    return [head, *table, existing, *bodies]

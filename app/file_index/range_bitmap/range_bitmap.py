"""``range-bitmap``: distinct values with their ranks as codes, and rows by the bits of their codes.

All integers are big endian.

===============  ======  ===========================================================================
width            type    meaning
===============  ======  ===========================================================================
4                i32     head length: from the end of this field to the dictionary
1                i8      version, 1
4                i32     row count
4                i32     number of distinct values c
key, key                 smallest and largest value; absent where c is 0
4                i32     length of the dictionary
the length above         dictionary, see :mod:`app.file_index.range_bitmap.dictionary`
the rest                 bit-slice index: rows by the code of their value
===============  ======  ===========================================================================

The bit-slice index. Its bitmaps are portable roaring:

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

There are as many slices as the largest code has bits, at least one. If no row has a value, the engine writes
64 empty ones.

The index answers every comparison exactly. If c is 0, IS NULL selects every row here. The engine of 1.4 finds
only two.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers import all_rows
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.key_records import stored_keys
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads import join_parts
from app.file_index.range_bitmap import dictionary
from app.file_index.range_bitmap.dictionary import ChunkedDictionary
from app.file_index.shared.bit_slices import MAX_SLICES, BitSlices, CodedRows, Extent, slice_codes
from app.types import TypeRoot
from app.types.roaring import Buffer

_SLICES_HEAD = struct.Struct(">ibbii")

SLICES_VERSION: Final = 1
SLICES_ENTRY: Final = struct.Struct(">ii")
SLICES_HEAD_LENGTH: Final = _SLICES_HEAD.size - 4

VERSION = 1
DEFAULT_CHUNK_BYTES = 16 * 1024

# The engine's default chunk size for these types is 0, which puts each key into a chunk of its own.
_ONE_KEY_A_CHUNK = frozenset({TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT})

_HEAD = struct.Struct(">bii")
_LENGTH = struct.Struct(">i")


def slices_at(buffer: Buffer, offset: int, row_count: int) -> BitSlices:
    """Open the bit-slice index at ``offset``, whose head a stack has checked."""
    _, _, _, existing_length, table_length = _SLICES_HEAD.unpack_from(buffer, offset)
    table = offset + _SLICES_HEAD.size
    existing = Extent(table + table_length, existing_length)
    body = existing.offset + existing_length
    listed = SLICES_ENTRY.iter_unpack(buffer[table : table + table_length])
    extents = tuple(Extent(body + start, length) for start, length in listed)
    return BitSlices(buffer, existing, extents, row_count)


def write_slices(rows: Iterable[CodedRows], cardinality: int) -> list[bytes]:
    """Write the bit-slice index of rows and their codes below ``cardinality``, in parts."""
    slices = max(1, (cardinality - 1).bit_length()) if cardinality else MAX_SLICES
    existing, *bodies = slice_codes(rows, slices)
    table, offset = [], 0
    for body in bodies:
        table.append(SLICES_ENTRY.pack(offset, len(body)))
        offset += len(body)
    head = _SLICES_HEAD.pack(
        SLICES_HEAD_LENGTH + slices * SLICES_ENTRY.size,
        SLICES_VERSION,
        slices,
        len(existing),
        slices * SLICES_ENTRY.size,
    )
    return [head, *table, existing, *bodies]


@dataclass(frozen=True, slots=True)
class RangeBitmap:
    """Rows by the rank of their value. ``bounds``: smallest and largest key. None without values."""

    row_count: int
    cardinality: int
    bounds: tuple[Key, Key] | None
    dictionary: ChunkedDictionary
    slices: BitSlices

    @classmethod
    def of(cls, buffer: Buffer, space: KeySpace) -> Self:
        """Make the index of a payload that a stack has checked."""
        (head_length,) = _LENGTH.unpack_from(buffer)
        _, row_count, cardinality = _HEAD.unpack_from(buffer, _LENGTH.size)
        bounds = None
        if cardinality:
            low, behind = space.read(buffer, _LENGTH.size + _HEAD.size)
            bounds = (low, space.read(buffer, behind)[0])
        start = _LENGTH.size + head_length
        end = start + _LENGTH.unpack_from(buffer, start - _LENGTH.size)[0]
        keys = ChunkedDictionary.at(buffer, start, space)
        return cls(row_count, cardinality, bounds, keys, slices_at(buffer, end, row_count))

    def null_rows(self) -> BitMap:
        """Return rows without a value."""
        return all_rows(self.row_count) - self.slices.existing_rows()

    def value_rows(self) -> BitMap:
        """Return rows with a value."""
        return self.slices.existing_rows()

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Return rows that have one of ``keys``, which ascend."""
        codes = (self.code(key) for key in keys)
        return self.slices.select((code, code + 1) for code in codes if code is not None)

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Return rows with a key in [start, stop). None means unbounded."""
        first = 0 if start is None else self._rank(start)
        behind = self.cardinality if stop is None else self._rank(stop)
        # No row has a code of ``cardinality`` or more, and a range without an end reads fewer slices.
        return self.slices.select([(first, behind if behind < self.cardinality else 1 << MAX_SLICES)])

    def key_counts(self, rows: BitMap | None) -> Iterator[tuple[Key, int]]:
        """Yield the keys of ``rows`` (None: of all rows), ascending, with the number of rows of each."""
        keys = list(self.dictionary.all())
        for code, count in self.slices.code_counts(rows):
            if code >= len(keys):
                raise CorruptIndexError(f"expected codes below {len(keys)}, found {code}")
            yield keys[code], count

    def code(self, key: Key) -> int | None:
        """Return the code of the rows that have ``key``. Return None if no row has it."""
        if self.bounds is None or not self.bounds[0] <= key <= self.bounds[1]:  # type: ignore[operator] # one type's keys
            return None
        code, is_in = self.dictionary.locate(key)
        return code if is_in else None

    def _rank(self, key: Key) -> int:
        if self.bounds is None or key <= self.bounds[0]:  # type: ignore[operator] # one type's keys
            return 0
        return self.cardinality if key > self.bounds[1] else self.dictionary.locate(key)[0]  # type: ignore[operator] # one type's keys


def write(column: KeyColumn, chunk_bytes: int | None = None) -> bytes:
    """Write the index of a column. ``chunk_bytes``: None for the engine's default."""
    if chunk_bytes is None:
        chunk_bytes = 0 if column.data_type.root in _ONE_KEY_A_CHUNK else DEFAULT_CHUNK_BYTES
    return join_parts(_parts(column, chunk_bytes))


def _parts(column: KeyColumn, chunk_bytes: int) -> deque[Buffer]:
    keys, codes = column.distinct()
    slices = write_slices(column.with_rows(codes), len(keys))
    del codes  # as large as the column
    ends = stored_keys(keys.take(np.array([0, -1])), column.space).data.tobytes() if len(keys) else b""
    chunks = dictionary.write(keys, column.space, chunk_bytes)
    dictionary_bytes = sum(map(len, chunks))
    head = b"".join([_HEAD.pack(VERSION, column.row_count, len(keys)), ends, _LENGTH.pack(dictionary_bytes)])
    return deque([_LENGTH.pack(len(head)), head, *chunks, *slices])

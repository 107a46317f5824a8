"""``bitmap``: the rows of each distinct value.

All integers are big endian, bitmaps are portable roaring. A negative offset stands for a set of one row, row
``-1 - offset``. Any other counts from the start of the body.

Version 1:

=================  ============  ==================================================================
width              type          meaning
=================  ============  ==================================================================
1                  i8            1
4                  i32           row count
4                  i32           number of distinct values n
1                  i8            1 if there are null rows
4                  i32           offset of the null rows; absent without them
n entries          key, i32      a value and the offset of its rows, in any order in which offsets of
                                 bitmaps ascend
the rest           roaring ...   body: null rows if there are two or more, then the other bitmaps
=================  ============  ==================================================================

Version 2:

=================  ============  ==================================================================
width              type          meaning
=================  ============  ==================================================================
1                  i8            2
4                  i32           row count
4                  i32           number of distinct values
1                  i8            1 if there are null rows
4, 4               i32, i32      offset and length of the null rows; absent without them
4                  i32           number of blocks b
b records          key, i32      first key of a block and its offset in the block area
4                  i32           length of the block area
the length above                 blocks: i32 number of entries, then key, i32 offset, i32 length each
the rest           roaring ...   body, laid out like that of version 1
=================  ============  ==================================================================

The length of an inline set is not used: -1 in an entry, for null rows that of the bitmap it replaces. Keys
ascend over all blocks. A block holds at most ``index-block-size`` bytes, its count included.

The engine answers no comparisons with this index. This reader does, by the keys. As in SQL, it leaves null
rows out of ``<>`` and NOT IN. The engine does not.

The writer orders bodies, and the entries of version 1, by key. The engine orders them like a Java map. The
engine's reader of version 1 takes the distance of two offsets for the length of a bitmap, so entries and body
must have one order.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers import all_rows
from app.file_index.bitmap.entries import (
    OFFSET,
    BitmapEntries,
    Reference,
    read_reference,
    write_blocks,
)
from app.file_index.keys.key_column import DistinctKeys, KeyColumn
from app.file_index.keys.key_records import key_records
from app.file_index.keys.keys import Key
from app.file_index.payloads import join_parts
from app.types.roaring import Buffer, bitmap_of, read_bitmap, serialize

INLINE_LENGTH: Final = -1

_WORD_BITS = 32

VERSION_1: Final = 1
VERSION_2: Final = 2
DEFAULT_BLOCK_BYTES: Final = 16 * 1024

_HEAD = struct.Struct(">biib")


@dataclass(frozen=True, slots=True)
class BitmapBody:
    """Bitmaps of a column and their places.

    ``offsets``: int32, by code: offset of the key's bitmap from the start of the body, or ``-1 - row`` for a
    single row, which has no bitmap. ``lengths``: int32, by code: bytes of the bitmap, -1 for a single row.
    ``bitmaps``: serialized, in the order of the codes.
    """

    offsets: NDArray[np.int32]
    lengths: NDArray[np.int32]
    bitmaps: tuple[bytes, ...]

    @classmethod
    def of(cls, column: KeyColumn, distinct: DistinctKeys, start: int) -> Self:
        """Build the body of a column. ``start`` is the end of the bitmap of null rows."""
        rows, bounds = _by_code(column, distinct)
        begins, counts = bounds[:-1], np.diff(bounds)
        several = np.flatnonzero(counts > 1)
        bitmaps = tuple(
            serialize(bitmap_of(rows[begin : begin + count]))
            for begin, count in zip(begins[several].tolist(), counts[several].tolist(), strict=True)
        )
        sizes = np.fromiter(map(len, bitmaps), np.int64, len(bitmaps))
        offsets = -1 - rows[begins].astype(np.int64)
        offsets[several] = start + np.cumsum(sizes) - sizes
        lengths = np.full(len(counts), INLINE_LENGTH, np.int32)
        lengths[several] = sizes
        return cls(offsets.astype(np.int32), lengths, bitmaps)


def _by_code(column: KeyColumn, distinct: DistinctKeys) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """Return rows ordered by code, and the start of each code's rows, followed by the end of the last."""
    # Sorting one array of codes with rows in the low bits needs no permutation of the rows.
    rows_by_code = np.empty(len(distinct.codes), "<u8")
    at = 0
    for rows, codes in column.with_rows(distinct.codes):
        rows_by_code[at : at + len(rows)] = codes.astype(np.uint64) << _WORD_BITS | rows
        at += len(rows)
    rows_by_code.sort()
    code_starts = np.arange(len(distinct.keys) + 1, dtype=np.uint64) << _WORD_BITS
    return rows_by_code.view("<u4")[::2], rows_by_code.searchsorted(code_starts)


@dataclass(frozen=True, slots=True)
class BitmapIndex:
    """Rows by value of one payload, which a stack has checked. ``body``: start of its bitmaps."""

    buffer: Buffer
    entries: BitmapEntries
    body: int
    version: int
    row_count: int
    cardinality: int
    has_nulls: bool

    @classmethod
    def of(cls, buffer: Buffer, entries: BitmapEntries, body: int) -> Self:
        """Make the index of a payload."""
        version, row_count, cardinality, flag = _HEAD.unpack_from(buffer)
        return cls(buffer, entries, body, version, row_count, cardinality, flag == 1)

    def null_rows(self) -> BitMap:
        """Return rows without a value."""
        if not self.has_nulls:
            return BitMap()
        return self._union([read_reference(self.buffer, _HEAD.size, self.entries.tail)])

    def value_rows(self) -> BitMap:
        """Return rows with a value."""
        return all_rows(self.row_count) - self.null_rows()

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Return rows that have one of ``keys``, which ascend."""
        references = (self.entries.find(key) for key in keys)
        return self._union(reference for reference in references if reference is not None)

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Return rows with a key in [start, stop). None means unbounded."""
        return self._union(self.entries.between(start, stop))

    def key_counts(self, rows: BitMap | None) -> Iterator[tuple[Key, int]]:
        """Yield the keys of ``rows`` (None: of all rows), ascending, with the number of rows of each."""
        unseen = self.row_count
        for key, reference in self.entries.all():
            bitmap = self._union([reference])
            unseen -= len(bitmap)
            if unseen < 0:
                raise CorruptIndexError("expected a bitmap of its own for each value", offset=self.body)
            count = len(bitmap) if rows is None else bitmap.intersection_cardinality(rows)
            if count:
                yield key, count

    def _union(self, references: Iterable[Reference]) -> BitMap:
        single_rows: list[int] = []
        bitmaps: list[BitMap] = []
        # Each row has one key, so bitmaps never overlap. References to more bytes than the payload has are
        # corrupt, and must not cost more than reading it once.
        remaining_bytes, remaining_references = len(self.buffer) - self.body, max(1, self.cardinality)
        for offset, length in references:
            if offset < 0:
                single_rows.append(-1 - offset)
            else:
                bitmap, size = read_bitmap(self.buffer, self.body + offset, length, row_count=self.row_count)
                bitmaps.append(bitmap)
                remaining_bytes -= size
            remaining_references -= 1
            if remaining_bytes < 0 or remaining_references < 0:
                raise CorruptIndexError("expected a bitmap of its own for each value", offset=self.body)
        singles = BitMap(single_rows)
        if singles and singles.max() >= self.row_count:
            raise CorruptIndexError(
                f"expected rows below {self.row_count}, found {singles.max()}", offset=self.body
            )
        return BitMap.union(singles, *bitmaps)


def write(column: KeyColumn, version: int = VERSION_2, block_bytes: int = DEFAULT_BLOCK_BYTES) -> bytes:
    """Write the index of a column. Raises IndexWriteError if an entry is longer than ``block_bytes``."""
    return join_parts(_parts(column, version, block_bytes))


def _parts(column: KeyColumn, version: int, block_bytes: int) -> deque[Buffer]:
    distinct = column.distinct()
    null_rows = column.null_rows
    null_bitmap = serialize(bitmap_of(null_rows))
    null_body = null_bitmap if len(null_rows) > 1 else b""
    body = BitmapBody.of(column, distinct, len(null_body))
    nulls: tuple[int, ...] = (
        (0 if null_body else -1 - int(null_rows[0]), len(null_bitmap)) if len(null_rows) else ()
    )
    head = _HEAD.pack(version, column.row_count, len(distinct.keys), len(null_rows) > 0)
    entries: list[Buffer]
    # Version 1 has no lengths, neither of the null rows nor in entries.
    if version == VERSION_1:
        nulls = nulls[:1]
        entries = [key_records(distinct.keys, column.space, body.offsets[:, None]).data.data]
    else:
        entries = write_blocks(column, distinct, body.offsets, body.lengths, block_bytes)
    return deque([head, *map(OFFSET.pack, nulls), *entries, null_body, *body.bitmaps])

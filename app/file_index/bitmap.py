"""``bitmap``: the rows of each distinct value.

All integers are big endian, bitmaps are portable roaring. A negative offset stands for a set of one row, row
``-1 - offset``; any other counts from the start of the body.

Version 1:

=================  ============  ==================================================================
width              type          meaning
=================  ============  ==================================================================
1                  i8            1
4                  i32           row count
4                  i32           number of distinct values n
1                  i8            1 if there are null rows
4                  i32           offset of the null rows; absent without them
n entries          key, i32      a value and the offset of its rows, in no order
the rest           roaring ...   body: null rows if there are two or more, the others
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
the rest           roaring ...   body, as above
=================  ============  ==================================================================

The length of an inline set says nothing: -1 in an entry, that of the bitmap it replaces for null rows. Keys
ascend over all blocks. A block holds at most ``index-block-size`` bytes, its count included.

Beyond the engine, which leaves comparisons unanswered here, ranges are read off the keys; and ``<>`` and NOT
IN leave the null rows out, as SQL does and the engine does not.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.bitmap_entries import (
    OFFSET,
    OFFSET_AND_LENGTH,
    BlockedEntries,
    PlainEntries,
)
from app.file_index.cursor import Cursor
from app.file_index.row_index import all_rows
from app.types.roaring import read_bitmap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.file_index.bitmap_entries import Entries, Reference
    from app.file_index.keys import Key, KeySpace
    from app.types import Value
    from app.types.roaring import Buffer

VERSION_1: Final = 1
VERSION_2: Final = 2
DEFAULT_BLOCK_BYTES: Final = 16 * 1024

_HEAD = struct.Struct(">biib")
_COUNT = struct.Struct(">i")
_INLINE_LENGTH = -1


@dataclass(frozen=True, slots=True)
class BitmapHead:
    """What a payload says before the first key.

    Attributes:
        version: 1 or 2.
        row_count: rows of the data file.
        cardinality: number of distinct values.
        nulls: rows without a value; None if every row has one.
    """

    version: int
    row_count: int
    cardinality: int
    nulls: Reference | None

    @classmethod
    def read(cls, cursor: Cursor) -> Self:
        """Reads the head; the cursor ends up behind it.

        Raises:
            CorruptIndexError: the head contradicts itself or the bytes.
        """
        version = cursor.version("bitmap index", VERSION_1, VERSION_2)
        row_count = cursor.count("row count")
        cardinality = cursor.count("number of distinct values", each_bytes=OFFSET.size)
        if cardinality > row_count:
            raise CorruptIndexError(
                f"expected at most {row_count} distinct values, found {cardinality}", offset=0
            )
        if not cursor.flag("flag of null rows"):
            return cls(version, row_count, cardinality, None)
        offset = cursor.i32("offset of the null rows")
        length = cursor.i32("length of the null rows") if version == VERSION_2 else None
        return cls(version, row_count, cardinality, (offset, length))


@dataclass(frozen=True, slots=True)
class BitmapIndex:
    """Rows by value.

    Attributes:
        head: counts and null rows.
        entries: rows of each key.
        body: where the bitmaps start.
        buffer: the payload.
    """

    head: BitmapHead
    entries: Entries
    body: int
    buffer: Buffer

    @classmethod
    def read(cls, buffer: Buffer, space: KeySpace) -> Self:
        """Reads the head; entries and bitmaps are decoded when they are asked for.

        Raises:
            CorruptIndexError: the head contradicts itself or the bytes.
        """
        cursor = Cursor(buffer)
        head = BitmapHead.read(cursor)
        entries: Entries
        if head.version == VERSION_1:
            entries = PlainEntries.read(cursor, space, head.cardinality)
        else:
            entries = BlockedEntries.read(cursor, space)
        return cls(head, entries, cursor.position, buffer)

    @property
    def row_count(self) -> int:
        """Rows of the data file."""
        return self.head.row_count

    def null_rows(self) -> BitMap:
        """Rows without a value."""
        return self._union([] if self.head.nulls is None else [self.head.nulls])

    def value_rows(self) -> BitMap:
        """Rows with a value."""
        return all_rows(self.row_count) - self.null_rows()

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Rows that have one of ``keys``, which ascend."""
        found = (self.entries.find(key) for key in keys)
        return self._union(reference for reference in found if reference is not None)

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Rows with a key from ``start`` up to, but without, ``stop``; None leaves a side open."""
        return self._union(self.entries.between(start, stop))

    def _union(self, references: Iterable[Reference]) -> BitMap:
        """The rows of several keys.

        Each row has one key, so their bitmaps never overlap: a payload with more or longer ones than there
        is room for is corrupt, and must not cost more than reading it once.
        """
        single_rows: list[int] = []
        bitmaps: list[BitMap] = []
        bytes_left, references_left = len(self.buffer) - self.body, max(1, self.head.cardinality)
        for offset, length in references:
            if offset < 0:
                single_rows.append(-1 - offset)
            else:
                bitmap, size = read_bitmap(self.buffer, self.body + offset, length, row_count=self.row_count)
                bitmaps.append(bitmap)
                bytes_left -= size
            references_left -= 1
            if bytes_left < 0 or references_left < 0:
                raise CorruptIndexError("expected a bitmap of its own for each value", offset=self.body)
        singles = BitMap(single_rows)
        if singles and singles.max() >= self.row_count:
            raise CorruptIndexError(
                f"expected rows below {self.row_count}, found {singles.max()}", offset=self.body
            )
        return BitMap.union(singles, *bitmaps)


def write(
    values: Sequence[Value | None],
    space: KeySpace,
    version: int = VERSION_2,
    block_bytes: int = DEFAULT_BLOCK_BYTES,
) -> bytes:
    """The index of a column; the engine writes the body in another order.

    Args:
        values: one for each row.
        space: keys of the column's type.
        version: 1 or 2.
        block_bytes: version 2: bound on the size of a block.

    Raises:
        ValueError: an entry is longer than a block, or there is no such version.
    """
    if version not in (VERSION_1, VERSION_2):
        raise ValueError(f"there is no version {version} of the bitmap index")
    null_rows: list[int] = []
    rows_of: dict[Key, list[int]] = {}
    for row, value in enumerate(values):
        (null_rows if value is None else rows_of.setdefault(space.key(value), [])).append(row)
    body: list[bytes] = []
    size = 0

    def place(rows: Sequence[int]) -> tuple[int, int]:
        """Offset and length of a set of rows, the length also where the set is inline."""
        nonlocal size
        bitmap = BitMap(rows)
        bitmap.run_optimize()
        written = bitmap.serialize()
        if len(rows) == 1:
            return -1 - rows[0], len(written)
        body.append(written)
        size += len(written)
        return size - len(written), len(written)

    form = OFFSET if version == VERSION_1 else OFFSET_AND_LENGTH
    null_place = place(null_rows)[: len(form.format) - 1] if null_rows else None
    entries = [(key, *place(rows_of[key])) for key in sorted(rows_of)]
    head = _HEAD.pack(version, len(values), len(rows_of), null_place is not None)
    nulls = form.pack(*null_place) if null_place else b""
    if version == VERSION_1:
        listed = b"".join(space.write(key) + OFFSET.pack(offset) for key, offset, _ in entries)
    else:
        listed = _write_blocks(entries, space, block_bytes)
    return b"".join([head, nulls, listed, *body])


def _write_blocks(entries: Iterable[tuple[Key, int, int]], space: KeySpace, block_bytes: int) -> bytes:
    """The index of blocks and the block area of version 2."""
    blocks: list[tuple[bytes, list[bytes]]] = []
    used = 0
    for key, offset, length in entries:
        stored = space.write(key)
        entry = stored + OFFSET_AND_LENGTH.pack(offset, _INLINE_LENGTH if offset < 0 else length)
        if _COUNT.size + len(entry) > block_bytes:
            raise ValueError(f"an entry of {len(entry)} bytes does not fit a block of {block_bytes} bytes")
        if not blocks or used + len(entry) > block_bytes:
            blocks.append((stored, []))
            used = _COUNT.size
        blocks[-1][1].append(entry)
        used += len(entry)
    listed, area = [], []
    size = 0
    for first, block in blocks:
        written = b"".join([_COUNT.pack(len(block)), *block])
        listed.append(first + OFFSET.pack(size))
        area.append(written)
        size += len(written)
    return b"".join([_COUNT.pack(len(blocks)), *listed, _COUNT.pack(size), *area])

"""``btree``: keys in their order, each with its rows, in blocks that an index block finds.

=================  ============================================================================
width              meaning
=================  ============================================================================
data blocks        entries (:mod:`app.global_index.blocks`): key, and varint count and row ids
null rows          64-bit Roaring bitmap, then u32 its CRC-32; absent where there are none
bloom filter       of 2.1; is never asked here: of large files it is larger than a data block
index block        entries: last key of each data block, and varint offset and size of the block
52                 footer
=================  ============================================================================

Footer, little endian; a part that is absent has zeros:

======  ================  ====================================================================
offset  type              meaning
======  ================  ====================================================================
0       i64, i32, i64     bloom filter: offset, size, entries
20      i64, i32          index block: offset, size
32      i64, i32          null rows: offset, size without the checksum
44      i32               version 1
48      i32               magic 0x50425449
======  ================  ====================================================================

Written by ``BTreeIndexWriter`` of the engine 1.4 to 2.1 and of pypaimon 2.1. Row ids count from the first row
of the range. A key may stand in two files of a range, whose entries were cut anywhere.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import numpy as np
from pyroaring import BitMap
from typing_extensions import override

from app.errors import CorruptIndexError, UnsupportedFormatError
from app.file_index.keys import Key
from app.global_index.blocks import TRAILER_BYTES, Entries, read_block, read_row_ids, read_varints
from app.global_index.index_file import IndexFile, Piece, RowSet, Search, Tail, portions
from app.global_index.keys import Keys, array_of, check_ascending, place_of, read_keys
from app.types import DataType
from app.types.roaring import bitmap_of

MAGIC: Final = 0x50425449
_VERSION: Final = 1
_FOOTER: Final = struct.Struct("<qiqqiqiii")
_CHECKSUM: Final = struct.Struct("<I")
_OBJECT_BYTES: Final = 64


class Footer(NamedTuple):
    """Where the parts of a file lie; sizes of 0 stand for none."""

    index_offset: int
    index_size: int
    nulls_offset: int
    nulls_size: int

    @classmethod
    def read(cls, tail: Tail) -> Self:
        """The footer at the end of a file.

        Raises:
            CorruptIndexError: there is none.
            UnsupportedFormatError: it is of another version.
        """
        if len(tail.content) < _FOOTER.size:
            raise CorruptIndexError(f"expected a footer of {_FOOTER.size} bytes, found {len(tail.content)}")
        fields = _FOOTER.unpack_from(tail.content, len(tail.content) - _FOOTER.size)
        *_, version, magic = fields
        if magic != MAGIC:
            raise CorruptIndexError(
                f"expected the magic {MAGIC:08x} of a btree, found {magic & 0xFFFFFFFF:08x}"
            )
        if version != _VERSION:
            raise UnsupportedFormatError(f"version {version} of a btree is not read: {_VERSION} is")
        return cls(*fields[3:7])


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The entries of a block and their keys."""

    entries: Entries
    keys: Keys

    @classmethod
    def read(cls, stored: bytes, data_type: DataType) -> Self:
        """A block with its trailer."""
        entries = Entries.read(read_block(stored))
        keys = read_keys(entries.data, entries.key_starts, entries.key_ends, data_type)
        check_ascending(keys)
        return cls(entries, keys)

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        objects = _OBJECT_BYTES * len(self.keys) if self.keys.dtype == object else 0
        return self.entries.nbytes + self.keys.nbytes + objects

    def handles(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Of an index block: offsets and sizes of some data blocks."""
        some = np.array(numbers, np.int64)
        offsets, at = read_varints(self.entries.data, self.entries.value_starts[some])
        sizes, ends = read_varints(self.entries.data, at)
        if not np.array_equal(ends, self.entries.value_ends[some]):
            raise CorruptIndexError("expected offset and size of each data block, found others")
        return zip(offsets.tolist(), sizes.tolist(), strict=True)

    def values(self, asked: Keys) -> list[bytes]:
        """The values of entries that have one of ascending keys."""
        first, last = (np.searchsorted(self.keys, asked, side) for side in ("left", "right"))
        some = np.flatnonzero(last > first)
        numbers = chain.from_iterable(map(range, first[some].tolist(), last[some].tolist()))
        entries = self.entries
        return [entries.data[entries.value_starts[at] : entries.value_ends[at]].tobytes() for at in numbers]

    def rows(self, chosen: slice, row_count: int) -> BitMap:
        """The rows of some entries."""
        entries = self.entries
        ids = read_row_ids(entries.data, entries.value_starts[chosen], entries.value_ends[chosen], row_count)
        return bitmap_of(ids)


@dataclass(frozen=True, slots=True)
class BTreeFile(IndexFile):
    """A file of the kind ``btree``."""

    @override
    def null_rows(self) -> Search:
        (tail,) = yield [self.tail()]
        footer = Footer.read(tail)
        if not footer.nulls_size:
            # Nobody asks for the null rows of a file whose entry tells of none.
            raise CorruptIndexError("expected null rows, as the entry of the file tells, found none")
        size = footer.nulls_size + _CHECKSUM.size
        (rows,) = yield [tail.piece(footer.nulls_offset, size, "null rows", self._read_nulls)]
        found: RowSet = rows
        return found.rows

    @override
    def rows_with(self, keys: Sequence[Key]) -> Search:
        tail, index = yield from self._open()
        asked = array_of(keys, index.keys)
        # A key can go on in the next block where it ends one.
        first, last = (np.searchsorted(index.keys, asked, side) for side in ("left", "right"))
        wanted: set[int] = set()
        for start, stop in set(zip(first.tolist(), last.tolist(), strict=True)):
            wanted.update(range(start, min(stop + 1, len(index.keys))))
        values: list[bytes] = []
        for numbers in portions(sorted(wanted)):
            lows, highs = last.searchsorted(numbers), first.searchsorted(numbers, "right")
            blocks = yield self._pieces(tail, index, numbers)
            for block, low, high in zip(blocks, lows.tolist(), highs.tolist(), strict=True):
                values += block.values(asked[low:high])
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        starts = np.append(np.zeros(1, np.int64), ends)[: len(ends)]
        return bitmap_of(
            read_row_ids(np.frombuffer(b"".join(values), np.uint8), starts, ends, self.row_count)
        )

    @override
    def rows_between(self, start: Key | None, stop: Key | None) -> Search:
        tail, index = yield from self._open()
        first, last = place_of(index.keys, start, 0), place_of(index.keys, stop, len(index.keys))
        matching = BitMap()
        for numbers in portions(range(first, min(last + 1, len(index.keys)))):
            blocks = yield self._pieces(tail, index, numbers)
            for block in blocks:
                low, high = place_of(block.keys, start, 0), place_of(block.keys, stop, len(block.keys))
                matching |= block.rows(slice(low, max(low, high)), self.row_count)
        return matching

    def _open(self) -> Generator[Sequence[Piece], Sequence[Any], tuple[Tail, Block]]:
        (tail,) = yield [self.tail()]
        footer = Footer.read(tail)
        piece = tail.piece(footer.index_offset, footer.index_size + TRAILER_BYTES, "block", self._read_block)
        (index,) = yield [piece]
        return tail, index

    def _pieces(self, tail: Tail, index: Block, numbers: Sequence[int]) -> list[Piece]:
        return [
            tail.piece(offset, size + TRAILER_BYTES, "block", self._read_block)
            for offset, size in index.handles(numbers)
        ]

    def _read_block(self, stored: bytes) -> Block:
        return Block.read(stored, self.data_type)

    def _read_nulls(self, stored: bytes) -> RowSet:
        if len(stored) < _CHECKSUM.size:
            raise CorruptIndexError(f"expected null rows and their checksum, found {len(stored)} bytes")
        data = stored[: -_CHECKSUM.size]
        (checksum,), actual = _CHECKSUM.unpack_from(stored, len(data)), zlib.crc32(data)
        if actual != checksum:
            raise CorruptIndexError(f"expected null rows of checksum {checksum:08x}, found {actual:08x}")
        return RowSet.read(data, self.row_count)

"""``btree``: keys in their order, each with its rows, in blocks that an index block finds.

=================  ============================================================================
width              meaning
=================  ============================================================================
data blocks        entries (:mod:`app.global_index.blocks`): key, and varint count and row ids
null rows          64-bit Roaring bitmap, then u32 its CRC-32; absent where there are none
bloom filter       of 2.1; not read here, since in large files it exceeds a data block
index block        entries: last key of each data block, and varint offset and size of the block
52                 footer
=================  ============================================================================

Footer, little endian. A part that is absent has zeros:

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
of the range. A key may be in two files of a range, since its rows may be split anywhere.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap
from typing_extensions import override

from app.errors import CorruptIndexError, UnsupportedFormatError
from app.file_index.keys import Key
from app.global_index.blocks import TRAILER_BYTES, Claiming, Entries, decoding, read_row_ids, read_varints
from app.global_index.index_file import IndexFile, Piece, RowSet, Search, Tail, portions
from app.global_index.keys import Keys, array_of, check_ascending, place_of, read_keys
from app.types import DataType

MAGIC: Final = 0x50425449
_VERSION: Final = 1
_FOOTER: Final = struct.Struct("<qiqqiqiii")
_CHECKSUM: Final = struct.Struct("<I")
_OBJECT_BYTES: Final = 64
_LARGE_BYTES: Final = 1 << 20


class Footer(NamedTuple):
    """Places of the parts of a file. A part of size 0 is absent."""

    index_offset: int
    index_size: int
    nulls_offset: int
    nulls_size: int

    @classmethod
    def read(cls, tail: Tail) -> Self:
        """Decode the footer at the end of a file.

        Raises CorruptIndexError if there is none. Raises UnsupportedFormatError if it is of another version.
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
    """A data block: its keys, and bounds of the row ids of each in ``data``, int32, shape (n,)."""

    data: NDArray[np.uint8]
    keys: Keys
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    nbytes: int

    @classmethod
    def read(cls, stored: bytes, data_type: DataType) -> Self:
        """Decode a block with its trailer."""
        with decoding() as claim:
            entries, keys = _read_entries(stored, data_type, claim)
            starts, ends = (places.astype(np.int32) for places in (entries.value_starts, entries.value_ends))
            nbytes = entries.data.nbytes + _bytes_of(keys) + starts.nbytes + ends.nbytes
            return cls(entries.data, keys, starts, ends, nbytes)

    def values(self, keys: Keys) -> list[bytes]:
        """Select the serialized row ids of ascending keys."""
        first, last = self.keys.searchsorted(keys).tolist(), self.keys.searchsorted(keys, "right").tolist()
        entries = chain.from_iterable(map(range, first, last))
        return [self.data[self.starts[at] : self.ends[at]].tobytes() for at in entries]

    def rows(self, entries: slice, row_count: int) -> BitMap:
        """Decode the row ids of entries."""
        return read_row_ids(self.data, self.starts[entries], self.ends[entries], row_count)


@dataclass(frozen=True, slots=True, eq=False)
class IndexBlock:
    """The last key of each data block, and offset and size of the block: int64, shape (n,)."""

    keys: Keys
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    nbytes: int

    @classmethod
    def read(cls, stored: bytes, data_type: DataType) -> Self:
        """Decode a block with its trailer."""
        with decoding() as claim:
            entries, keys = _read_entries(stored, data_type, claim)
            offsets, sizes = read_places(entries)
            return cls(keys, offsets, sizes, _bytes_of(keys) + offsets.nbytes + sizes.nbytes)


@dataclass(frozen=True, slots=True)
class BTreeFile(IndexFile):
    """A file of the kind ``btree``."""

    @override
    def null_rows(self) -> Search:
        (tail,) = yield [self.tail()]
        footer = Footer.read(tail)
        if not footer.nulls_size:
            # A search reads null rows only if the entry of the file records some.
            raise CorruptIndexError("expected null rows, as the entry of the file records, found none")
        size = footer.nulls_size + _CHECKSUM.size
        (rows,) = yield [tail.piece(footer.nulls_offset, size, "null rows", self._read_nulls)]
        nulls: RowSet = rows
        return nulls.rows

    @override
    def rows_with(self, keys: Sequence[Key]) -> Search:
        tail, index = yield from self._open()
        literals = array_of(keys, index.keys)
        # If a key ends a block, its rows can continue in the next one.
        first, last = index.keys.searchsorted(literals), index.keys.searchsorted(literals, "right")
        numbers: set[int] = set()
        for start, stop in set(zip(first.tolist(), last.tolist(), strict=True)):
            numbers.update(range(start, min(stop + 1, len(index.keys))))
        matching = BitMap()
        values: list[bytes] = []
        for portion in portions(sorted(numbers)):
            lows, highs = last.searchsorted(portion).tolist(), first.searchsorted(portion, "right").tolist()
            blocks = yield self._pieces(tail, index, portion)
            for block, low, high in zip(blocks, lows, highs, strict=True):
                values += block.values(literals[low:high])
                if len(block.data) > _LARGE_BYTES:
                    matching |= self._rows_of(values)
                    values.clear()
            if sum(map(len, values)) > _LARGE_BYTES:
                matching |= self._rows_of(values)
                values.clear()
        return matching | self._rows_of(values)

    def _rows_of(self, values: Sequence[bytes]) -> BitMap:
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        starts = np.append(np.zeros(1, np.int64), ends)[: len(ends)]
        return read_row_ids(np.frombuffer(b"".join(values), np.uint8), starts, ends, self.row_count)

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

    def _open(self) -> Generator[Sequence[Piece], Sequence[Any], tuple[Tail, IndexBlock]]:
        (tail,) = yield [self.tail()]
        footer = Footer.read(tail)
        size = footer.index_size + TRAILER_BYTES
        (index,) = yield [tail.piece(footer.index_offset, size, "index block", self._read_index)]
        return tail, index

    def _pieces(self, tail: Tail, index: IndexBlock, numbers: Sequence[int]) -> list[Piece]:
        return [
            tail.piece(
                int(index.offsets[at]), int(index.sizes[at]) + TRAILER_BYTES, "block", self._read_block
            )
            for at in numbers
        ]

    def _read_index(self, stored: bytes) -> IndexBlock:
        return IndexBlock.read(stored, self.data_type)

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


def read_places(entries: Entries) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode offset and size of each data block, from the entries of an index block."""
    offsets, at = read_varints(entries.data, entries.value_starts)
    sizes, ends = read_varints(entries.data, at)
    if not np.array_equal(ends, entries.value_ends) or not (offsets[:-1] < offsets[1:]).all():
        raise CorruptIndexError("expected offset and size of each data block in their order, found others")
    return offsets, sizes


def _read_entries(stored: bytes, data_type: DataType, claim: Claiming) -> tuple[Entries, Keys]:
    entries = Entries.read(stored, claim)
    # Text is copied once more as it is cut up.
    claim(len(entries.data))
    keys = read_keys(entries.data, entries.key_starts, entries.key_ends, data_type)
    check_ascending(keys)
    return entries, keys


def _bytes_of(keys: Keys) -> int:
    return keys.nbytes + (_OBJECT_BYTES * len(keys) if keys.dtype == object else 0)

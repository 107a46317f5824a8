"""``bitmap``: a bitmap of rows for each key, in one of two formats that share the name.

The engine 1.4 writes the file index of that name (:mod:`app.file_index.bitmap.bitmap`) as a whole file, for
all rows of the range in order. Since 2.1 the engine writes:

=================  ============================================================================
width              meaning
=================  ============================================================================
bitmaps            64-bit Roaring: null rows, other rows, rows of each key
dictionary blocks  varint n, then n x (varint key length, key, varint offset, varint size of its
                   bitmap), by serialized keys, which is not the order of values
index block        varint n, then n x (first key, offset and size of a dictionary block)
48                 footer
=================  ============================================================================

Blocks have trailers (:mod:`app.global_index.blocks`), bitmaps have none. Footer, **big** endian:

======  ================  ====================================================================
offset  type              meaning
======  ================  ====================================================================
0       i64, i32          null rows: offset, size
12      i64, i32          other rows
24      i64, i32          index block
36      i32               number of keys
40      i32               version 1
44      i32               magic 0x42474958
======  ================  ====================================================================
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap
from typing_extensions import override

from app.errors import CorruptIndexError, UnsupportedFormatError
from app.file_index import open_payload
from app.file_index.answers import RowIndex
from app.file_index.bitmap import BITMAP
from app.file_index.keys import Key
from app.global_index.blocks import TRAILER_BYTES, Claiming, decoding, read_block
from app.global_index.index_file import IndexFile, Piece, RowSet, Search, Tail, portions
from app.global_index.keys import Keys, array_of, is_one_of, read_keys, stored_forms
from app.types import DataType

MAGIC: Final = 0x42474958
_VERSION: Final = 1
_FOOTER: Final = struct.Struct(">qiqiqiiii")
_LEAST_ENTRY_BYTES: Final = 3
_KEY_BYTES: Final = 300
"""Memory of a key while its block is decoded."""


class Footer(NamedTuple):
    """Places of the parts of a file."""

    nulls_offset: int
    nulls_size: int
    not_null_offset: int
    not_null_size: int
    index_offset: int
    index_size: int

    @classmethod
    def read(cls, tail: Tail) -> Self | None:
        """Decode the footer at the end of a file. Return None where the file has the format of 1.4.

        Raises UnsupportedFormatError if it is of another version.
        """
        if len(tail.content) < _FOOTER.size:
            return None
        *fields, _, version, magic = _FOOTER.unpack_from(tail.content, len(tail.content) - _FOOTER.size)
        if magic != MAGIC:
            return None
        if version != _VERSION:
            raise UnsupportedFormatError(f"version {version} of a global bitmap is not read: {_VERSION} is")
        return cls(*fields)


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """A block of keys in the order of their bytes, and offset and size of the bitmap or block of each."""

    stored: list[bytes]
    keys: Keys
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    nbytes: int

    @classmethod
    def read(cls, content: bytes, data_type: DataType) -> Self:
        """Decode a block with its trailer.

        Raises CorruptIndexError if it is damaged, or its keys do not ascend. Raises MemoryShortError or
        LimitExceededError if there is no memory for what it expands to.
        """
        with decoding() as claim:
            return cls._read(content, data_type, claim)

    @classmethod
    def _read(cls, content: bytes, data_type: DataType, claim: Claiming) -> Self:
        block = read_block(content, claim)
        # Bytes are faster to split than text, which would be copied once more.
        claim(2 * len(block))
        data = block.tobytes()
        count, at = _varint(data, 0)
        if _LEAST_ENTRY_BYTES * count > len(data):
            raise CorruptIndexError(f"expected {count} keys, found {len(data)} bytes")
        claim(_KEY_BYTES * count)
        stored: list[bytes] = []
        starts: list[int] = []
        numbers: list[int] = []
        for _ in range(count):
            length, at = _varint(data, at)
            starts.append(at)
            stored.append(data[at : at + length])
            offset, at = _varint(data, at + length)
            size, at = _varint(data, at)
            numbers += (offset, size)
        if at != len(data) or any(map(bytes.__ge__, stored, stored[1:])):
            raise CorruptIndexError("expected a dictionary of ascending keys, found another", offset=at)
        begins = np.array(starts, np.int64)
        lengths = np.fromiter(map(len, stored), np.int64, len(stored))
        keys = read_keys(np.frombuffer(data, np.uint8), begins, begins + lengths, data_type)
        places = np.array(numbers, np.int64).reshape(-1, 2)
        return cls(stored, keys, places[:, 0], places[:, 1], 128 * count + int(lengths.sum()))


def _distinct(block: Dictionary, chosen: Any) -> dict[tuple[int, int], None]:
    """Return places of the chosen keys, each once, in their order."""
    return dict.fromkeys(zip(block.offsets[chosen].tolist(), block.sizes[chosen].tolist(), strict=True))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for place in range(at, min(at + 9, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that is set if more follow
            return number, place + 1
        shift += 7
    raise CorruptIndexError("expected a number of varying width, found none that ends", offset=at)


@dataclass(frozen=True, slots=True)
class WholeIndex:
    """A file of release 1.4, decoded as the file index that it is."""

    index: RowIndex
    nbytes: int


@dataclass(frozen=True, slots=True)
class BitmapFile(IndexFile):
    """A file of the kind ``bitmap``."""

    @override
    def null_rows(self) -> Search:
        (tail,) = yield [self.tail()]
        footer = Footer.read(tail)
        if footer is None:
            index = yield from self._whole(tail)
            return index.null_rows()
        (rows,) = yield [tail.piece(footer.nulls_offset, footer.nulls_size, "rows", self._read_rows)]
        nulls: RowSet = rows
        return nulls.rows

    @override
    def rows_with(self, keys: Sequence[Key]) -> Search:
        def chosen(of_block: Keys) -> NDArray[np.bool_]:
            return is_one_of(of_block, array_of(keys, of_block))

        return self._search(chosen, stored_forms(keys, self.data_type), lambda index: index.rows_with(keys))

    @override
    def rows_between(self, start: Key | None, stop: Key | None) -> Search:
        def chosen(of_block: Keys) -> NDArray[np.bool_]:
            inside = np.ones(len(of_block), np.bool_)
            if start is not None:
                inside &= np.fromiter((key >= start for key in of_block.tolist()), np.bool_, len(of_block))
            if stop is not None:
                inside &= np.fromiter((key < stop for key in of_block.tolist()), np.bool_, len(of_block))
            return inside

        return self._search(chosen, None, lambda index: index.rows_between(start, stop))

    def _search(
        self,
        chosen: Callable[[Keys], NDArray[np.bool_]],
        stored: Sequence[bytes] | None,
        of_whole: Callable[[RowIndex], BitMap],
    ) -> Search:
        """Search for rows of the keys that ``chosen`` selects.

        ``stored``: every serialized form of these keys. None where it cannot be listed.
        ``of_whole``: searches a file of 1.4.
        """
        (tail,) = yield [self.tail()]
        footer = Footer.read(tail)
        if footer is None:
            index = yield from self._whole(tail)
            return of_whole(index)
        index_piece = tail.piece(
            footer.index_offset, footer.index_size + TRAILER_BYTES, "dictionary", self._read_dictionary
        )
        (blocks,) = yield [index_piece]
        holding = slice(None)
        if stored is not None:
            numbers = {bisect_right(blocks.stored, form) - 1 for form in stored} - {-1}
            holding = sorted(numbers)  # type: ignore[assignment] # numbers of blocks
        # A damaged file can name one place very many times.
        places: dict[tuple[int, int], None] = {}
        for portion in portions([*_distinct(blocks, holding)]):
            pieces = [
                tail.piece(offset, size + TRAILER_BYTES, "dictionary", self._read_dictionary)
                for offset, size in portion
            ]
            for block in (yield pieces):
                places |= _distinct(block, chosen(block.keys))
        matching = BitMap()
        for portion_of_places in portions([*places]):
            pieces = [tail.piece(offset, size, "rows", self._read_rows) for offset, size in portion_of_places]
            for rows in (yield pieces):
                matching |= rows.rows
        return matching

    def _whole(self, tail: Tail) -> Generator[Sequence[Piece], Sequence[Any], RowIndex]:
        (whole,) = yield [tail.piece(0, self.size, "whole", self._read_whole)]
        index: RowIndex = whole.index
        return index

    def _read_whole(self, content: bytes) -> WholeIndex:
        stack = open_payload(BITMAP, content, self.data_type)
        index = stack.of_file(0)
        if index.row_count != self.row_count:
            raise CorruptIndexError(f"expected {self.row_count} rows in the range, found {index.row_count}")
        return WholeIndex(index, 4 * len(content))

    def _read_rows(self, content: bytes) -> RowSet:
        return RowSet.read(content, self.row_count)

    def _read_dictionary(self, content: bytes) -> Dictionary:
        return Dictionary.read(content, self.data_type)

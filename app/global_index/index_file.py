"""One global index file as a search sees it: pieces that the caller reads, and the bounds of its keys.

Metadata of an index manifest's entry, little endian:

=============  ==================================================================================
width          meaning
=============  ==================================================================================
i32, bytes     length of the smallest key, and the key
i32, bytes     length of the largest key, and the key
u8             1 if some row has no value
u8             1: two bytes of version 2.0 follow; absent in 1.4
u8             bit 0: there is no smallest key, bit 1: no largest; without them a key of 0 bytes may
               be an empty text as well as none
=============  ==================================================================================
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.keys import Key
from app.global_index.keys import read_key
from app.types import STRING_ROOTS, DataType
from app.types.roaring import read_bitmap

_Item = TypeVar("_Item")

TAIL_BYTES: Final = 64 << 10
"""Bytes of a file's end that are read first: all of a small file, footer and index block of a large one."""

_PIECES_AT_ONCE: Final = 64
_EMPTY_BYTES: Final = 64
_LENGTH: Final = struct.Struct("<i")
_WITH_FLAGS: Final = 1
_BITMAPS: Final = struct.Struct("<QI")


class Piece(NamedTuple):
    """Bytes of a file and their decoder. ``content`` is set where the bytes are in memory already."""

    offset: int
    size: int
    form: str
    read: Callable[[bytes], Any]
    content: bytes | None = None


Search: TypeAlias = Generator[Sequence[Piece], Sequence[Any], BitMap]
"""Yields pieces, is sent them decoded, and returns rows, counted from the first of the range."""


def portions(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Cut items up, so that a search names a bounded number of pieces at a time."""
    return (items[at : at + _PIECES_AT_ONCE] for at in range(0, len(items), _PIECES_AT_ONCE))


class KeyBounds(NamedTuple):
    """Smallest and largest key of a file (None: not recorded), and whether it has keys and null rows."""

    low: Key | None
    high: Key | None
    has_keys: bool
    has_nulls: bool

    @classmethod
    def read(cls, metadata: bytes | None, data_type: DataType) -> Self:
        """Decode the metadata of an entry. Raises CorruptIndexError if it is damaged."""
        if metadata is None:
            return cls(None, None, has_keys=True, has_nulls=True)
        stored: list[bytes | None] = []
        at = 0
        for _ in range(2):
            if at + _LENGTH.size > len(metadata):
                raise CorruptIndexError("expected the smallest and largest key of a global index")
            length = _LENGTH.unpack_from(metadata, at)[0]
            at += _LENGTH.size
            if not 0 <= length <= len(metadata) - at:
                raise CorruptIndexError(f"expected a key of a global index, found {length} bytes", offset=at)
            stored.append(metadata[at : at + length])
            at += length
        rest = metadata[at:]
        if not rest or rest[0] > 1:
            raise CorruptIndexError("expected whether a global index has null rows", offset=at)
        flags = rest[2] if len(rest) > 2 and rest[1] == _WITH_FLAGS else None  # noqa: PLR2004 - see the table
        is_text = data_type.root in STRING_ROOTS
        keys: list[Key | None] = []
        for bit, key in enumerate(stored):
            is_missing = not is_text and not key if flags is None else bool(flags >> bit & 1)
            # Without flags, a key of 0 bytes may be an empty text or no key, so it bounds nothing.
            is_unclear = flags is None and not key
            keys.append(None if is_missing or is_unclear or key is None else read_key(key, data_type))
        has_keys = any(key is not None for key in keys) or (flags is None and is_text)
        if is_text and flags is None and keys[1] is None and has_keys:
            keys[1] = b""
        return cls(keys[0], keys[1], has_keys, bool(rest[0]))


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file, from ``start`` on."""

    start: int
    content: bytes

    @property
    def nbytes(self) -> int:
        """Approximate bytes of memory."""
        return len(self.content)

    def piece(self, offset: int, size: int, form: str, read: Callable[[bytes], Any]) -> Piece:
        """Return a piece, with its bytes if the tail has them. Raises CorruptIndexError if it is outside."""
        if not (offset >= 0 and size >= 0 and offset + size <= self.start + len(self.content)):
            raise CorruptIndexError(f"expected {form} within the file, found {size} bytes at {offset}")
        at = offset - self.start
        return Piece(offset, size, form, read, self.content[at : at + size] if at >= 0 else None)


@dataclass(frozen=True, slots=True)
class IndexFile(ABC):
    """A file: its bytes, the rows of its range, and the type of its keys."""

    size: int
    row_count: int
    data_type: DataType

    @abstractmethod
    def null_rows(self) -> Search:
        """Search for rows without a value."""

    @abstractmethod
    def rows_with(self, keys: Sequence[Key]) -> Search:
        """Search for rows that have one of ascending keys."""

    @abstractmethod
    def rows_between(self, start: Key | None, stop: Key | None) -> Search:
        """Search for rows with a key in [start, stop). None means unbounded."""

    def tail(self) -> Piece:
        """Return the piece at the end of the file, which a search reads first."""
        size = min(self.size, TAIL_BYTES)
        start = self.size - size
        return Piece(start, size, "tail", lambda content: Tail(start, content))


@dataclass(frozen=True, slots=True)
class RowSet:
    """Decoded rows, and the memory that they take."""

    rows: BitMap
    nbytes: int

    @classmethod
    def read(cls, data: bytes, row_count: int) -> Self:
        """Decode rows of a range from 64-bit Roaring: i64 count, then u32 high half and a bitmap of each."""
        if data == bytes(8):
            return cls(BitMap(), _EMPTY_BYTES)
        if len(data) < _BITMAPS.size or _BITMAPS.unpack_from(data) != (1, 0):
            raise CorruptIndexError("expected a bitmap of row ids below 2 ** 32, found another")
        rows, _ = read_bitmap(data, _BITMAPS.size, len(data) - _BITMAPS.size, row_count=row_count)
        return cls(rows, _EMPTY_BYTES + len(data))

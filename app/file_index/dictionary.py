"""The chunked dictionary inside a range-bitmap: distinct keys, each with its rank as its code.

All integers are big endian.

=================  ======  ====================================================================
width              type    meaning
=================  ======  ====================================================================
4                  i32     head length, always 13
1                  i8      version, 1
4                  i32     number of chunks n
4                  i32     length of the chunk offsets: 4 * n
4                  i32     length of the chunk heads
4 for each chunk   i32     offset of the chunk's head within the chunk heads
the length above           chunk heads
the rest                   keys area
=================  ======  ====================================================================

A chunk head; ``keys`` counts the chunk's keys without the first one, which stands in the head itself:

=========  ======  ====================================================================
width      type    meaning
=========  ======  ====================================================================
1          i8      version, 1
key        key     first key
4          i32     code of the first key
4          i32     offset of the further keys in the keys area
4          i32     number of further keys
4          i32     fixed width: their length in bytes; else: length of their offsets, 4 for each
4          i32     fixed width: width of a key; else: length of the keys behind the offsets
=========  ======  ====================================================================

Keys of varying width have i32 offsets in the keys area, counted from the first key behind the offsets. Keys
ascend within chunks and from chunk to chunk, codes go on without gaps.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from app.errors import CorruptIndexError
from app.file_index.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.file_index.keys import Key, KeySpace
    from app.types.roaring import Buffer

VERSION: Final = 1
HEAD_LENGTH: Final = 13
OFFSET: Final = struct.Struct(">i")

_HEAD = struct.Struct(">ibiii")
_CHUNK_TAIL = struct.Struct(">iiiii")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Keys that follow one another.

    Attributes:
        first: its first key.
        code: code of the first key.
        keys_start: where the further keys, or the offsets that lead to them, start in the buffer.
        keys: number of further keys.
    """

    first: Key
    code: int
    keys_start: int
    keys: int


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Keys and their codes; a look-up reads the few keys that it compares.

    Attributes:
        buffer: bytes that end with the dictionary's.
        space: how keys are stored.
        size: number of keys.
        chunks: number of chunks.
        heads_area: where the chunk heads start.
        keys_area: where the keys area starts.
    """

    buffer: Buffer
    space: KeySpace
    size: int
    chunks: int
    heads_area: int
    keys_area: int

    @classmethod
    def read(cls, buffer: Buffer, offset: int, space: KeySpace, size: int) -> Self:
        """Reads the head of the dictionary of ``size`` keys from ``offset`` to the end of the buffer.

        Raises:
            CorruptIndexError: the head contradicts itself or the bytes.
        """
        cursor = Cursor(buffer, offset)
        head_length = cursor.i32("head length of the dictionary")
        cursor.version("dictionary", VERSION)
        chunks = cursor.count("number of chunks", each_bytes=OFFSET.size)
        offsets_length = cursor.i32("length of the chunk offsets")
        heads_length = cursor.count("length of the chunk heads", each_bytes=1)
        if head_length != HEAD_LENGTH or offsets_length != chunks * OFFSET.size:
            raise CorruptIndexError(
                f"expected the lengths {HEAD_LENGTH} and {chunks * OFFSET.size} in the dictionary's head, "
                f"found {head_length} and {offsets_length}",
                offset=offset,
            )
        if (chunks == 0) != (size == 0):
            raise CorruptIndexError(f"expected chunks for {size} keys, found {chunks}", offset=offset)
        cursor.take(offsets_length, "chunk offsets")
        heads_area = cursor.position
        cursor.take(heads_length, "chunk heads")
        return cls(buffer, space, size, chunks, heads_area, cursor.position)

    def locate(self, key: Key) -> tuple[int, bool]:
        """The number of keys below ``key``, and whether it is one of the keys; then this is its code.

        Raises:
            CorruptIndexError: a chunk that has to be looked at contradicts the bytes or its neighbours.
        """
        behind = bisect_right(range(self.chunks), key, key=self._first_key)
        if behind == 0:
            return 0, False
        chunk = self._chunk(behind - 1)
        if key == chunk.first:
            return chunk.code, True
        at = bisect_left(range(chunk.keys), key, key=lambda number: self._further_key(chunk, number))
        found = at < chunk.keys and self._further_key(chunk, at) == key
        return chunk.code + 1 + at, found

    def _head_offset(self, chunk: int) -> int:
        (offset,) = OFFSET.unpack_from(self.buffer, self.heads_area - OFFSET.size * (self.chunks - chunk))
        if not 0 <= offset < self.keys_area - self.heads_area:
            raise CorruptIndexError(f"expected chunk {chunk} among the chunk heads, found offset {offset}")
        return self.heads_area + int(offset)

    def _first_key(self, chunk: int) -> Key:
        return self.space.read(self.buffer, self._head_offset(chunk) + 1)[0]

    def _chunk(self, number: int) -> _Chunk:
        head = self._head_offset(number)
        cursor = Cursor(self.buffer, head)
        cursor.version("chunk", VERSION)
        first, cursor.position = self.space.read(self.buffer, cursor.position)
        code, offset, keys, first_length, second_length = _CHUNK_TAIL.unpack(
            cursor.take(_CHUNK_TAIL.size, "chunk head")
        )
        width = self.space.width
        if width is None:
            expected, length = first_length == OFFSET.size * keys, first_length + second_length
        else:
            expected, length = (first_length, second_length) == (width * keys, width), first_length
        if keys < 0 or not expected or not 0 <= code < self.size - keys:
            raise CorruptIndexError(
                f"expected a chunk of the {self.size} keys, found {keys} behind code {code}, {length} bytes",
                offset=head,
            )
        start = self.keys_area + offset
        if offset < 0 or second_length < 0 or start + length > len(self.buffer):
            raise CorruptIndexError(f"expected {length} bytes of keys, found fewer", offset=start)
        return _Chunk(first, code, start, keys)

    def _further_key(self, chunk: _Chunk, number: int) -> Key:
        if self.space.width is not None:
            return self.space.read(self.buffer, chunk.keys_start + number * self.space.width)[0]
        (offset,) = OFFSET.unpack_from(self.buffer, chunk.keys_start + number * OFFSET.size)
        return self.space.read(self.buffer, chunk.keys_start + chunk.keys * OFFSET.size + offset)[0]


def write(keys: Sequence[Key], space: KeySpace, chunk_bytes: int) -> bytes:
    """The dictionary of distinct ascending keys.

    Args:
        keys: in the order of their codes.
        space: how they are stored.
        chunk_bytes: bound on a chunk's further keys, and separately on their offsets.
    """
    heads, areas, offsets = [], [], []
    heads_length = area_length = 0
    for code, chunk in _chunks(keys, space, chunk_bytes):
        first, *further = chunk
        area, lengths = _keys_area(further, space)
        head = bytes([VERSION]) + first + _CHUNK_TAIL.pack(code, area_length, len(further), *lengths)
        offsets.append(OFFSET.pack(heads_length))
        heads.append(head)
        areas.append(area)
        heads_length += len(head)
        area_length += len(area)
    chunk_count = len(heads)
    head = _HEAD.pack(HEAD_LENGTH, VERSION, chunk_count, chunk_count * OFFSET.size, heads_length)
    return b"".join([head, *offsets, *heads, *areas])


def _chunks(keys: Sequence[Key], space: KeySpace, chunk_bytes: int) -> Iterator[tuple[int, list[bytes]]]:
    """``(code of the first key, stored keys)`` of each chunk."""
    chunk: list[bytes] = []
    code = used = 0
    for at, key in enumerate(keys):
        stored = space.write(key)
        if chunk and _fits(used + len(stored), len(chunk), space, chunk_bytes):
            chunk.append(stored)
            used += len(stored)
            continue
        if chunk:
            yield code, chunk
        chunk, code, used = [stored], at, 0
    if chunk:
        yield code, chunk


def _fits(keys_bytes: int, keys: int, space: KeySpace, chunk_bytes: int) -> bool:
    offsets_bytes = OFFSET.size * keys if space.width is None else 0
    return keys_bytes <= chunk_bytes and offsets_bytes <= chunk_bytes


def _keys_area(further: Sequence[bytes], space: KeySpace) -> tuple[bytes, tuple[int, int]]:
    """The further keys as stored, and the two lengths of the chunk head."""
    stored = b"".join(further)
    if space.width is not None:
        return stored, (len(stored), space.width)
    offsets, offset = [], 0
    for key in further:
        offsets.append(OFFSET.pack(offset))
        offset += len(key)
    return b"".join([*offsets, stored]), (OFFSET.size * len(further), len(stored))

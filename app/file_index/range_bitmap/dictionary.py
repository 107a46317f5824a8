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

A chunk head. ``keys`` counts the chunk's keys without the first one, which is in the head itself:

=========  ======  ====================================================================
width      type    meaning
=========  ======  ====================================================================
1          i8      version, 1
key        key     first key
4          i32     code of the first key
4          i32     offset of the further keys in the keys area
4          i32     number of further keys
4          i32     fixed width: their length in bytes; else: length of their offsets, 4 for each
4          i32     fixed width: width of a key; else: length of the keys after the offsets
=========  ======  ====================================================================

Keys of varying width have i32 offsets in the keys area, counted from the first key after the offsets. Keys
ascend within chunks and from chunk to chunk, codes have no gaps.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.file_index.keys.arrow_keys import ArrowKeys
from app.file_index.keys.key_records import KeyRecords, key_records, stored_keys
from app.file_index.keys.keys import Key, KeySpace
from app.types.roaring import Buffer

VERSION: Final = 1
HEAD_LENGTH: Final = 13
OFFSET: Final = struct.Struct(">i")

_HEAD = struct.Struct(">ibiii")
_CHUNK_TAIL = struct.Struct(">iiiii")


@dataclass(frozen=True, slots=True)
class _Chunk:
    # The first key is in the chunk's head; ``keys`` counts the further ones at ``keys_start``.
    first: Key
    code: int
    keys_start: int
    keys: int


@dataclass(frozen=True, slots=True)
class ChunkedDictionary:
    """Checked keys and their codes. Areas are given as offsets. A look-up decodes few of the keys."""

    buffer: Buffer
    space: KeySpace
    chunks: int
    heads_area: int
    keys_area: int

    @classmethod
    def at(cls, buffer: Buffer, offset: int, space: KeySpace) -> Self:
        """Open the dictionary that starts at ``offset``."""
        _, _, chunks, offsets_length, heads_length = _HEAD.unpack_from(buffer, offset)
        heads_area = offset + _HEAD.size + offsets_length
        return cls(buffer, space, chunks, heads_area, heads_area + heads_length)

    def locate(self, key: Key) -> tuple[int, bool]:
        """Return the number of keys below ``key``, and True if it is present. The number is then its code."""
        behind = bisect_right(range(self.chunks), key, key=self._first_key)
        if behind == 0:
            return 0, False
        chunk = self._chunk(behind - 1)
        if key == chunk.first:
            return chunk.code, True
        at = bisect_left(range(chunk.keys), key, key=lambda number: self._further_key(chunk, number))
        is_key = at < chunk.keys and self._further_key(chunk, at) == key
        return chunk.code + 1 + at, is_key

    def all(self) -> Iterator[Key]:
        """Yield every key, in the order of the codes."""
        for number in range(self.chunks):
            chunk = self._chunk(number)
            yield chunk.first
            for at in range(chunk.keys):
                yield self._further_key(chunk, at)

    def _head_offset(self, chunk: int) -> int:
        (offset,) = OFFSET.unpack_from(self.buffer, self.heads_area - OFFSET.size * (self.chunks - chunk))
        return self.heads_area + int(offset)

    def _first_key(self, chunk: int) -> Key:
        return self.space.read(self.buffer, self._head_offset(chunk) + 1)[0]

    def _chunk(self, number: int) -> _Chunk:
        first, tail = self.space.read(self.buffer, self._head_offset(number) + 1)
        code, offset, keys, _, _ = _CHUNK_TAIL.unpack_from(self.buffer, tail)
        return _Chunk(first, code, self.keys_area + offset, keys)

    def _further_key(self, chunk: _Chunk, number: int) -> Key:
        if self.space.width is not None:
            return self.space.read(self.buffer, chunk.keys_start + number * self.space.width)[0]
        (offset,) = OFFSET.unpack_from(self.buffer, chunk.keys_start + number * OFFSET.size)
        return self.space.read(self.buffer, chunk.keys_start + chunk.keys * OFFSET.size + offset)[0]


def write(keys: ArrowKeys, space: KeySpace, chunk_bytes: int) -> list[Buffer]:
    """Write distinct ascending keys in parts. ``chunk_bytes``: limit of a chunk's further keys or offsets."""
    stored = stored_keys(keys, space)
    firsts = _first_codes(stored, space, chunk_bytes)
    behind = np.append(firsts[1:], len(stored))[: len(firsts)]
    further = behind - firsts - 1
    keys_starts = stored.starts(firsts + 1)
    lengths = stored.starts(behind) - keys_starts
    if space.width is None:
        stated, area_lengths = (OFFSET.size * further, lengths), OFFSET.size * further + lengths
    else:
        stated, area_lengths = (lengths, np.full_like(further, space.width)), lengths
    tails = np.stack([firsts, np.cumsum(area_lengths) - area_lengths, further, *stated], axis=1)
    heads = key_records(keys.take(firsts), space, tails, lead=bytes([VERSION]))
    offsets = heads.starts(np.arange(len(heads))).astype(">i4").tobytes()
    head = _HEAD.pack(HEAD_LENGTH, VERSION, len(firsts), len(offsets), len(heads.data))
    parts: list[Buffer] = [head, offsets, heads.data.data]
    for chunk in np.flatnonzero(further):
        start = keys_starts[chunk]
        if space.width is None:
            chunk_keys = np.arange(firsts[chunk] + 1, behind[chunk])
            parts.append((stored.starts(chunk_keys) - start).astype(">i4").tobytes())
        parts.append(stored.data[start : start + lengths[chunk]].data)
    return parts


def _first_codes(stored: KeyRecords, space: KeySpace, chunk_bytes: int) -> NDArray[np.int64]:
    most_further = chunk_bytes // OFFSET.size if space.width is None else len(stored)
    firsts = array("q")
    first = 0
    while first < len(stored):
        firsts.append(first)
        first = min(stored.behind_fitting(first + 1, chunk_bytes), first + 1 + most_further)
    return np.array(firsts, np.int64)

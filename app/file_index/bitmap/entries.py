"""Entries of a bitmap index, which give the bitmap of each key.

Entries stay as bytes. Only the start of each is kept. A look-up is a binary search that decodes the few keys
it compares.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import IndexWriteError
from app.file_index.keys.key_column import DistinctKeys, KeyColumn
from app.file_index.keys.key_records import key_records
from app.file_index.keys.keys import Key, KeySpace, key_bytes
from app.file_index.payloads import Cursor
from app.types import to_json
from app.types.roaring import Buffer

OFFSET = struct.Struct(">i")
OFFSET_AND_LENGTH = struct.Struct(">ii")

_COUNT = struct.Struct(">i")


Reference: TypeAlias = tuple[int, int | None]
"""A set of rows: offset of its bitmap in the body, or ``-1 - row`` for one row, and length if stored."""


@dataclass(frozen=True, slots=True)
class BitmapEntries:
    """Entries of one file, checked by a stack. ``places``: start of each entry, in the order of the keys."""

    buffer: Buffer
    space: KeySpace
    places: Sequence[int] | NDArray[np.unsignedinteger]
    # Format of the bytes after each key.
    tail: struct.Struct

    def bounds(self) -> tuple[Key, Key] | None:
        """Return the smallest and the largest key. Return None if there are none."""
        places = self.places
        return (self._key(places[0]), self._key(places[-1])) if len(places) else None

    def find(self, key: Key) -> Reference | None:
        """Return the rows of one key. Return None if no row has it."""
        at = self._below(key)
        if at == len(self.places) or self._key(self.places[at]) != key:
            return None
        return self._reference(self.places[at])

    def between(self, start: Key | None, stop: Key | None) -> Iterator[Reference]:
        """Return rows of each key in [start, stop). None means unbounded."""
        first = 0 if start is None else self._below(start)
        behind = len(self.places) if stop is None else self._below(stop)
        return map(self._reference, self.places[first:behind])

    def all(self) -> Iterator[tuple[Key, Reference]]:
        """Yield every key, ascending, with its rows."""
        for place in self.places:
            yield self._key(place), self._reference(place)

    def _below(self, key: Key) -> int:
        return bisect_left(self.places, key, key=self._key)

    def _key(self, place: int | np.unsignedinteger) -> Key:
        return self.space.read(self.buffer, int(place))[0]

    def _reference(self, place: int | np.unsignedinteger) -> Reference:
        at, width = int(place), self.space.width
        at += key_bytes(self.buffer, at) if width is None else width
        return read_reference(self.buffer, at, self.tail)


def read_reference(buffer: Buffer, at: int, form: struct.Struct) -> Reference:
    """Read the reference at offset ``at`` of a payload that a stack has checked."""
    offset, *length = form.unpack_from(buffer, at)
    return offset, length[0] if length else None


def measure_records(cursor: Cursor, count: int, tail_bytes: int) -> Sequence[int]:
    """Return the start of each of ``count`` records. Raises CorruptIndexError if the buffer ends too early.

    A record is a key of varying width, followed by ``tail_bytes`` bytes.
    """
    positions = array("q")
    for _ in range(count):
        positions.append(cursor.position)
        cursor.take(cursor.count("length of a key", each_bytes=1) + tail_bytes, "entry")
    return positions


def write_blocks(
    column: KeyColumn,
    distinct: DistinctKeys,
    offsets: NDArray[np.int32],
    lengths: NDArray[np.int32],
    block_bytes: int,
) -> list[Buffer]:
    """Write the index of blocks and the block area of version 2. ``offsets`` and ``lengths``: by code.

    Raises IndexWriteError if an entry is longer than a block.
    """
    entries = key_records(distinct.keys, column.space, np.stack([offsets, lengths], axis=1))
    space = block_bytes - _COUNT.size
    firsts, first = array("q"), 0
    while first < len(entries):
        firsts.append(first)
        first = entries.behind_fitting(first, space)
        if first == firsts[-1]:
            raise _too_long(column, distinct, first, space)
    begins = np.array(firsts, np.int64)
    behind = np.append(begins[1:], len(entries))[: len(begins)]
    starts, ends = entries.starts(begins), entries.starts(behind)
    sizes = _COUNT.size + ends - starts
    block_starts = np.cumsum(sizes) - sizes
    listed = key_records(distinct.keys.take(begins), column.space, block_starts[:, None])
    written: list[Buffer] = [_COUNT.pack(len(begins)), listed.data.data, _COUNT.pack(int(sizes.sum()))]
    for count, start, end in zip((behind - begins).tolist(), starts.tolist(), ends.tolist(), strict=True):
        written += [_COUNT.pack(count), entries.data[start:end].data]
    return written


def _too_long(column: KeyColumn, distinct: DistinctKeys, code: int, space: int) -> IndexWriteError:
    shown = to_json(column.space.value(distinct.key(code)), column.data_type)
    return IndexWriteError(
        f"a block of the bitmap index has room for entries of {space} bytes, which is too few for "
        f"{shown!r:.100}; choose a larger index-block-size",
        column=column.name,
        row=int(column.value_rows[np.flatnonzero(distinct.codes == code)[0]]),
    )

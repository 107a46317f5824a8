"""The entries of a bitmap index: which bitmap belongs to which key.

Entries stay as bytes. What is kept of them is where each one starts, in the order of the keys, so that a
look-up is a binary search that decodes the few keys it compares.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, IndexWriteError
from app.file_index.keys.key_column import DistinctKeys, KeyColumn
from app.file_index.keys.key_records import key_records
from app.file_index.keys.keys import Key, KeySpace, key_bytes
from app.file_index.payloads.cursor import Cursor
from app.types import to_json
from app.types.roaring import Buffer

OFFSET = struct.Struct(">i")
OFFSET_AND_LENGTH = struct.Struct(">ii")

_COUNT = struct.Struct(">i")


Reference: TypeAlias = tuple[int, int | None]
"""A set of rows: the offset of its bitmap from the start of the body, negative for the set of the one row
``-1 - offset``; and the bytes of the bitmap, None where the format does not tell."""


class Entries(Protocol):
    """Keys and their sets of rows."""

    def bounds(self) -> tuple[Key, Key] | None:
        """The smallest and the largest key; None if there are none."""

    def find(self, key: Key) -> Reference | None:
        """The rows of one key; None if no row has it."""

    def between(self, start: Key | None, stop: Key | None) -> Iterator[Reference]:
        """The rows of each key from ``start`` up to, but without, ``stop``; None leaves a side open."""

    def all(self) -> Iterator[tuple[Key, Reference]]:
        """Every key, ascending, and its rows."""


@dataclass(frozen=True, slots=True)
class Records:
    """Stored records that begin with a key, ordered by it; ``positions``: where each record starts."""

    buffer: Buffer
    space: KeySpace
    positions: Sequence[int]

    def key(self, position: int) -> Key:
        """The key of the record that starts at ``position``."""
        return self.space.read(self.buffer, position)[0]

    def behind_key(self, position: int) -> int:
        """Where the record that starts at ``position`` goes on after its key."""
        width = self.space.width
        return position + (key_bytes(self.buffer, position) if width is None else width)

    def below(self, key: Key) -> int:
        """Number of records with a smaller key."""
        return bisect_left(self.positions, key, key=self.key)

    def up_to(self, key: Key) -> int:
        """Number of records with this or a smaller key."""
        return bisect_right(self.positions, key, key=self.key)


def measure_records(cursor: Cursor, space: KeySpace, count: int, tail_bytes: int) -> Sequence[int]:
    """Where each of the next ``count`` records starts: a key each, and ``tail_bytes`` behind it.

    Raises CorruptIndexError: the buffer ends before they do.
    """
    start = cursor.position
    if space.width is not None:
        stride = space.width + tail_bytes
        cursor.take(count * stride, f"{count} entries")
        return range(start, cursor.position, stride)
    positions = array("q")
    for _ in range(count):
        positions.append(cursor.position)
        cursor.take(cursor.count("length of a key", each_bytes=1) + tail_bytes, "entry")
    return positions


@dataclass(frozen=True, slots=True)
class PlainEntries:
    """Entries of version 1: one list, stored in no order; no lengths."""

    records: Records

    @classmethod
    def read(cls, cursor: Cursor, space: KeySpace, count: int) -> PlainEntries:
        """Measures and orders the entries; the cursor ends up behind them.

        Raises CorruptIndexError: the buffer ends before they do.
        """
        positions = measure_records(cursor, space, count, OFFSET.size)
        by_key = sorted(positions, key=lambda at: space.read(cursor.buffer, at)[0])
        return cls(Records(cursor.buffer, space, array("q", by_key)))

    def bounds(self) -> tuple[Key, Key] | None:
        """The smallest and the largest key; None if there are none."""
        positions = self.records.positions
        return (self.records.key(positions[0]), self.records.key(positions[-1])) if positions else None

    def find(self, key: Key) -> Reference | None:
        """The rows of one key; None if no row has it."""
        at = self.records.below(key)
        positions = self.records.positions
        if at == len(positions) or self.records.key(positions[at]) != key:
            return None
        return self._reference(positions[at])

    def between(self, start: Key | None, stop: Key | None) -> Iterator[Reference]:
        """The rows of each key from ``start`` up to, but without, ``stop``."""
        return map(self._reference, _slice(self.records, start, stop))

    def all(self) -> Iterator[tuple[Key, Reference]]:
        """Every key, ascending, and its rows."""
        for position in self.records.positions:
            yield self.records.key(position), self._reference(position)

    def _reference(self, position: int) -> Reference:
        (offset,) = OFFSET.unpack_from(self.records.buffer, self.records.behind_key(position))
        return offset, None


@dataclass(frozen=True, slots=True)
class BlockedEntries:
    """Entries of version 2: blocks in the order of their keys, found by the first key of each.

    ``blocks``: one record for each block: its first key and its offset in the block area. ``area``: where the
    block area starts.
    """

    blocks: Records
    area: int
    end: int

    @classmethod
    def read(cls, cursor: Cursor, space: KeySpace) -> BlockedEntries:
        """Measures the index of blocks; the cursor ends up behind the block area.

        Raises CorruptIndexError: the buffer ends before they do.
        """
        count = cursor.count("number of blocks", each_bytes=OFFSET.size)
        positions = measure_records(cursor, space, count, OFFSET.size)
        size = cursor.count("size of the block area", each_bytes=1)
        area = cursor.position
        cursor.take(size, "block area")
        return cls(Records(cursor.buffer, space, positions), area, cursor.position)

    def bounds(self) -> tuple[Key, Key] | None:
        """The smallest and the largest key; None if there are none."""
        positions = self.blocks.positions
        if not positions:
            return None
        last = self._entries(positions[-1])
        return self.blocks.key(positions[0]), last.key(last.positions[-1])

    def find(self, key: Key) -> Reference | None:
        """The rows of one key; None if no row has it."""
        block = self.blocks.up_to(key) - 1
        if block < 0:
            return None
        entries = self._entries(self.blocks.positions[block])
        at = entries.below(key)
        if at == len(entries.positions) or entries.key(entries.positions[at]) != key:
            return None
        return _reference(entries, entries.positions[at])

    def between(self, start: Key | None, stop: Key | None) -> Iterator[Reference]:
        """The rows of each key from ``start`` up to, but without, ``stop``."""
        first = 0 if start is None else max(0, self.blocks.up_to(start) - 1)
        behind = len(self.blocks.positions) if stop is None else self.blocks.below(stop)
        for block in self.blocks.positions[first:behind]:
            entries = self._entries(block)
            yield from map(partial(_reference, entries), _slice(entries, start, stop))

    def all(self) -> Iterator[tuple[Key, Reference]]:
        """Every key, ascending, and its rows."""
        for block in self.blocks.positions:
            entries = self._entries(block)
            for position in entries.positions:
                yield entries.key(position), _reference(entries, position)

    def _entries(self, block: int) -> Records:
        buffer, space = self.blocks.buffer, self.blocks.space
        (offset,) = OFFSET.unpack_from(buffer, self.blocks.behind_key(block))
        if not 0 <= offset < self.end - self.area:
            raise CorruptIndexError(
                f"expected a block within {self.end - self.area} bytes, found offset {offset}", offset=block
            )
        cursor = Cursor(buffer[: self.end], self.area + offset)
        count = cursor.count("number of entries of a block", each_bytes=OFFSET_AND_LENGTH.size)
        if count == 0:
            raise CorruptIndexError("expected a block with entries, found none", offset=self.area + offset)
        return Records(buffer, space, measure_records(cursor, space, count, OFFSET_AND_LENGTH.size))


def _slice(records: Records, start: Key | None, stop: Key | None) -> Sequence[int]:
    first = 0 if start is None else records.below(start)
    behind = len(records.positions) if stop is None else records.below(stop)
    return records.positions[first:behind]


def _reference(entries: Records, position: int) -> Reference:
    offset, length = OFFSET_AND_LENGTH.unpack_from(entries.buffer, entries.behind_key(position))
    return offset, length


def write_blocks(
    column: KeyColumn,
    distinct: DistinctKeys,
    offsets: NDArray[np.int32],
    lengths: NDArray[np.int32],
    block_bytes: int,
) -> list[Buffer]:
    """The index of blocks and the block area of version 2.

    Args:
        offsets: of the rows of each.
        lengths: of their bitmaps.

    Raises:
        IndexWriteError: an entry is longer than a block.
    """
    entries = key_records(distinct.keys, column.space, np.stack([offsets, lengths], axis=1))
    room = block_bytes - _COUNT.size
    firsts, first = array("q"), 0
    while first < len(entries):
        firsts.append(first)
        first = entries.behind_fitting(first, room)
        if first == firsts[-1]:
            raise _too_long(column, distinct, first, room)
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


def _too_long(column: KeyColumn, distinct: DistinctKeys, code: int, room: int) -> IndexWriteError:
    shown = to_json(column.space.value(distinct.key(code)), column.data_type)
    return IndexWriteError(
        f"a block of the bitmap index has room for entries of {room} bytes, which is too few for "
        f"{shown!r:.100}; choose a larger index-block-size",
        column=column.name,
        row=int(column.value_rows[np.flatnonzero(distinct.codes == code)[0]]),
    )

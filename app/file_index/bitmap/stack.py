"""The bitmap indexes of one column of many files: which files have which value.

To tell files, only the key of an entry is taken in, so that an entry without rows, which the engine never
writes, counts as a value of the file here. Heads and entries of all files are read side by side.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from app.errors import CorruptIndexError
from app.file_index.answers.file_answers import Answer, Answers, where
from app.file_index.answers.row_index import RowStack
from app.file_index.bitmap import entries as bitmap_entries
from app.file_index.bitmap.bitmap import VERSION_1, VERSION_2
from app.file_index.bitmap.entries import OFFSET, OFFSET_AND_LENGTH
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads.cursor import NO_LONGER_WORTH_A_STEP, Cursor, Cursors, integers, runs_of
from app.file_index.shared.directory import Directory, StoredKeys
from app.types.bytes_column import BytesColumn
from app.types.roaring import COOKIE_WITH_RUNS, COOKIE_WITHOUT_RUNS

_LENGTH = struct.Struct(">i")


def measure_records(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], tail_bytes: int
) -> StoredKeys:
    """Finds the next ``counts[i]`` records of each string, and moves the cursors behind them.

    Args:
        cursors: at the first record of each string; strings that end too early are no longer sound.
        counts: records of each string; no more than its bytes can hold.
        tail_bytes: bytes of a record behind its key.

    Returns:
        The records of sound strings; the owner of each is the string's position.
    """
    if space.width is None:
        return _walk(cursors, space, counts, tail_bytes)
    starts = cursors.at
    cursors.skip(counts * (space.width + tail_bytes))
    return StoredKeys(*runs_of(starts, np.where(cursors.sound, counts, 0), space.width + tail_bytes))


def behind_keys(data: NDArray[np.uint8], stored: StoredKeys, space: KeySpace) -> NDArray[np.int64]:
    """Where each record goes on after its key."""
    if space.width is not None:
        return stored.places + space.width
    return stored.places + _LENGTH.size + integers(data, stored.places, _LENGTH.format)


def _walk(cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], tail_bytes: int) -> StoredKeys:
    counts = np.where(cursors.sound, counts, 0)
    owners, slots = runs_of(np.cumsum(counts) - counts, counts, 1)
    places = np.zeros(len(slots), np.int64)
    first = np.cumsum(counts) - counts
    strings, step = np.flatnonzero(counts), 0
    walkers = cursors.take(strings)
    while len(strings) > NO_LONGER_WORTH_A_STEP:
        places[first[strings] + step] = walkers.at
        walkers.skip(walkers.count(each_bytes=1) + tail_bytes)
        step += 1
        goes_on = walkers.sound & (counts[strings] > step)
        if not goes_on.all():
            cursors.put(strings, walkers)
            strings, walkers = strings[goes_on], walkers.take(np.flatnonzero(goes_on))
    view = cursors.data.data
    for at, string in enumerate(strings.tolist()):
        cursor = Cursor(view[: cursors.ends[string]], int(walkers.at[at]))
        left = slice(first[string] + step, first[string] + counts[string])
        try:
            places[left] = bitmap_entries.measure_records(cursor, space, counts[string] - step, tail_bytes)
        except CorruptIndexError:
            walkers.sound[at] = False
        walkers.at[at] = cursor.position
    cursors.put(strings, walkers)
    return StoredKeys(owners, places).only(cursors.sound)


_COOKIES: Final = (COOKIE_WITHOUT_RUNS, COOKIE_WITH_RUNS)


@dataclass(frozen=True, slots=True, eq=False)
class StoredEntries:
    """What m indexes say before their bitmaps; numbers of indexes that are not sound mean nothing.

    Attributes:
        row_counts: int64, shape (m,): rows of each file.
        flags: int64, shape (m,): 1 where there are null rows.
        keys: the key of each entry, with its file and place.
        sound: bool, shape (m,): which indexes can be read.
    """

    versions: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    flags: NDArray[np.int64]
    keys: StoredKeys
    sound: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads all heads and entries. A null is not sound."""
        cursors = Cursors.of(payloads)
        versions = cursors.i8()
        cursors.expect((versions == VERSION_1) | (versions == VERSION_2))
        row_counts, cardinalities = cursors.count(), cursors.count(each_bytes=OFFSET.size)
        flags = cursors.i8()
        cursors.expect((cardinalities <= row_counts) & ((flags == 0) | (flags == 1)))
        # A row has a value or it has none.
        cursors.expect((cardinalities + flags > 0) | (row_counts == 0))
        first, second = (np.flatnonzero(cursors.sound & (versions == version)) for version in (1, 2))
        plain, blocked = cursors.take(first), cursors.take(second)
        of_first = _plain_keys(plain, space, cardinalities[first], flags[first]).of(first)
        of_second = _blocked_keys(blocked, space, cardinalities[second], flags[second]).of(second)
        cursors.put(first, plain)
        cursors.put(second, blocked)
        stored = StoredKeys(
            np.concatenate([of_first.owners, of_second.owners]),
            np.concatenate([of_first.places, of_second.places]),
        )
        return cls(versions, row_counts, flags, stored, cursors.sound)


def _plain_keys(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], flags: NDArray[np.int64]
) -> StoredKeys:
    in_body = _null_rows_in_body(cursors, flags)
    cursors.skip(flags * OFFSET.size)
    stored = measure_records(cursors, space, counts, OFFSET.size)
    offsets = integers(cursors.data, behind_keys(cursors.data, stored, space), OFFSET.format)
    in_body[stored.owners[offsets >= 0]] = True
    # Nothing else tells a wrong number of entries: the first bitmap stands right behind the last entry.
    body = cursors.take(np.arange(len(counts)))
    starts_well = np.isin(body.u32_le() & 0xFFFF, _COOKIES)
    cursors.expect(np.where(in_body, starts_well, cursors.remaining == 0))
    return stored


def _null_rows_in_body(cursors: Cursors, flags: NDArray[np.int64]) -> NDArray[np.bool_]:
    peeking = cursors.take(np.arange(len(flags)))
    in_body: NDArray[np.bool_] = (flags == 1) & (peeking.i32() >= 0)
    return in_body


def _blocked_keys(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], flags: NDArray[np.int64]
) -> StoredKeys:
    data = cursors.data
    cursors.skip(flags * OFFSET_AND_LENGTH.size)
    listed = measure_records(cursors, space, cursors.count(each_bytes=OFFSET.size), OFFSET.size)
    sizes = cursors.count(each_bytes=1)
    areas = cursors.at
    cursors.skip(sizes)
    offsets = integers(data, behind_keys(data, listed, space), OFFSET.format)
    of_block = listed.owners
    inside = cursors.sound[of_block] & (offsets >= 0) & (offsets < sizes[of_block])
    starts = areas[of_block]
    blocks = Cursors(data, np.where(inside, starts + offsets, 0), starts + sizes[of_block], inside)
    entry_counts = blocks.count(each_bytes=OFFSET_AND_LENGTH.size)
    blocks.expect(entry_counts > 0)
    # Blocks that overlap could hold more entries, and more bytes of keys, than there is room for.
    fits = np.bincount(of_block, entry_counts, len(counts)) == counts
    blocks.expect(fits[of_block])
    stored = measure_records(blocks, space, entry_counts, OFFSET_AND_LENGTH.size)
    fits &= np.bincount(of_block, blocks.at - starts - offsets, len(counts)) <= sizes
    cursors.expect(fits & (np.bincount(of_block, ~blocks.sound, len(counts)) == 0))
    return stored.of(of_block).only(cursors.sound)


@dataclass(frozen=True, slots=True, eq=False)
class BitmapStack(RowStack):
    """Values of m files; ``with_nulls``: bool, shape (m,): which files have null rows."""

    directory: Directory
    row_counts: NDArray[np.int64]
    with_nulls: NDArray[np.bool_]
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads all heads and entries. A null is a file without such an index."""
        entries = StoredEntries.read(payloads, space)
        directory, wrong = Directory.build(payloads.data, entries.keys, space, entries.versions == VERSION_2)
        broken = ~payloads.is_null & (~entries.sound | wrong)
        return cls(directory, entries.row_counts, entries.flags == 1, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        arrays = (self.row_counts, self.with_nulls, self.broken)
        return self.directory.nbytes + sum(each.nbytes for each in arrays)

    @override
    def null_rows(self) -> Answers:
        return where(self.with_nulls, Answer.ROWS)

    @override
    def value_rows(self) -> Answers:
        return where(self.directory.distinct > 0, Answer.ROWS)

    @override
    def rows_with(self, keys: Sequence[Key]) -> Answers:
        return where(self.directory.having(keys), Answer.ROWS)

    @override
    def rows_without(self, keys: Sequence[Key]) -> Answers:
        return where(self.directory.having_others(keys), Answer.ROWS)

    @override
    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        return where(self.directory.having_between(start, stop), Answer.ROWS)

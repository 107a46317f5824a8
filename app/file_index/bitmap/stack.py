"""The bitmap indexes of one column of many files, as a directory of the values of each file.

Only the keys of entries decide about files, so an entry without rows, which the engine never writes, counts
as a value of the file. The stack reads heads and entries of all files side by side and keeps the places of
the entries, which lead to the rows of one file.
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
from app.file_index.answers import Answer, Answers, RowStack, where
from app.file_index.bitmap import entries as bitmap_entries
from app.file_index.bitmap.bitmap import VERSION_1, VERSION_2, BitmapIndex
from app.file_index.bitmap.entries import OFFSET, OFFSET_AND_LENGTH, BitmapEntries
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads import NO_LONGER_WORTH_A_STEP, Cursor, Cursors, integers, runs_of
from app.file_index.shared.directory import Directory, StoredKeys, place_type
from app.types import BytesColumn
from app.types.roaring import COOKIE_WITH_RUNS, COOKIE_WITHOUT_RUNS

_LENGTH = struct.Struct(">i")
_COOKIE_BYTES: Final = 4


def measure_records(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], tail_bytes: int
) -> StoredKeys:
    """Find the next ``counts[i]`` records of each string, and move the cursors past them.

    A record is a key, followed by ``tail_bytes`` bytes. ``counts`` must fit the strings. Strings that end too
    early are no longer sound. Return the records of sound strings, each owned by the string's position.
    """
    if space.width is None:
        return _walk(cursors, counts, tail_bytes)
    starts = cursors.at
    cursors.skip(counts * (space.width + tail_bytes), "entries")
    return StoredKeys(*runs_of(starts, np.where(cursors.sound, counts, 0), space.width + tail_bytes))


def behind_keys(data: NDArray[np.uint8], stored: StoredKeys, space: KeySpace) -> NDArray[np.int64]:
    """Return the offset after the key of each record."""
    if space.width is not None:
        return stored.places + space.width
    return stored.places + _LENGTH.size + integers(data, stored.places, _LENGTH.format)


def _walk(cursors: Cursors, counts: NDArray[np.int64], tail_bytes: int) -> StoredKeys:
    counts = np.where(cursors.sound, counts, 0)
    owners, slots = runs_of(np.cumsum(counts) - counts, counts, 1)
    places = np.zeros(len(slots), np.int64)
    first = np.cumsum(counts) - counts
    strings, step = np.flatnonzero(counts), 0
    walkers = cursors.take(strings)
    while len(strings) > NO_LONGER_WORTH_A_STEP:
        places[first[strings] + step] = walkers.at
        walkers.skip(walkers.count("length of a key", each_bytes=1) + tail_bytes, "an entry")
        step += 1
        has_more = walkers.sound & (counts[strings] > step)
        if not has_more.all():
            cursors.put(strings, walkers)
            strings, walkers = strings[has_more], walkers.take(np.flatnonzero(has_more))
    view = cursors.data.data
    for at, string in enumerate(strings.tolist()):
        cursor = Cursor(view[: cursors.ends[string]], int(walkers.at[at]))
        rest = slice(first[string] + step, first[string] + counts[string])
        try:
            places[rest] = bitmap_entries.measure_records(cursor, counts[string] - step, tail_bytes)
        except CorruptIndexError as error:
            walkers.fail(at, error)
        walkers.at[at] = cursor.position
    cursors.put(strings, walkers)
    return StoredKeys(owners, places).only(cursors.sound)


_COOKIES: Final = (COOKIE_WITHOUT_RUNS, COOKIE_WITH_RUNS)


@dataclass(frozen=True, slots=True, eq=False)
class BitmapHeads:
    """Heads of m payloads, int64, shape (m,). ``flags``: 1 if there are null rows."""

    versions: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    cardinalities: NDArray[np.int64]
    flags: NDArray[np.int64]

    @classmethod
    def read(cls, cursors: Cursors) -> Self:
        """Read the heads and leave the cursors past them."""
        versions = cursors.version("bitmap index", VERSION_1, VERSION_2)
        row_counts = cursors.count("row count")
        cardinalities = cursors.count("number of distinct values", each_bytes=OFFSET.size)
        cursors.expect(cardinalities <= row_counts, "no more distinct values than rows", cardinalities)
        flags = cursors.flag("flag of null rows")
        cursors.expect((cardinalities + flags > 0) | (row_counts == 0), "a value or none in each row")
        return cls(versions, row_counts, cardinalities, flags)


@dataclass(frozen=True, slots=True, eq=False)
class StoredEntries:
    """Heads and keys of m indexes. Numbers of indexes that are not sound are undefined.

    ``keys``: the key of each entry, with its file and place. Files ascend. ``bodies``: int64, shape (m,):
    start of the bitmaps in the shared buffer. ``sound``: bool, shape (m,): indexes that can be read.
    """

    heads: BitmapHeads
    keys: StoredKeys
    bodies: NDArray[np.int64]
    sound: NDArray[np.bool_]

    @classmethod
    def read(cls, cursors: Cursors, space: KeySpace) -> Self:
        """Read all heads and entries."""
        heads = BitmapHeads.read(cursors)
        parts: list[StoredKeys] = []
        for version, read_keys in ((VERSION_1, _plain_keys), (VERSION_2, _blocked_keys)):
            files = np.flatnonzero(cursors.sound & (heads.versions == version))
            of_version = cursors.take(files)
            keys = read_keys(of_version, space, heads.cardinalities[files], heads.flags[files])
            parts.append(keys.of(files))
            cursors.put(files, of_version)
        owners = np.concatenate([part.owners for part in parts])
        places = np.concatenate([part.places for part in parts])
        if all(len(part.owners) for part in parts):
            order = np.argsort(owners, kind="stable")
            owners, places = owners[order], places[order]
        return cls(heads, StoredKeys(owners, places), cursors.at, cursors.sound)


def _plain_keys(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], flags: NDArray[np.int64]
) -> StoredKeys:
    in_body = _null_rows_in_body(cursors, flags)
    cursors.skip(flags * OFFSET.size, "offset of the null rows")
    stored = measure_records(cursors, space, counts, OFFSET.size)
    offsets = integers(cursors.data, behind_keys(cursors.data, stored, space), OFFSET.format)
    in_body[stored.owners[offsets >= 0]] = True
    # Only this reveals a wrong number of entries: the first bitmap follows the last entry directly.
    body = cursors.take(np.arange(len(counts)))
    cookies = integers(body.data, np.where(body.remaining >= _COOKIE_BYTES, body.at, 0), "<u4")
    starts_well = (body.remaining >= _COOKIE_BYTES) & np.isin(cookies & 0xFFFF, _COOKIES)
    cursors.expect(np.where(in_body, starts_well, cursors.remaining == 0), "bitmaps right after the entries")
    return stored


def _null_rows_in_body(cursors: Cursors, flags: NDArray[np.int64]) -> NDArray[np.bool_]:
    files = np.flatnonzero(flags == 1)
    in_body = np.zeros(len(flags), np.bool_)
    in_body[files] = cursors.take(files).i32("offset of the null rows") >= 0
    return in_body


def _blocked_keys(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], flags: NDArray[np.int64]
) -> StoredKeys:
    data = cursors.data
    cursors.skip(flags * OFFSET_AND_LENGTH.size, "offset and length of the null rows")
    block_counts = cursors.count("number of blocks", each_bytes=OFFSET.size)
    listed = measure_records(cursors, space, block_counts, OFFSET.size)
    sizes = cursors.count("size of the block area", each_bytes=1)
    areas = cursors.at
    cursors.skip(sizes, "block area")
    stated = behind_keys(data, listed, space)
    offsets = integers(data, stated, OFFSET.format)
    of_block = listed.owners
    inside = cursors.sound[of_block] & (offsets >= 0) & (offsets < sizes[of_block])
    starts = areas[of_block]
    blocks = cursors.within(
        starts + offsets, starts + sizes[of_block], inside, stated, "a block within the block area"
    )
    entry_counts = blocks.count("number of entries of a block", each_bytes=OFFSET_AND_LENGTH.size)
    blocks.expect(entry_counts > 0, "a block with entries", entry_counts)
    # Blocks that overlap could hold more entries, and more bytes of keys, than the payload.
    fits = np.bincount(of_block, entry_counts, len(counts)) == counts
    blocks.expect(fits[of_block], "as many entries as distinct values")
    stored = measure_records(blocks, space, entry_counts, OFFSET_AND_LENGTH.size)
    fits &= np.bincount(of_block, blocks.at - starts - offsets, len(counts)) <= sizes
    fits &= np.bincount(of_block, ~blocks.sound, len(counts)) == 0
    cursors.expect(fits, "blocks that do not overlap, with as many entries as distinct values")
    return stored.of(of_block).only(cursors.sound)


@dataclass(frozen=True, slots=True, eq=False)
class BitmapStack(RowStack[BitmapIndex]):
    """Values of m files.

    Attributes:
        with_nulls: bool, shape (m,): files that have null rows.
        places: start of each entry in the shared buffer, file by file, in the order of storage.
        first_places: int64, shape (m,): position in ``places`` of the first entry of each file.
        bodies: int64, shape (m,): start of the bitmaps in the shared buffer.
    """

    payloads: BytesColumn
    space: KeySpace
    directory: Directory
    row_counts: NDArray[np.int64]
    with_nulls: NDArray[np.bool_]
    places: NDArray[np.unsignedinteger]
    first_places: NDArray[np.int64]
    bodies: NDArray[np.int64]
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> Self:
        """Read many payloads. See :meth:`app.file_index.kind.Kind.stack`."""
        cursors = Cursors.of(payloads, strict=strict)
        entries = StoredEntries.read(cursors, space)
        heads, keys = entries.heads, entries.keys
        directory, wrong = Directory.build(payloads.data, keys, space, heads.versions == VERSION_2)
        cursors.expect(~wrong, "each value once, and in order where blocks list them")
        return cls(
            payloads,
            space,
            directory,
            heads.row_counts,
            heads.flags == 1,
            keys.places.astype(place_type(payloads.data)),
            np.cumsum(directory.distinct) - directory.distinct,
            entries.bodies,
            ~payloads.is_null & ~cursors.sound,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        arrays = (
            self.payloads.starts,
            self.payloads.lengths,
            self.row_counts,
            self.with_nulls,
            self.places,
            self.first_places,
            self.bodies,
            self.broken,
        )
        return self.directory.nbytes + sum(array.nbytes for array in arrays)

    @override
    def of_file(self, file: int) -> BitmapIndex:
        start, first = int(self.payloads.starts[file]), int(self.first_places[file])
        data = self.payloads.data.data
        payload = data[start : start + int(self.payloads.lengths[file])]
        places = self.places[first : first + int(self.directory.distinct[file])]
        if payload[0] == VERSION_2:
            entries = BitmapEntries(data, self.space, places, OFFSET_AND_LENGTH)
        else:
            by_key = sorted(places.tolist(), key=lambda place: self.space.read(data, place)[0])
            entries = BitmapEntries(data, self.space, by_key, OFFSET)
        return BitmapIndex.of(payload, entries, int(self.bodies[file]) - start)

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

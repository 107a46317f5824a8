"""The range-bitmaps of one column of many files, as a directory of the values of each file.

Only the dictionaries are read. Bit slices, which hold the rows, are not. Codes must be without a gap up to
the number of distinct values. A dictionary is corrupt if its chunks and keys overlap so much that together
they have more bytes than it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from app.file_index.answers import Answer, Answers, RowStack, where
from app.file_index.keys.keys import FloatingKeys, Key, KeySpace
from app.file_index.payloads import Cursors, integers, runs_of
from app.file_index.range_bitmap import range_bitmap
from app.file_index.range_bitmap.dictionary import HEAD_LENGTH, OFFSET, VERSION
from app.file_index.range_bitmap.ordered_keys import OrderedKeys, SearchableKeys
from app.file_index.range_bitmap.range_bitmap import RangeBitmap
from app.file_index.shared.bit_slices import MAX_SLICES, null_rows
from app.file_index.shared.directory import Directory, StoredKeys, as_keys
from app.types import NULL_LENGTH, BytesColumn

_LENGTH_BYTES: Final = 4
_ENDS: Final = "the dictionary's first and last key as smallest and largest value"


def read_keys(cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64]) -> StoredKeys:
    """Read every key of every dictionary, for a type whose keys vary in length.

    ``cursors``: at the dictionaries, and ending with them. Those at broken ones are not sound afterwards.
    Return the keys of sound dictionaries, in the order of storage.
    """
    sizes = cursors.remaining
    chunks = _read_chunks(cursors, space, cardinalities)
    further_at = _further_keys(cursors.data, chunks)
    stored = _interleave(chunks.first_at, further_at, chunks.further, chunks.sound).of(chunks.owners)
    return _within(stored, cursors, sizes)


def read_values(
    cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64], width: int
) -> OrderedKeys:
    """Read every key of every dictionary, for a type whose keys are integers of ``width`` bytes."""
    chunks = _read_chunks(cursors, space, cardinalities)
    rows, data = np.flatnonzero(chunks.sound), cursors.data
    pieces = [data[:0]]
    for first, start, further in zip(
        chunks.first_at[rows].tolist(),
        chunks.starts[rows].tolist(),
        chunks.further[rows].tolist(),
        strict=True,
    ):
        # A chunk usually holds thousands of keys, which are adjacent except for the first.
        pieces += data[first : first + width], data[start : start + further * width]
    values = _values(np.concatenate(pieces).view(f">i{width}"), space)
    keys = np.where(chunks.sound, chunks.further + 1, 0)
    distinct = np.bincount(chunks.owners, keys, len(cardinalities)).astype(np.int64)
    return OrderedKeys(values.astype(f"i{width}"), distinct)


def values_at(
    cursors: Cursors, space: KeySpace, places: NDArray[np.int64], width: int
) -> NDArray[np.signedinteger]:
    """Read keys of ``width`` bytes at ``places``. They are undefined for cursors that are not sound."""
    inside = np.where(cursors.sound, places, 0)
    return _values(integers(cursors.data, inside.ravel(), f">i{width}").reshape(places.shape), space)


def _values(stored: NDArray[np.signedinteger], space: KeySpace) -> NDArray[np.signedinteger]:
    return as_keys(stored.astype(np.int64), space) if isinstance(space, FloatingKeys) else stored


def have_ends(stored: StoredKeys, cursors: Cursors, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which dictionaries, shape (m,), have the first and last key at ``ends``, int64, shape (2, m)."""
    owners, first = np.unique(stored.owners, return_index=True)
    have = np.ones(len(cursors.at), bool)
    for expected, at in zip(ends, (first, np.append(first, len(stored.owners))[1:] - 1), strict=True):
        starts, expected_at = stored.places[at], expected[owners]
        lengths = integers(cursors.data, starts, ">i") + _LENGTH_BYTES
        equal = integers(cursors.data, expected_at, ">i") + _LENGTH_BYTES == lengths
        of_key, places = runs_of(starts, np.where(equal, lengths, 0), 1)
        shifted = places + (expected_at - starts)[of_key]
        equal[of_key[cursors.data[places] != cursors.data[shifted]]] = False
        have[owners[~equal]] = False
    return have


@dataclass(frozen=True, slots=True, eq=False)
class _Chunks:
    """Chunks, shape (chunks,), by dictionary. ``owners``: dictionaries, ``further``: keys after the first."""

    owners: NDArray[np.int64]
    first_at: NDArray[np.int64]
    further: NDArray[np.int64]
    starts: NDArray[np.int64]
    sound: NDArray[np.bool_]


def _read_chunks(cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64]) -> _Chunks:
    head_lengths = cursors.i32("head length of the dictionary")
    cursors.expect(
        head_lengths == HEAD_LENGTH, f"{HEAD_LENGTH} as the head length of the dictionary", head_lengths
    )
    cursors.version("dictionary", VERSION)
    chunk_counts = cursors.count("number of chunks", each_bytes=OFFSET.size)
    cursors.expect((chunk_counts == 0) == (cardinalities == 0), "chunks where there are keys", chunk_counts)
    offsets_lengths = cursors.i32("length of the chunk offsets")
    cursors.expect(offsets_lengths == chunk_counts * OFFSET.size, "an offset for each chunk", offsets_lengths)
    heads_lengths = cursors.count("length of the chunk heads", each_bytes=1)
    offsets_at = cursors.at
    cursors.skip(offsets_lengths, "chunk offsets")
    heads_at = cursors.at
    cursors.skip(heads_lengths, "chunk heads")
    owners, places = runs_of(offsets_at, np.where(cursors.sound, chunk_counts, 0), OFFSET.size)
    offsets = integers(cursors.data, places, OFFSET.format)
    inside = (offsets >= 0) & (offsets < heads_lengths[owners])
    heads = cursors.within(
        heads_at[owners] + offsets, cursors.ends[owners], inside, places, "a chunk among the chunk heads"
    )
    return _checked(heads, owners, cursors, space, cardinalities)


def _checked(
    chunks: Cursors,
    owners: NDArray[np.int64],
    cursors: Cursors,
    space: KeySpace,
    cardinalities: NDArray[np.int64],
) -> _Chunks:
    chunks.version("chunk", VERSION)
    first_at = chunks.at
    skip_keys(chunks, space)
    codes, offsets = chunks.i32("code of a chunk"), chunks.i32("offset of a chunk's keys")
    further = chunks.count("number of keys of a chunk")
    first_lengths, second_lengths = chunks.i32("length of keys"), chunks.i32("length of keys")
    if space.width is None:
        lengths = first_lengths + second_lengths
        fits = (first_lengths == OFFSET.size * further) & (second_lengths >= 0)
    else:
        lengths = first_lengths
        fits = (first_lengths == space.width * further) & (second_lengths == space.width)
    chunks.expect(fits, "the lengths of the keys of a chunk")
    within = (offsets >= 0) & (offsets + lengths <= cursors.remaining[owners])
    chunks.expect(within, "the keys of a chunk within the dictionary")
    keys = np.where(chunks.sound, further + 1, 0)
    before = np.cumsum(keys) - keys
    firsts = np.searchsorted(owners, np.arange(len(cardinalities)))
    expected = before - np.append(before, 0)[firsts][owners]
    chunks.expect(codes == expected, "codes that go on from chunk to chunk", codes)
    counted = np.bincount(owners, keys, len(cardinalities)) == cardinalities
    stored_bytes = np.bincount(owners, lengths, len(cardinalities)) <= cursors.remaining
    whole = np.bincount(owners, ~chunks.sound, len(cardinalities)) == 0
    cursors.expect(counted & stored_bytes & whole, "as many keys as distinct values in the dictionary")
    chunks.expect(cursors.sound[owners], "a whole dictionary")
    return _Chunks(
        owners, first_at, np.where(chunks.sound, further, 0), cursors.at[owners] + offsets, chunks.sound
    )


def _further_keys(data: NDArray[np.uint8], chunks: _Chunks) -> NDArray[np.int64]:
    of_key, places = runs_of(chunks.starts, chunks.further, OFFSET.size)
    return (chunks.starts + chunks.further * OFFSET.size)[of_key] + integers(data, places, OFFSET.format)


def _interleave(
    first_at: NDArray[np.int64],
    further_at: NDArray[np.int64],
    further: NDArray[np.int64],
    sound: NDArray[np.bool_],
) -> StoredKeys:
    counts = np.where(sound, further + 1, 0)
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.empty(len(owners), np.int64)
    is_first = np.zeros(len(owners), bool)
    is_first[(np.cumsum(counts) - counts)[sound]] = True
    places[is_first], places[~is_first] = first_at[sound], further_at
    return StoredKeys(owners, places)


def _within(stored: StoredKeys, cursors: Cursors, sizes: NDArray[np.int64]) -> StoredKeys:
    count = len(cursors.at)
    inside = (stored.places >= 0) & (stored.places < cursors.ends[stored.owners])
    ends, stated = cursors.ends[stored.owners], cursors.at[stored.owners]
    keys = cursors.within(stored.places, ends, inside, stated, "a key within the dictionary")
    lengths = keys.count("length of a key", each_bytes=1)
    cursors.expect(np.bincount(stored.owners, ~keys.sound, count) == 0, "keys within the dictionary")
    cursors.expect(np.bincount(stored.owners, lengths, count) <= sizes, "keys that do not overlap")
    return stored.only(cursors.sound)


def skip_keys(cursors: Cursors, space: KeySpace) -> None:
    """Move the cursors past the next key."""
    cursors.skip(
        cursors.count("length of a key", each_bytes=1) if space.width is None else space.width, "a key"
    )


@dataclass(frozen=True, slots=True, eq=False)
class RangeBitmapHeads:
    """Heads of m payloads, int64, shape (m,). ``lengths``: bytes of the heads."""

    lengths: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    cardinalities: NDArray[np.int64]

    @classmethod
    def read(cls, cursors: Cursors) -> Self:
        """Read the heads and leave the cursors past them."""
        lengths = cursors.count("head length of the range-bitmap", each_bytes=1)
        cursors.version("range-bitmap", range_bitmap.VERSION)
        row_counts, cardinalities = cursors.count("row count"), cursors.count("number of distinct values")
        cursors.expect(cardinalities <= row_counts, "no more distinct values than rows", cardinalities)
        return cls(lengths, row_counts, cardinalities)


@dataclass(frozen=True, eq=False)
class RangeBitmapStack(RowStack[RangeBitmap]):
    """Values of m files. ``existing``: the bitmap of each file's rows that have a value."""

    payloads: BytesColumn
    space: KeySpace
    dictionary: SearchableKeys
    row_counts: NDArray[np.int64]
    existing: BytesColumn
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> Self:
        """Read many payloads. See :meth:`app.file_index.kind.Kind.stack`."""
        cursors = Cursors.of(payloads, strict=strict)
        heads = RangeBitmapHeads.read(cursors)
        cardinalities = heads.cardinalities
        valued = np.flatnonzero(cardinalities)
        bounded = cursors.take(valued)
        bounds = np.zeros((2, len(payloads)), np.int64)
        for ends in bounds:
            ends[valued] = bounded.at
            skip_keys(bounded, space)
        cursors.put(valued, bounded)
        lengths = cursors.count("length of the dictionary", each_bytes=1)
        behind_head = payloads.starts + _LENGTH_BYTES + heads.lengths
        cursors.expect(cursors.at == behind_head, "a head of its length", heads.lengths)
        ends = np.where(cursors.sound, cursors.at + lengths, 0)
        inner = Cursors(payloads.data, cursors.at, ends, cursors.sound, strict=strict)
        keys: OrderedKeys | Directory
        if space.width is None:
            stored = read_keys(inner, space, cardinalities)
            inner.expect(have_ends(stored, cursors, bounds), _ENDS)
            keys, wrong = Directory.build(payloads.data, stored, space, np.ones(len(payloads), bool))
        else:
            keys = read_values(inner, space, cardinalities, space.width)
            inner.expect(~keys.differ(values_at(inner, space, bounds, space.width)), _ENDS)
            wrong = keys.unordered()
        cursors.expect(inner.sound, "a whole dictionary")
        cursors.expect(~wrong, "keys in ascending order")
        cursors.skip(lengths, "dictionary")
        existing = _existing_rows(cursors, cardinalities)
        broken = ~payloads.is_null & ~cursors.sound
        return cls(payloads, space, SearchableKeys(keys), heads.row_counts, existing, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        columns = [
            array for column in (self.payloads, self.existing) for array in (column.starts, column.lengths)
        ]
        arrays = (self.row_counts, self.broken, *columns)
        return self.dictionary.nbytes + sum(array.nbytes for array in arrays)

    @override
    def of_file(self, file: int) -> RangeBitmap:
        return RangeBitmap.of(self.payloads.view(file) or b"", self.space)

    @override
    def null_rows(self) -> Answers:
        return self._null_rows

    @override
    def value_rows(self) -> Answers:
        return where(self.dictionary.distinct > 0, Answer.ROWS)

    @override
    def rows_with(self, keys: Sequence[Key]) -> Answers:
        return where(self.dictionary.for_searches(len(keys)).having(keys), Answer.ROWS)

    @override
    def rows_without(self, keys: Sequence[Key]) -> Answers:
        return where(self.dictionary.for_searches(len(keys)).having_others(keys), Answer.ROWS)

    @override
    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        return where(self.dictionary.for_searches().having_between(start, stop), Answer.ROWS)

    @cached_property
    def _null_rows(self) -> Answers:
        return null_rows([self.existing], self.row_counts)


def _existing_rows(cursors: Cursors, cardinalities: NDArray[np.int64]) -> BytesColumn:
    head_lengths = cursors.count("head length of the bit-slice index", each_bytes=1)
    cursors.version("bit-slice index", range_bitmap.SLICES_VERSION)
    slices = cursors.i8("number of slices")
    # 31 slices distinguish more values than a file has rows.
    enough = np.left_shift(1, np.clip(slices, 0, 31)) >= cardinalities
    cursors.expect((slices >= 0) & (slices <= MAX_SLICES) & enough, "slices for all codes", slices)
    lengths = cursors.count("length of the existence bitmap", each_bytes=1)
    table_lengths = cursors.count("length of the slice table", each_bytes=1)
    fits = table_lengths == slices * range_bitmap.SLICES_ENTRY.size
    fits &= head_lengths == range_bitmap.SLICES_HEAD_LENGTH + table_lengths
    cursors.expect(fits, "the lengths of a head with so many slices", table_lengths)
    cursors.skip(table_lengths, "slice table")
    return BytesColumn(
        cursors.data, np.where(cursors.sound, cursors.at, 0), np.where(cursors.sound, lengths, NULL_LENGTH)
    )

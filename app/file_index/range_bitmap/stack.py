"""The range-bitmaps of one column of many files: which files have which value.

The dictionaries say it; the bit slices, which tell the rows, are not looked at. Beyond what a look-up in one
dictionary checks, codes have to go on without a gap up to the number of distinct values, and chunks and keys
may not overlap so far that together they hold more bytes than there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from app.file_index.answers.file_answers import Answer, Answers, where
from app.file_index.answers.row_index import RowStack
from app.file_index.keys.keys import FloatingKeys, Key, KeySpace
from app.file_index.payloads.cursor import Cursors, integers, runs_of
from app.file_index.range_bitmap import range_bitmap
from app.file_index.range_bitmap.dictionary import HEAD_LENGTH, OFFSET, VERSION
from app.file_index.range_bitmap.ordered_keys import MergedKeys, OrderedKeys
from app.file_index.shared.bit_slices import MAX_SLICES, null_rows
from app.file_index.shared.directory import Directory, StoredKeys, as_keys
from app.types.bytes_column import NULL_LENGTH, BytesColumn

_LENGTH_BYTES: Final = 4


def read_keys(cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64]) -> StoredKeys:
    """Every key of every dictionary, of a type whose keys differ in length.

    ``cursors``: at the dictionaries, and ending with them; broken ones are no longer sound. Returns the keys
    of sound dictionaries, in the order in which they are stored.
    """
    sizes = cursors.remaining
    chunks = _read_chunks(cursors, space, cardinalities)
    further_at = _further_keys(cursors.data, chunks)
    stored = _interleave(chunks.first_at, further_at, chunks.further, chunks.sound).of(chunks.owners)
    return _within(stored, cursors, sizes)


def read_values(
    cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64], width: int
) -> OrderedKeys:
    """As :func:`read_keys`, of a type whose keys are integers of ``width`` bytes."""
    chunks = _read_chunks(cursors, space, cardinalities)
    rows, data = np.flatnonzero(chunks.sound), cursors.data
    pieces = [data[:0]]
    for first, start, further in zip(
        chunks.first_at[rows].tolist(),
        chunks.starts[rows].tolist(),
        chunks.further[rows].tolist(),
        strict=True,
    ):
        # A chunk holds thousands of keys as a rule, which lie one behind the other but for the first.
        pieces += data[first : first + width], data[start : start + further * width]
    values = _values(np.concatenate(pieces).view(f">i{width}"), space)
    keys = np.where(chunks.sound, chunks.further + 1, 0)
    distinct = np.bincount(chunks.owners, keys, len(cardinalities)).astype(np.int64)
    return OrderedKeys(values.astype(f"i{width}"), distinct)


def values_at(
    cursors: Cursors, space: KeySpace, places: NDArray[np.int64], width: int
) -> NDArray[np.signedinteger]:
    """Keys of ``width`` bytes at some places; they mean nothing where cursors are not sound."""
    inside = np.where(cursors.sound, places, 0)
    return _values(integers(cursors.data, inside.ravel(), f">i{width}").reshape(places.shape), space)


def _values(stored: NDArray[np.signedinteger], space: KeySpace) -> NDArray[np.signedinteger]:
    return as_keys(stored.astype(np.int64), space) if isinstance(space, FloatingKeys) else stored


def have_ends(stored: StoredKeys, cursors: Cursors, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of m dictionaries, of a type whose keys differ in length, have the keys at some places as ends.

    ``ends``: int64, shape (2, m): where the smallest and the largest key are stored once more.
    """
    owners, first = np.unique(stored.owners, return_index=True)
    same = np.ones(len(cursors.at), bool)
    for other, at in zip(ends, (first, np.append(first, len(stored.owners))[1:] - 1), strict=True):
        starts, others = stored.places[at], other[owners]
        lengths = integers(cursors.data, starts, ">i") + _LENGTH_BYTES
        alike = integers(cursors.data, others, ">i") + _LENGTH_BYTES == lengths
        of_key, places = runs_of(starts, np.where(alike, lengths, 0), 1)
        shifted = places + (others - starts)[of_key]
        alike[of_key[cursors.data[places] != cursors.data[shifted]]] = False
        same[owners[~alike]] = False
    return same


@dataclass(frozen=True, slots=True, eq=False)
class _Chunks:
    """Chunks of dictionaries, shape (chunks,); those of a dictionary stand together, in their order.

    Attributes:
        owners: int64: the dictionary of each.
        first_at: int64: where its first key is stored.
        further: int64: how many more there are.
        starts: int64: where these are stored, behind their offsets if they have some.
        sound: bool: whether there is nothing wrong with its dictionary; numbers mean nothing elsewhere.
    """

    owners: NDArray[np.int64]
    first_at: NDArray[np.int64]
    further: NDArray[np.int64]
    starts: NDArray[np.int64]
    sound: NDArray[np.bool_]


def _read_chunks(cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64]) -> _Chunks:
    head_lengths, versions = cursors.i32(), cursors.i8()
    chunk_counts = cursors.count(each_bytes=OFFSET.size)
    offsets_lengths, heads_lengths = cursors.i32(), cursors.count(each_bytes=1)
    cursors.expect((head_lengths == HEAD_LENGTH) & (versions == VERSION))
    cursors.expect(offsets_lengths == chunk_counts * OFFSET.size)
    cursors.expect((chunk_counts == 0) == (cardinalities == 0))
    offsets_at = cursors.at
    cursors.skip(offsets_lengths)
    heads_at = cursors.at
    cursors.skip(heads_lengths)
    owners, places = runs_of(offsets_at, np.where(cursors.sound, chunk_counts, 0), OFFSET.size)
    offsets = integers(cursors.data, places, OFFSET.format)
    inside = (offsets >= 0) & (offsets < heads_lengths[owners])
    at = np.where(inside, heads_at[owners] + offsets, 0)
    heads = Cursors(cursors.data, at, cursors.ends[owners], inside)
    return _checked(heads, owners, cursors, space, cardinalities)


def _checked(
    chunks: Cursors,
    owners: NDArray[np.int64],
    cursors: Cursors,
    space: KeySpace,
    cardinalities: NDArray[np.int64],
) -> _Chunks:
    chunks.expect(chunks.i8() == VERSION)
    first_at = chunks.at
    skip_keys(chunks, space)
    codes, offsets, further = chunks.i32(), chunks.i32(), chunks.count()
    first_lengths, second_lengths = chunks.i32(), chunks.i32()
    if space.width is None:
        lengths = first_lengths + second_lengths
        chunks.expect((first_lengths == OFFSET.size * further) & (second_lengths >= 0))
    else:
        lengths = first_lengths
        chunks.expect((first_lengths == space.width * further) & (second_lengths == space.width))
    chunks.expect((offsets >= 0) & (offsets + lengths <= cursors.remaining[owners]))
    keys = np.where(chunks.sound, further + 1, 0)
    before = np.cumsum(keys) - keys
    firsts = np.searchsorted(owners, np.arange(len(cardinalities)))
    chunks.expect(codes == before - np.append(before, 0)[firsts][owners])
    counted = np.bincount(owners, keys, len(cardinalities)) == cardinalities
    stored_bytes = np.bincount(owners, lengths, len(cardinalities)) <= cursors.remaining
    whole = np.bincount(owners, ~chunks.sound, len(cardinalities)) == 0
    cursors.expect(counted & stored_bytes & whole)
    chunks.expect(cursors.sound[owners])
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
    at = np.where(inside, stored.places, 0)
    keys = Cursors(cursors.data, at, cursors.ends[stored.owners], inside)
    lengths = keys.count(each_bytes=1)
    cursors.expect(np.bincount(stored.owners, ~keys.sound, count) == 0)
    cursors.expect(np.bincount(stored.owners, lengths, count) <= sizes)
    return stored.only(cursors.sound)


def skip_keys(cursors: Cursors, space: KeySpace) -> None:
    """Moves the cursors behind the key that comes next."""
    cursors.skip(cursors.count(each_bytes=1) if space.width is None else space.width)


@dataclass(frozen=True, eq=False)
class RangeBitmapStack(RowStack):
    """Values of m files; ``existing``: of each file the bitmap of the rows that have a value."""

    dictionary: MergedKeys
    row_counts: NDArray[np.int64]
    existing: BytesColumn
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads all heads and dictionaries. A null is a file without such an index."""
        cursors = Cursors.of(payloads)
        head_lengths = cursors.count(each_bytes=1)
        heads_at = cursors.at
        cursors.expect(cursors.i8() == range_bitmap.VERSION)
        row_counts, cardinalities = cursors.count(), cursors.count()
        cursors.expect(cardinalities <= row_counts)
        valued = np.flatnonzero(cardinalities)
        bounded = cursors.take(valued)
        bounds = np.zeros((2, len(payloads)), np.int64)
        for ends in bounds:
            ends[valued] = bounded.at
            skip_keys(bounded, space)
        cursors.put(valued, bounded)
        lengths = cursors.count(each_bytes=1)
        cursors.expect(cursors.at == heads_at + head_lengths)
        ends = np.where(cursors.sound, cursors.at + lengths, 0)
        inner = Cursors(payloads.data, cursors.at, ends, cursors.sound)
        keys: OrderedKeys | Directory
        if space.width is None:
            stored = read_keys(inner, space, cardinalities)
            inner.expect(have_ends(stored, cursors, bounds))
            keys, wrong = Directory.build(payloads.data, stored, space, np.ones(len(payloads), bool))
        else:
            keys = read_values(inner, space, cardinalities, space.width)
            wrong = keys.unordered() | keys.differ(values_at(inner, space, bounds, space.width))
        cursors.skip(lengths)
        cursors.expect(inner.sound)
        existing = _existing_rows(cursors, cardinalities)
        broken = ~payloads.is_null & (~cursors.sound | wrong)
        return cls(MergedKeys(keys), row_counts, existing, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        arrays = (self.row_counts, self.broken, self.existing.starts, self.existing.lengths)
        return self.dictionary.nbytes + sum(each.nbytes for each in arrays)

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
    head_lengths = cursors.count(each_bytes=1)
    cursors.expect(cursors.i8() == range_bitmap.SLICES_VERSION)
    slices = cursors.i8()
    lengths, table_lengths = cursors.count(each_bytes=1), cursors.count(each_bytes=1)
    cursors.expect((slices >= 0) & (slices <= MAX_SLICES))
    # There are never as many values as 31 slices can tell apart.
    cursors.expect(np.left_shift(1, np.clip(slices, 0, 31)) >= cardinalities)
    cursors.expect(table_lengths == slices * range_bitmap.SLICES_ENTRY.size)
    cursors.expect(head_lengths == range_bitmap.SLICES_HEAD_LENGTH + table_lengths)
    cursors.skip(table_lengths)
    return BytesColumn(
        cursors.data, np.where(cursors.sound, cursors.at, 0), np.where(cursors.sound, lengths, NULL_LENGTH)
    )

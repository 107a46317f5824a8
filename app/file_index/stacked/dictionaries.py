"""The keys in the chunked dictionaries of many range-bitmaps, see :mod:`app.file_index.dictionary`.

All chunks of all files are read side by side. Beyond what a look-up in one dictionary checks, the codes have
to go on without a gap up to the number of distinct values, and chunks and keys may not overlap so far that
together they hold more bytes than there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.file_index.dictionary import HEAD_LENGTH, OFFSET, VERSION
from app.file_index.stacked.cursors import Cursors, integers, runs_of
from app.file_index.stacked.directory import StoredKeys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.keys import KeySpace


def read_keys(cursors: Cursors, space: KeySpace, cardinalities: NDArray[np.int64]) -> StoredKeys:
    """Every key of every dictionary.

    Args:
        cursors: at the dictionaries, and ending with them; broken ones are no longer sound.
        space: how keys are stored.
        cardinalities: number of keys of each dictionary.

    Returns:
        The keys of sound dictionaries, in the order in which they are stored.
    """
    sizes = cursors.remaining
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
    of_chunk, places = runs_of(offsets_at, np.where(cursors.sound, chunk_counts, 0), OFFSET.size)
    offsets = integers(cursors.data, places, OFFSET.format)
    inside = (offsets >= 0) & (offsets < heads_lengths[of_chunk])
    at = np.where(inside, heads_at[of_chunk] + offsets, 0)
    chunks = Cursors(cursors.data, at, cursors.ends[of_chunk], inside)
    return _within(_read_chunks(chunks, of_chunk, cursors, space, cardinalities), cursors, space, sizes)


def _read_chunks(
    chunks: Cursors,
    of_chunk: NDArray[np.int64],
    cursors: Cursors,
    space: KeySpace,
    cardinalities: NDArray[np.int64],
) -> StoredKeys:
    """The keys of chunks; ``cursors`` are at the keys areas of their dictionaries."""
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
    chunks.expect((offsets >= 0) & (offsets + lengths <= cursors.remaining[of_chunk]))
    keys = np.where(chunks.sound, further + 1, 0)
    before = np.cumsum(keys) - keys
    firsts = np.searchsorted(of_chunk, np.arange(len(cardinalities)))
    chunks.expect(codes == before - np.append(before, 0)[firsts][of_chunk])
    counted = np.bincount(of_chunk, keys, len(cardinalities)) == cardinalities
    stored_bytes = np.bincount(of_chunk, lengths, len(cardinalities)) <= cursors.remaining
    whole = np.bincount(of_chunk, ~chunks.sound, len(cardinalities)) == 0
    cursors.expect(counted & stored_bytes & whole)
    chunks.expect(cursors.sound[of_chunk])
    further = np.where(chunks.sound, further, 0)
    starts = cursors.at[of_chunk] + offsets
    further_at = _further_keys(chunks, starts, further, space)
    return _interleave(first_at, further_at, further, chunks.sound).of(of_chunk)


def _further_keys(
    chunks: Cursors, starts: NDArray[np.int64], further: NDArray[np.int64], space: KeySpace
) -> NDArray[np.int64]:
    """Places of all keys but the first one of each chunk."""
    if space.width is not None:
        return runs_of(starts, further, space.width)[1]
    of_key, places = runs_of(starts, further, OFFSET.size)
    return (starts + further * OFFSET.size)[of_key] + integers(chunks.data, places, OFFSET.format)


def _interleave(
    first_at: NDArray[np.int64],
    further_at: NDArray[np.int64],
    further: NDArray[np.int64],
    sound: NDArray[np.bool_],
) -> StoredKeys:
    """The first key of each sound chunk, and its further keys behind it."""
    counts = np.where(sound, further + 1, 0)
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.empty(len(owners), np.int64)
    is_first = np.zeros(len(owners), bool)
    is_first[(np.cumsum(counts) - counts)[sound]] = True
    places[is_first], places[~is_first] = first_at[sound], further_at
    return StoredKeys(owners, places)


def _within(stored: StoredKeys, cursors: Cursors, space: KeySpace, sizes: NDArray[np.int64]) -> StoredKeys:
    """The keys of dictionaries that hold all of their keys in ``sizes`` bytes; others are not sound."""
    if space.width is not None:
        return stored
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

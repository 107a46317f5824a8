"""Rows by code of many files at once, where their bit slices are stored as bits.

A bitmap of more than 4,096 of up to 65,536 rows is stored as plain bits, so that slices of files of such a
size can be combined as they lie: one operation on words for all files, and no bitmap is decoded. What the
bits leave becomes a bitmap in the end. Bits of rows that a file does not have are not looked at.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from pyroaring import BitMap

from app.file_index.payloads.cursors import integers, runs_of
from app.types.bytes_column import BytesColumn
from app.types.roaring import (
    BITS_BYTES,
    COOKIE_WITH_RUNS,
    COOKIE_WITHOUT_RUNS,
    MAX_ARRAY_VALUES,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST_ROWS: Final = 2 * MAX_ARRAY_VALUES
"""Of fewer rows, bitmaps are mostly lists, which are decoded faster."""
MOST_ROWS: Final = 8 * BITS_BYTES

_ROWS_AT_ONCE: Final = 16 * MOST_ROWS
"""The bits of so many rows stay in the processor's caches."""
_WORD_BITS: Final = 64
_WORD_BYTES: Final = 8
_EMPTY = struct.Struct("<II")
_ONE_CONTAINER = struct.Struct("<IIHHI")
_RUNS = struct.Struct("<IBHHH")
_RUN_BYTES: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class DenseBitmaps:
    """Serialized bitmaps of at most one container, n of them.

    Attributes:
        data: the buffer.
        starts: int64, shape (n,): where the values, bits or runs of each start.
        cardinalities: int64, shape (n,): values in it.
        runs: int64, shape (n,): runs in it; 0 where it is stored otherwise.
        usable: bool, shape (n,): whether there is such a bitmap.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    cardinalities: NDArray[np.int64]
    runs: NDArray[np.int64]
    usable: NDArray[np.bool_]

    @classmethod
    def read(
        cls,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        limits: NDArray[np.int64],
    ) -> Self:
        """Looks at the heads.

        Args:
            data: the buffer.
            starts: shape (n,): where each bitmap starts; anything may stand there.
            lengths: shape (n,): its bytes.
            limits: shape (n,): where what holds it ends.
        """
        inside = (starts >= 0) & (lengths >= _EMPTY.size) & (starts + lengths <= limits)
        at = np.where(inside, starts, 0)
        cookies, containers = integers(data, at, "<u4"), integers(data, at + 4, "<u4")
        is_plain = inside & (cookies == COOKIE_WITHOUT_RUNS)
        is_empty = is_plain & (containers == 0) & (lengths == _EMPTY.size)
        has_one = is_plain & (containers == 1) & (lengths > _ONE_CONTAINER.size)
        at_one = np.where(has_one, at, 0)
        has_one &= integers(data, at_one + 8, "<u2") == 0
        counts = np.where(has_one, integers(data, at_one + 10, "<u2") + 1, 0)
        sizes = np.where(counts > MAX_ARRAY_VALUES, BITS_BYTES, 2 * counts)
        has_one &= lengths == _ONE_CONTAINER.size + sizes
        counts[~has_one] = 0
        with_runs = inside & (cookies == COOKIE_WITH_RUNS) & (lengths >= _RUNS.size)
        at_runs = np.where(with_runs, at, 0)
        with_runs &= (integers(data, at_runs + 4, "u1") == 1) & (integers(data, at_runs + 5, "<u2") == 0)
        runs = np.where(with_runs, integers(data, at_runs + 9, "<u2"), 0)
        with_runs &= (runs > 0) & (lengths == _RUNS.size + _RUN_BYTES * runs)
        counts[with_runs] = integers(data, at_runs[with_runs] + 7, "<u2") + 1
        return cls(
            data,
            np.where(with_runs, at + _RUNS.size, at + _ONE_CONTAINER.size),
            counts,
            np.where(with_runs, runs, 0),
            is_empty | has_one | with_runs,
        )

    def words(
        self, chosen: NDArray[np.int64], all_rows: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """The bits of some bitmaps.

        Args:
            chosen: shape (f,): which of them, all usable; -1 for none.
            all_rows: shape (f, width): bit n of word w is set if the file has row ``64 * w + n``.

        Returns:
            In the same form, the rows of each bitmap; and shape (f,), whether these are as many as it says,
            and in order.
        """
        width = all_rows.shape[1]
        is_there = chosen >= 0
        counts, starts, runs = (
            np.where(is_there, each[chosen], 0) for each in (self.cardinalities, self.starts, self.runs)
        )
        bits = np.zeros((len(chosen), width * _WORD_BYTES), np.uint8)
        sound = np.ones(len(chosen), bool)
        as_runs = np.flatnonzero(runs)
        as_bits = np.flatnonzero((counts > MAX_ARRAY_VALUES) & (runs == 0))
        listed = np.flatnonzero((counts > 0) & (counts <= MAX_ARRAY_VALUES) & (runs == 0))
        if len(as_runs):
            bits[as_runs], sound[as_runs] = self._runs(starts[as_runs], runs[as_runs], width)
        stored = BytesColumn(self.data, starts[as_bits], np.full(len(as_bits), width * _WORD_BYTES))
        bits[as_bits] = stored.gather(0, width * _WORD_BYTES)
        if len(listed):
            bits[listed], sound[listed] = self._lists(starts[listed], counts[listed], width)
        words = bits.view("<u8").astype(np.uint64, copy=False)
        # A bitmap that counts rows beyond those of the file has too few of them.
        words &= all_rows
        sound &= np.bitwise_count(words).sum(axis=1, dtype=np.int64) == counts
        return words, sound

    def _lists(
        self, starts: NDArray[np.int64], counts: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """The bits of bitmaps that are stored as lists, and which of them have lists in order."""
        ends = starts + 2 * counts
        pieces = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows = np.concatenate(pieces).view("<u2")
        # One number for each row of each bitmap: these ascend, too, where no row lies beyond its bitmap.
        size = width * _WORD_BITS
        places = np.repeat(np.arange(len(starts), dtype=np.int32) * np.int32(size), counts)
        places += rows
        spread = np.zeros(len(starts) * size, bool)
        lasts = np.cumsum(counts) - 1
        sound = rows[lasts] < size
        if sound.all() and (places[1:] > places[:-1]).all():
            spread[places] = True
        else:
            falls = np.flatnonzero(rows[1:] <= rows[:-1])
            falls = falls[~np.isin(falls, lasts)]
            sound[np.searchsorted(lasts, falls)] = False
            spread[places[np.repeat(sound, counts)]] = True
        return np.packbits(spread.reshape(len(starts), size), axis=1, bitorder="little"), sound

    def _runs(
        self, starts: NDArray[np.int64], runs: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """The bits of bitmaps that are stored as runs, and which of them have runs in order."""
        owners, places = runs_of(starts, runs, _RUN_BYTES)
        begins = integers(self.data, places, "<u2")
        lengths = integers(self.data, places + 2, "<u2") + 1
        ends = begins + lengths
        is_first = np.ones(len(owners), bool)
        is_first[1:] = owners[1:] != owners[:-1]
        gaps = begins - np.where(is_first, 0, np.append(0, ends)[:-1])
        wrong = (gaps < ~is_first) | (ends > width * _WORD_BITS)
        sound: NDArray[np.bool_] = np.bincount(owners, wrong, len(starts)) == 0
        if not sound.all():
            bits = np.zeros((len(starts), width * _WORD_BYTES), np.uint8)
            if sound.any():
                bits[sound] = self._runs(starts[sound], runs[sound], width)[0]
            return bits, sound
        # Gaps and runs in turn, and at last the gap behind all runs.
        last = np.cumsum(2 * runs + 1) - 1
        at = (last - 2 * runs)[owners] + 2 * (np.arange(len(owners)) - (np.cumsum(runs) - runs)[owners])
        sizes = np.zeros(int(last[-1]) + 1, np.int64)
        sizes[at], sizes[at + 1] = gaps, lengths
        sizes[last] = width * _WORD_BITS - ends[np.cumsum(runs) - 1]
        is_run = np.zeros(len(sizes), bool)
        is_run[at + 1] = True
        spread = np.repeat(is_run, sizes).reshape(len(starts), width * _WORD_BITS)
        return np.packbits(spread, axis=1, bitorder="little"), sound


def select_dense(
    bitmaps: DenseBitmaps,
    existing: NDArray[np.int64],
    slices: tuple[NDArray[np.int64], NDArray[np.int64]],
    spans: tuple[NDArray[np.int64], NDArray[np.int64]],
    row_counts: NDArray[np.int64],
    *,
    negated: bool,
) -> list[BitMap | None]:
    """The rows of files whose codes lie in a span each, or do not.

    Args:
        bitmaps: of the rows that have a code, and slices; those of the files are usable.
        existing: shape (k,): the bitmap of the rows of each file that have a code.
        slices: shape (k,) each: the first slice of each file, and how many it has.
        spans: shape (k,) each: the first and the last code of each file.
        row_counts: shape (k,), of at most ``MOST_ROWS`` rows.
        negated: rows with other codes.

    Returns:
        A set for each file; None where a bitmap holds something else than it says.
    """
    found: list[BitMap | None] = []
    together = max(1, _ROWS_AT_ONCE // max(_WORD_BITS, int(row_counts.max(initial=0))))
    for start in range(0, len(row_counts), together):
        some = slice(start, start + together)
        of_some = (slices[0][some], slices[1][some]), (spans[0][some], spans[1][some])
        found += _select(bitmaps, existing[some], *of_some, row_counts[some], negated=negated)
    return found


def _select(
    bitmaps: DenseBitmaps,
    existing_at: NDArray[np.int64],
    slices: tuple[NDArray[np.int64], NDArray[np.int64]],
    spans: tuple[NDArray[np.int64], NDArray[np.int64]],
    row_counts: NDArray[np.int64],
    *,
    negated: bool,
) -> list[BitMap | None]:
    all_rows = _all_rows(row_counts)
    existing, sound = bitmaps.words(existing_at, all_rows)
    (firsts, counts), (low, high) = slices, spans
    is_one_code = bool((low == high).all())
    # Rows that agree with an end on all bits so far, and those that are below it.
    with_low, with_high = existing, existing
    below_low = below_high = np.zeros_like(existing)
    for level in reversed(range(int(counts.max(initial=0)))):
        ones, is_sound = bitmaps.words(np.where(level < counts, firsts + level, -1), all_rows)
        sound &= is_sound
        agreeing = _agreeing(with_low, ones, low, level)
        if not is_one_code:
            below_low = below_low | ((with_low ^ agreeing) & _bit(low, level))
            before, with_high = with_high, _agreeing(with_high, ones, high, level)
            below_high = below_high | ((before ^ with_high) & _bit(high, level))
        with_low = agreeing
    found = with_low if is_one_code else (below_high | with_high) & ~below_low
    return _bitmaps_of(existing & ~found if negated else found, sound)


def _all_rows(row_counts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The bits of all rows of files, as wide as the largest file needs."""
    words = np.arange(-(-int(row_counts.max()) // _WORD_BITS))
    whole, rest = (row_counts // _WORD_BITS)[:, None], (row_counts % _WORD_BITS)[:, None]
    last = (np.uint64(1) << rest.astype(np.uint64)) - np.uint64(1)
    found: NDArray[np.uint64] = np.where(words < whole, ~np.uint64(0), np.where(words == whole, last, 0))
    return found


def _agreeing(
    rows: NDArray[np.uint64], ones: NDArray[np.uint64], codes: NDArray[np.int64], level: int
) -> NDArray[np.uint64]:
    """Those rows whose bit is that of the code of their file; the others lack it where the code has it."""
    return rows & (ones ^ ~_bit(codes, level))


def _bit(codes: NDArray[np.int64], level: int) -> NDArray[np.uint64]:
    """A bit of each code in all places of a word, shape (f, 1)."""
    bits: NDArray[np.uint64] = (-(codes >> level & 1)).astype(np.uint64)[:, None]
    return bits


def _bitmaps_of(words: NDArray[np.uint64], sound: NDArray[np.bool_]) -> list[BitMap | None]:
    """The rows whose bits are set, shape (f, width); None where nothing is sound."""
    width = words.shape[1] * _WORD_BITS
    counts = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    stored = words.astype("<u8", copy=False).view(np.uint8).reshape(len(words), -1)
    few = np.where(counts <= MAX_ARRAY_VALUES, counts, 0)
    bits = stored[counts <= MAX_ARRAY_VALUES].ravel()
    places = np.flatnonzero(bits)
    inner = np.flatnonzero(np.unpackbits(bits[places], bitorder="little"))
    rows = ((places[inner >> 3] << 3 | inner & 7) % width).astype("<u2")
    ends = np.cumsum(few)
    found: list[BitMap | None] = []
    for at, (count, end, is_sound) in enumerate(
        zip(counts.tolist(), ends.tolist(), sound.tolist(), strict=True)
    ):
        if not is_sound:
            found.append(None)
            continue
        if count > MAX_ARRAY_VALUES:
            container = stored[at].tobytes().ljust(BITS_BYTES, b"\0")
        else:
            container = rows[end - count : end].tobytes()
        head = _ONE_CONTAINER.pack(COOKIE_WITHOUT_RUNS, 1, 0, max(0, count - 1), _ONE_CONTAINER.size)
        found.append(BitMap.deserialize(head + container) if count else BitMap())
    return found

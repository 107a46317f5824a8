"""Bitmaps of the rows of many files as words of bits, whichever way each of them is stored.

A bitmap of more than 4,096 of up to 65,536 rows is stored as plain bits, which are taken as they lie; lists
and runs of rows are spread. Bits of rows that a file does not have are not looked at.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

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

_WORD_BITS: Final = 64
_WORD_SHIFT: Final = 6
_WORD_BYTES: Final = 8
_EMPTY = struct.Struct("<II")
_ONE_CONTAINER = struct.Struct("<IIHHI")
_RUNS = struct.Struct("<IBHHH")
_RUN_BYTES: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class DenseFiles:
    """The rows of f files as bits, as many words of them as the largest file needs.

    Attributes:
        row_counts: int64, shape (f,): rows of each.
        all_rows: uint64, shape (f, width): bit n of word w is set if the file has row ``64 * w + n``.
    """

    row_counts: NDArray[np.int64]
    all_rows: NDArray[np.uint64]

    @classmethod
    def of(cls, row_counts: NDArray[np.int64]) -> Self:
        """Files (at least one) of so many rows."""
        words = np.arange(-(-int(row_counts.max()) // _WORD_BITS))
        whole, rest = (row_counts // _WORD_BITS)[:, None], (row_counts % _WORD_BITS)[:, None]
        last = (np.uint64(1) << rest.astype(np.uint64)) - np.uint64(1)
        all_rows = np.where(words < whole, ~np.uint64(0), np.where(words == whole, last, np.uint64(0)))
        return cls(row_counts, all_rows)

    def cut(self, words: NDArray[np.uint64]) -> None:
        """Clears the bits of rows that no file has, shape (..., f, width)."""
        whole = int(self.row_counts.min()) // _WORD_BITS
        words[..., whole:] &= self.all_rows[:, whole:]


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
        self, chosen: NDArray[np.int64], files: DenseFiles
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """The bits of some bitmaps.

        Args:
            chosen: shape (k, f): bitmaps of each of f files, all usable; -1 for none.
            files: these files.

        Returns:
            The rows of each bitmap, shape (k, f, width): bit n of word w is set if row ``64 * w + n`` is in
            it; and shape (f,), whether all bitmaps of a file hold as many rows as they say, and in order.
        """
        flat, width = chosen.ravel(), files.all_rows.shape[1]
        is_there = flat >= 0
        counts, starts, runs = (
            np.where(is_there, each[flat], 0) for each in (self.cardinalities, self.starts, self.runs)
        )
        # What cannot be is not read, so that no more is taken apart than the files have rows.
        can_be = (counts <= np.broadcast_to(files.row_counts, chosen.shape).ravel()) & (runs <= counts)
        as_runs = np.flatnonzero(can_be & (runs > 0))
        can_be &= runs == 0
        as_bits = np.flatnonzero(can_be & (counts > MAX_ARRAY_VALUES))
        listed = np.flatnonzero(can_be & (counts > 0) & (counts <= MAX_ARRAY_VALUES))
        sound = np.ones(len(flat), bool)
        stored = BytesColumn(self.data, starts[as_bits], np.full(len(as_bits), width * _WORD_BYTES))
        bits = stored.gather(0, width * _WORD_BYTES)
        if len(as_bits) < len(flat):
            gathered, bits = bits, np.zeros((len(flat), width * _WORD_BYTES), np.uint8)
            bits[as_bits] = gathered
        if len(listed):
            bits[listed], sound[listed] = self._lists(starts[listed], counts[listed], width)
        if len(as_runs):
            all_bits = files.all_rows.astype("<u8", copy=False).view(np.uint8)
            owners = as_runs % len(files.row_counts)
            is_whole = self._hold_all(starts[as_runs], runs[as_runs], files.row_counts[owners])
            bits[as_runs[is_whole]] = all_bits[owners[is_whole]]
            as_runs = as_runs[~is_whole]
        if len(as_runs):
            bits[as_runs], sound[as_runs] = self._runs(starts[as_runs], runs[as_runs], width)
        words = bits.view("<u8").astype(np.uint64, copy=False).reshape(*chosen.shape, width)
        # A bitmap that counts rows beyond those of the file has too few of them.
        files.cut(words)
        sound &= np.bitwise_count(words).sum(axis=2, dtype=np.uint32).ravel() == counts
        return words, np.logical_and.reduce(sound.reshape(chosen.shape), axis=0)

    def _lists(
        self, starts: NDArray[np.int64], counts: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """The bits of bitmaps that are stored as lists, and which of them have lists in order."""
        ends = starts + 2 * counts
        pieces = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows = np.concatenate(pieces).view("<u2")
        # One number for each row of each bitmap: these ascend, too, where no row lies beyond its bitmap.
        size = width * _WORD_BITS
        places = np.repeat(np.arange(len(starts)) * size, counts)
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

    def _hold_all(
        self, starts: NDArray[np.int64], runs: NDArray[np.int64], row_counts: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which bitmaps that are stored as runs are one run of all rows, as of columns without nulls."""
        is_from_zero = (runs == 1) & (integers(self.data, starts, "<u2") == 0)
        found: NDArray[np.bool_] = is_from_zero & (integers(self.data, starts + 2, "<u2") + 1 == row_counts)
        return found

    def _runs(
        self, starts: NDArray[np.int64], runs: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """The bits of bitmaps that are stored as runs, and which of them have runs in order."""
        owners, places = runs_of(starts, runs, _RUN_BYTES)
        begins = integers(self.data, places, "<u2")
        ends = begins + integers(self.data, places + 2, "<u2") + 1
        wrong = ends > width * _WORD_BITS
        wrong[1:] |= (begins[1:] <= ends[:-1]) & (owners[1:] == owners[:-1])
        sound: NDArray[np.bool_] = np.bincount(owners, wrong, len(starts)) == 0
        if not sound.all():
            bits = np.zeros((len(starts), width * _WORD_BYTES), np.uint8)
            if sound.any():
                bits[sound] = self._runs(starts[sound], runs[sound], width)[0]
            return bits, sound
        return _between(owners, begins, ends, len(starts), width), sound


def _between(
    owners: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64], count: int, width: int
) -> NDArray[np.uint8]:
    """Bits that are set in runs of which no two of a bitmap touch each other.

    Args:
        owners: shape (n,): the bitmap of each run, ascending.
        begins: shape (n,): its first bit, ascending in a bitmap.
        ends: shape (n,): the first bit behind it.
        count: of bitmaps.
        width: words of each.

    Returns:
        Shape (count, bytes).
    """
    edges = np.empty(2 * len(owners), np.int64)
    # One word more, in which a run may end.
    firsts = owners * ((width + 1) * _WORD_BITS)
    np.add(firsts, begins, out=edges[0::2])
    np.add(firsts, ends, out=edges[1::2])
    at = edges >> _WORD_SHIFT
    bits = np.uint64(1) << (edges & (_WORD_BITS - 1)).view(np.uint64)
    groups = np.append(0, np.flatnonzero(at[1:] != at[:-1]) + 1)
    words = np.zeros(count * (width + 1), np.uint64)
    words[at[groups]] = np.bitwise_or.reduceat(bits, groups)
    # A bit lies in a run if the number of edges up to it is odd: first within its word ..
    for shift in (1, 2, 4, 8, 16, 32):
        words ^= words << np.uint64(shift)
    # .. and then with all words before.
    by_bitmap = words.reshape(count, width + 1)
    is_odd = np.bitwise_xor.accumulate(by_bitmap >> np.uint64(_WORD_BITS - 1), axis=1)
    by_bitmap[:, 1:] ^= -is_odd[:, :-1]
    return by_bitmap[:, :width].astype("<u8").view(np.uint8)

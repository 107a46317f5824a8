"""Rows by code of many files at once, whose slices are words of bits: one operation on words for all files.

What the bits leave becomes a bitmap in the end; none is decoded before.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np
from pyroaring import BitMap

from app.file_index.shared.dense_bitmaps import DenseFiles
from app.types.roaring import BITS_BYTES, COOKIE_WITHOUT_RUNS, MAX_ARRAY_VALUES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.shared.dense_bitmaps import DenseBitmaps

MOST_ROWS: Final = 8 * BITS_BYTES

_BITS_AT_ONCE: Final = 1 << 24
"""The bits of so many rows stay in the processor's caches."""
_MOST_LISTED: Final = 256
"""So many rows are found in words of bits sooner than by turning the bits of a bitmap around."""
_WORD_BITS: Final = 64
_ONE_CONTAINER = struct.Struct("<IIHHI")


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
    firsts, counts = slices
    of_file = max(_WORD_BITS, int(row_counts.max(initial=0))) * (1 + int(counts.max(initial=0)))
    together = max(1, _BITS_AT_ONCE // of_file)
    for start in range(0, len(row_counts), together):
        some = slice(start, start + together)
        files = DenseFiles.of(row_counts[some])
        with_code, sound = bitmaps.words(existing[None, some], files)
        levels = np.arange(int(counts[some].max()))[:, None]
        at = np.where(levels < counts[some], firsts[some] + levels, -1)
        ones, is_sound = bitmaps.words(at, files)
        rows = _in_span(ones, spans[0][some], spans[1][some])
        found += _bitmaps_of(with_code[0] & (~rows if negated else rows), sound & is_sound)
    return found


def _in_span(ones: NDArray[np.uint64], low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The rows whose code lies from ``low`` to ``high``, and perhaps rows that have none.

    Args:
        ones: shape (levels, f, width): the rows with each bit of the code; may be changed.
        low: shape (f,), of codes with as many bits.
        high: likewise.
    """
    if (low == high).all():
        for level in range(len(ones)):
            ones[level] ^= ~_bit(low, level)
        agreeing: NDArray[np.uint64] = np.bitwise_and.reduce(ones, axis=0)
        return agreeing
    return _below(ones, high, or_equal=True) & ~_below(ones, low, or_equal=False)


def _below(ones: NDArray[np.uint64], codes: NDArray[np.int64], *, or_equal: bool) -> NDArray[np.uint64]:
    """The rows whose code lies below that of their file, shape (f, width).

    From the lowest bit on, a bit that differs from the code's decides, and one that agrees leaves it to the
    bits before. So the rows that are below as far as is known are kept xor the code's bit: where bits
    differ, this becomes 0.
    """
    bits = [_bit(codes, level) for level in range(len(ones) + 1)]
    found: NDArray[np.uint64] = np.empty_like(ones[0])
    found[:] = ~bits[0] if or_equal else bits[0]
    agreeing = np.empty_like(found)
    for level, rows in enumerate(ones):
        np.bitwise_xor(rows, ~bits[level], out=agreeing)
        found &= agreeing
        found ^= bits[level] ^ bits[level + 1]
    return found


def _bit(codes: NDArray[np.int64], level: int) -> NDArray[np.uint64]:
    """A bit of each code in all places of a word, shape (f, 1)."""
    bits: NDArray[np.uint64] = (-(codes >> level & 1)).astype(np.uint64)[:, None]
    return bits


def _bitmaps_of(words: NDArray[np.uint64], sound: NDArray[np.bool_]) -> list[BitMap | None]:
    """The rows whose bits are set, shape (f, width); None where nothing is sound."""
    counts = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    stored = words.astype("<u8", copy=False).view(np.uint8)
    listed = _listed_rows(stored[counts <= _MOST_LISTED]).tobytes()
    found: list[BitMap | None] = []
    at = 0
    for number, (count, is_sound) in enumerate(zip(counts.tolist(), sound.tolist(), strict=True)):
        rows: BitMap | None
        if count == 0:
            rows = BitMap()
        elif count <= _MOST_LISTED:
            rows = _bitmap(count, listed[at : at + 2 * count])
            at += 2 * count
        elif count > MAX_ARRAY_VALUES:
            rows = _bitmap(count, stored[number].tobytes().ljust(BITS_BYTES, b"\0"))
        else:
            # What is stored as bits are more rows than these, such as the others.
            rows = _bitmap(MOST_ROWS - count, (~stored[number]).tobytes().ljust(BITS_BYTES, b"\xff"))
            rows.flip_inplace(0, MOST_ROWS)
        found.append(rows if is_sound else None)
    return found


def _listed_rows(stored: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The rows whose bits are set, shape (f, bytes), file by file."""
    words = stored.view("<u8").ravel()
    places = np.flatnonzero(words != 0)
    inner = np.flatnonzero(np.unpackbits(words[places].view(np.uint8), bitorder="little").view(bool))
    width = 8 * stored.shape[1]
    rows: NDArray[np.int64] = (places[inner // _WORD_BITS] * _WORD_BITS + inner % _WORD_BITS) % width
    return rows.astype("<u2")


def _bitmap(count: int, container: bytes) -> BitMap:
    """The bitmap of ``count`` rows, stored as a list, or as bits where they are more than fit in one."""
    head = _ONE_CONTAINER.pack(COOKIE_WITHOUT_RUNS, 1, 0, count - 1, _ONE_CONTAINER.size)
    return BitMap.deserialize(head + container)

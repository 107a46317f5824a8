"""Rows by code, one bitmap for each bit of the code, for range-bitmap and bsi.

A row that exists has a code from 0 to ``2 ** slices - 1``. It is in slice ``i`` if bit ``i`` of its code
is set. Selecting codes walks down from the most significant bit and splits the rows that are still undecided.
The sets shrink as the walk proceeds, and slices are decoded only where they are needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers import Answer, Answers
from app.file_index.payloads import Cursors, RoaringHeads
from app.types import BytesColumn
from app.types.roaring import COOKIE_WITH_RUNS, Buffer, bitmap_of, read_bitmap, serialize

CodeSpan: TypeAlias = tuple[int, int]
"""Codes in [first, second)."""

CodedRows: TypeAlias = "tuple[NDArray[np.uint32], NDArray[np.unsignedinteger[Any]]]"
"""A block of rows, ascending, and the code of each."""

MAX_SLICES = 64


class Extent(NamedTuple):
    """Place of a serialized bitmap in the buffer."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """Offset just after the bitmap."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class BitSlices:
    """Serialized slices, least significant bit first. Each question decodes the slices that it needs."""

    buffer: Buffer
    existing: Extent
    slices: tuple[Extent, ...]
    row_count: int
    # True if each extent is known to be that of one whole bitmap.
    is_measured: bool = False

    def existing_rows(self) -> BitMap:
        """Return rows that have a code."""
        return self._read(self.existing)

    def select(self, spans: Iterable[CodeSpan]) -> BitMap:
        """Return rows whose code is in one of ``spans``, which ascend and do not overlap."""
        return rows_in_spans(self.existing_rows, spans, len(self.slices), self._slice)

    def first(self, candidates: BitMap, limit: int, *, descending: bool) -> tuple[BitMap, BitMap]:
        """Find the ``candidates`` with the ``limit`` smallest (or largest) codes. All must have a code.

        Return the rows that surely belong to them, at most ``limit``, and the rows that share the next code
        and compete for the remaining places. The latter are empty if no place remains.
        """
        sure, tied, places = BitMap(), candidates, limit
        for level in reversed(range(len(self.slices))):
            if places == 0:
                break
            ones = self._slice(level)
            preferred = tied & ones if descending else tied - ones
            if len(preferred) > places:
                tied = preferred
            else:
                sure |= preferred
                places -= len(preferred)
                tied = tied - ones if descending else tied & ones
        return sure, tied if places else BitMap()

    def codes(self) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
        """Return rows that have a code, ascending, and the code of each. Shape (n,)."""
        existing = self.existing_rows()
        rows = np.asarray(existing.to_array(), np.uint32)
        codes = np.zeros(len(rows), np.uint64)
        for level in range(len(self.slices)):
            ones = np.asarray((existing & self._slice(level)).to_array(), np.uint32)
            codes[np.searchsorted(rows, ones)] |= np.uint64(1 << level)
        return rows, codes

    def code_counts(self, rows: BitMap | None) -> Iterator[tuple[int, int]]:
        """Yield the codes of ``rows`` (None: of all rows), ascending, with the number of rows of each."""
        having, codes = self.codes()
        if rows is not None:
            codes = codes[np.isin(having, np.asarray(rows.to_array(), np.uint32), assume_unique=True)]
        distinct, counts = np.unique(codes, return_counts=True)
        yield from zip(distinct.tolist(), counts.tolist(), strict=True)

    def extreme(self, *, largest: bool) -> int | None:
        """Return the smallest or the largest code of a row. Return None if no row has one."""
        rows, code = self.existing_rows(), 0
        if not rows:
            return None
        for level in reversed(range(len(self.slices))):
            ones = rows & self._slice(level)
            if len(ones) == len(rows) or (largest and ones):
                code |= 1 << level
                rows = ones
            else:
                rows -= ones
        return code

    def _slice(self, level: int) -> BitMap:
        return self._read(self.slices[level])

    def _read(self, extent: Extent) -> BitMap:
        rows, is_measured = self.row_count, self.is_measured
        return read_bitmap(self.buffer, *extent, row_count=rows, is_measured=is_measured)[0]


def rows_in_spans(
    existing: Callable[[], BitMap], spans: Iterable[CodeSpan], slices: int, slice_at: Callable[[int], BitMap]
) -> BitMap:
    """Select the rows whose codes are in ascending spans that do not overlap, as a new set."""
    clipped = merge(clip(spans, 0, 1 << slices))
    if not clipped:
        return BitMap()
    if len(clipped) == 1:
        return rows_in_span(existing(), clipped[0], slices, slice_at)
    parts: list[BitMap] = []
    _descend(existing(), clipped, slices, cache(slice_at), parts)
    return BitMap.union(*parts) if parts else BitMap()


def rows_in_span(existing: BitMap, span: CodeSpan, slices: int, slice_at: Callable[[int], BitMap]) -> BitMap:
    """Select the rows whose codes are in one span, as a new set.

    ``existing``: rows that have a code. Modified. ``span``: not empty, of codes below ``2 ** slices``.
    ``slice_at``: returns the slice of a bit. Called at most once for each, from the highest down.
    """
    first, last = span[0], span[1] - 1
    level = slices
    # While both ends of the span agree in a bit, rows that differ from them are out.
    while level > 0 and (first ^ last) >> (level - 1) == 0:
        level -= 1
        if not existing:
            return existing
        _keep_matching(existing, slice_at(level), bit=bool(first >> level & 1))
    if not existing or (first & (1 << level) - 1 == 0 and last - first + 1 == 1 << level):
        return existing
    level -= 1
    ones = slice_at(level)
    # At the bit in which the ends differ the rows split: one half has the lower end, the other the upper.
    upper = existing & ones
    existing -= ones
    lower = existing
    parts: list[BitMap] = []
    while level > 0 and (lower or upper):
        free = (1 << level) - 1
        if lower and first & free == 0:
            parts.append(lower)
            lower = BitMap()
        if upper and last & free == free:
            parts.append(upper)
            upper = BitMap()
        if not (lower or upper):
            break
        level -= 1
        ones = slice_at(level)
        if lower:
            lower = _split(lower, ones, parts, above=True, bit=bool(first >> level & 1))
        if upper:
            upper = _split(upper, ones, parts, above=False, bit=bool(last >> level & 1))
    return BitMap.union(lower, upper, *parts)


def _keep_matching(rows: BitMap, ones: BitMap, *, bit: bool) -> None:
    if bit:
        rows &= ones
    else:
        rows -= ones


def _split(rows: BitMap, ones: BitMap, parts: list[BitMap], *, above: bool, bit: bool) -> BitMap:
    """Return the rows that still agree with an end of the span. Add rows inside it to ``parts``.

    ``rows`` agree with the end so far, and are modified. ``ones``: rows with this bit. ``above``: True
    for the lower end, False for the upper one. ``bit``: the bit of the end.
    """
    if bit is above:
        # Rows that differ from the end in this bit lie outside of the span.
        _keep_matching(rows, ones, bit=bit)
        return rows
    agreeing = rows - ones if above else rows & ones
    inner = rows & ones if above else rows - ones
    if inner:
        parts.append(inner)
    return agreeing


def _descend(
    candidates: BitMap,
    spans: Sequence[CodeSpan],
    level: int,
    slice_at: Callable[[int], BitMap],
    parts: list[BitMap],
) -> None:
    if not spans or not candidates:
        return
    if spans[0] == (0, 1 << level):
        parts.append(candidates)
        return
    half = 1 << (level - 1)
    low, high = clip(spans, 0, half), clip(spans, half, 2 * half)
    if low:
        _descend(candidates - slice_at(level - 1), low, level - 1, slice_at, parts)
    if high:
        _descend(candidates & slice_at(level - 1), high, level - 1, slice_at, parts)


def clip(spans: Iterable[CodeSpan], start: int, stop: int) -> list[CodeSpan]:
    """Cut ``spans`` to [start, stop), and count their codes from ``start``."""
    return [
        (max(first, start) - start, min(behind, stop) - start)
        for first, behind in spans
        if max(first, start) < min(behind, stop)
    ]


def merge(spans: Iterable[CodeSpan]) -> list[CodeSpan]:
    """Join ascending spans that touch."""
    merged: list[CodeSpan] = []
    for first, behind in spans:
        if merged and merged[-1][1] == first:
            merged[-1] = (merged[-1][0], behind)
        else:
            merged.append((first, behind))
    return merged


def slice_codes(rows: Iterable[CodedRows], slices: int) -> list[bytes]:
    """Return bitmaps of existing rows and of each slice. ``rows``: ascending blocks, with their codes."""
    bitmaps = deque(BitMap() for _ in range(1 + slices))
    for positions, codes in rows:
        bitmaps[0] |= bitmap_of(positions)
        for bit in range(slices):
            bitmaps[1 + bit] |= bitmap_of(positions[codes >> bit & 1 != 0])
    return [serialize(bitmaps.popleft()) for _ in range(1 + slices)]


def null_rows(bitmaps: Sequence[BytesColumn], row_counts: NDArray[np.int64]) -> Answers:
    """Decide which files have a row that is in none of their bitmaps.

    ``bitmaps``: columns of m serialized bitmaps of rows. A file may lack one or all of them. ``row_counts``:
    shape (m,). Return shape (m,): ROWS or SKIP. DOUBT if a bitmap cannot be read.
    """
    valued = np.zeros(len(row_counts), np.int64)
    covered = row_counts == 0
    for column in bitmaps:
        cursors = Cursors.of(column)
        owners, values = RoaringHeads.read(cursors).cardinalities(column.data, cursors.sound)
        valued += np.bincount(owners, values, len(row_counts)).astype(np.int64)
        covered |= _is_one_run_of_all(column, row_counts)
    # The head of a bitmap gives its number of values, but no decoder relies on it. So this number may
    # keep a file, but only a decoded bitmap may skip one.
    answers = np.where(covered, np.int8(Answer.SKIP), np.int8(Answer.ROWS))
    for file in np.flatnonzero(~covered & (valued >= row_counts)).tolist():
        answers[file] = _decoded(bitmaps, file, int(row_counts[file]))
    return answers


def _is_one_run_of_all(column: BytesColumn, row_counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return files of at most 65536 rows whose bitmap is, byte for byte, the run of all rows."""
    cursors = Cursors.of(column)
    last = row_counts - 1
    cursors.expect(cursors.u32_le("cookie") == COOKIE_WITH_RUNS, "runs")
    cursors.expect(cursors.i8("run flags") == 1, "runs")
    for expected in (0, last, 1, 0, last):  # key, cardinality, runs, start and length of the run
        cursors.expect(cursors.u16_le("run") == expected, "one run")
    cursors.expect(cursors.at == cursors.ends, "nothing else")
    return cursors.sound


def _decoded(bitmaps: Sequence[BytesColumn], file: int, row_count: int) -> np.int8:
    try:
        codes = [
            read_bitmap(view, 0, len(view), row_count=row_count)[0]
            for view in (column.view(file) for column in bitmaps)
            if view is not None
        ]
    except CorruptIndexError:
        return Answer.DOUBT
    return Answer.ROWS if len(BitMap.union(BitMap(), *codes)) < row_count else Answer.SKIP

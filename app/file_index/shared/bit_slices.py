"""Rows by code, one bitmap for each bit of the code: what range-bitmap and bsi have in common.

A row that exists has a code from 0 to ``2 ** slices - 1``; it stands in slice ``i`` if bit ``i`` of its code
is set. Selecting codes walks down from the most significant bit and splits the rows that are still in
question, so the sets shrink as the walk goes on and slices are decoded only where they are needed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from app.types.roaring import bitmap_of, read_bitmap, serialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from app.types.roaring import Buffer

CodeSpan: TypeAlias = tuple[int, int]
"""Codes from the first up to, but without, the second."""

CodedRows: TypeAlias = "tuple[NDArray[np.uint32], NDArray[np.unsignedinteger[Any]]]"
"""A block of rows, ascending, and the code of each."""

MAX_SLICES = 64


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a serialized bitmap stands in the buffer."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class BitSlices:
    """Serialized slices; each question decodes what it needs and keeps nothing.

    Attributes:
        buffer: the bytes that hold them.
        existing: the rows that have a code.
        slices: least significant bit first.
        row_count: every position lies below this.
    """

    buffer: Buffer
    existing: Extent
    slices: tuple[Extent, ...]
    row_count: int

    def existing_rows(self) -> BitMap:
        """Rows that have a code."""
        return self._read(self.existing)

    def select(self, spans: Iterable[CodeSpan]) -> BitMap:
        """Rows whose code stands in one of ``spans``, which ascend and do not overlap."""
        clipped = merge(clip(spans, 0, 1 << len(self.slices)))
        if not clipped:
            return BitMap()
        found: list[BitMap] = []
        _descend(self.existing_rows(), clipped, len(self.slices), cache(self._slice), found)
        return BitMap.union(*found) if found else BitMap()

    def first(self, candidates: BitMap, limit: int, *, descending: bool) -> tuple[BitMap, BitMap]:
        """The ``limit`` smallest (or largest) codes among ``candidates``, all of which have a code.

        Returns:
            Rows that surely belong to them, fewer than ``limit`` or exactly as many; and rows that all share
            the next code and compete for the places that are left, none if there are no such places.
        """
        sure, tied, wanted = BitMap(), candidates, limit
        for level in reversed(range(len(self.slices))):
            if wanted == 0:
                break
            ones = self._slice(level)
            preferred = tied & ones if descending else tied - ones
            if len(preferred) > wanted:
                tied = preferred
            else:
                sure |= preferred
                wanted -= len(preferred)
                tied = tied - ones if descending else tied & ones
        return sure, tied if wanted else BitMap()

    def codes(self) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
        """The rows that have a code, ascending, and the code of each; shape (n,)."""
        existing = self.existing_rows()
        rows = np.asarray(existing.to_array(), np.uint32)
        codes = np.zeros(len(rows), np.uint64)
        for level in range(len(self.slices)):
            ones = np.asarray((existing & self._slice(level)).to_array(), np.uint32)
            codes[np.searchsorted(rows, ones)] |= np.uint64(1 << level)
        return rows, codes

    def extreme(self, *, largest: bool) -> int | None:
        """The smallest or the largest code of a row; None if no row has one."""
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
        return read_bitmap(self.buffer, extent.offset, extent.length, row_count=self.row_count)[0]


def _descend(
    candidates: BitMap,
    spans: Sequence[CodeSpan],
    level: int,
    slice_at: Callable[[int], BitMap],
    found: list[BitMap],
) -> None:
    """Collects the candidates, which agree on all bits from ``level`` on, whose low bits lie in ``spans``."""
    if not spans or not candidates:
        return
    if spans[0] == (0, 1 << level):
        found.append(candidates)
        return
    half = 1 << (level - 1)
    low, high = clip(spans, 0, half), clip(spans, half, 2 * half)
    if low:
        _descend(candidates - slice_at(level - 1), low, level - 1, slice_at, found)
    if high:
        _descend(candidates & slice_at(level - 1), high, level - 1, slice_at, found)


def clip(spans: Iterable[CodeSpan], start: int, stop: int) -> list[CodeSpan]:
    """The part of ``spans`` from ``start`` to ``stop``, counted from ``start``."""
    return [
        (max(first, start) - start, min(behind, stop) - start)
        for first, behind in spans
        if max(first, start) < min(behind, stop)
    ]


def merge(spans: Iterable[CodeSpan]) -> list[CodeSpan]:
    """Ascending spans with neighbours that touch made one."""
    merged: list[CodeSpan] = []
    for first, behind in spans:
        if merged and merged[-1][1] == first:
            merged[-1] = (merged[-1][0], behind)
        else:
            merged.append((first, behind))
    return merged


def slice_codes(rows: Iterable[CodedRows], slices: int) -> list[bytes]:
    """The bitmaps of rows and their codes: first the rows that exist, then the slices.

    Args:
        rows: block by block, ascending; codes lie below ``2 ** slices``.
        slices: number of bits to keep.
    """
    bitmaps = deque(BitMap() for _ in range(1 + slices))
    for positions, codes in rows:
        bitmaps[0] |= bitmap_of(positions)
        for bit in range(slices):
            bitmaps[1 + bit] |= bitmap_of(positions[codes >> bit & 1 != 0])
    return [serialize(bitmaps.popleft()) for _ in range(1 + slices)]

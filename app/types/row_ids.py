"""Sets of row ids, which number the rows of a whole table and need 64 bits."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.types.roaring import bitmap_of

_COUNT_AND_KEY: Final = struct.Struct("<QI")
_LISTED_OF_RANGE: Final = 64
# Up to this size, a set is listed to count all ranges at once. In a larger one, each is counted alone.
_MOST_LISTED: Final = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class RowRanges:
    """Row ids as disjoint, ascending ranges, int64, shape (n,), both ends included."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def of(cls, first: NDArray[np.int64], last: NDArray[np.int64]) -> Self:
        """Unite ranges that may overlap."""
        if len(first) == 1:
            return cls(first, last)
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order]) if len(last) else last
        opens = np.ones(len(first), np.bool_)
        opens[1:] = first[1:] > last[:-1] + 1
        starts = np.flatnonzero(opens)
        return cls(first[starts], last[np.append(starts[1:], len(first)) - 1] if len(starts) else last)

    @classmethod
    def union(cls, parts: Iterable[Self]) -> Self:
        """Unite sets."""
        listed = list(parts)
        if len(listed) == 1:
            return listed[0]
        nothing = np.zeros(0, np.int64)
        return cls.of(
            np.concatenate([nothing, *(each.first for each in listed)]),
            np.concatenate([nothing, *(each.last for each in listed)]),
        )

    @property
    def count(self) -> int:
        """Number of row ids."""
        return int((self.last - self.first + 1).sum())

    def count_within(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the row ids in each of the given ranges, both ends included."""
        if not len(self.first):
            return np.zeros(len(first), np.int64)
        if len(self.first) == 1:
            inside = np.minimum(last, self.last[0]) - np.maximum(first, self.first[0]) + 1
            counts: NDArray[np.int64] = np.maximum(inside, 0)
            return counts
        sizes = self.last - self.first + 1
        before = np.cumsum(sizes) - sizes

        def below(ids: NDArray[np.int64]) -> NDArray[np.int64]:
            at = self.first.searchsorted(ids, "right") - 1
            inside = np.clip(ids - self.first[at], 0, sizes[at])
            return np.where(at < 0, 0, before[at] + inside)

        return below(last + 1) - below(first)

    def bitmap(self) -> BitMap64:
        """Convert to a bitmap."""
        rows = BitMap64()
        for low, high in zip(self.first.tolist(), self.last.tolist(), strict=True):
            rows.add_range(low, high + 1)
        return rows


def rows_from(first: int, rows: BitMap) -> BitMap64:
    """Shift row positions to row ids that start at ``first``."""
    # The portable 64-bit form consists of 32-bit parts, so nothing is copied number by number.
    return BitMap64.deserialize(_COUNT_AND_KEY.pack(1, 0) + rows.serialize()).shift(first)


def ranges_of(rows: BitMap64, limit: int) -> RowRanges | None:
    """Return the row ids in ranges. Return None for more than ``limit`` ranges."""
    # A row begins a range when its left neighbour is missing, and ends one when its right neighbour is.
    first = rows.difference(rows.shift(1))
    if len(first) > limit:
        return None
    ends = (first, rows.difference(rows.shift(-1)))
    return RowRanges(*(np.frombuffer(each.to_array(), np.uint64).astype(np.int64) for each in ends))


def count_within(rows: BitMap64, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the rows in each range, both ends included."""
    if len(rows) > _MOST_LISTED + _LISTED_OF_RANGE * len(first):
        ends = zip(first.tolist(), (last + 1).tolist(), strict=True)
        return np.fromiter((rows.range_cardinality(low, high) for low, high in ends), np.int64, len(first))
    ids = _list(rows)
    counts: NDArray[np.int64] = ids.searchsorted(last, "right") - ids.searchsorted(first)
    return counts


def rows_within(rows: BitMap64, first: NDArray[np.int64], last: NDArray[np.int64]) -> Iterator[BitMap]:
    """Yield the rows of each range, relative to its first row id."""
    if len(rows) <= _MOST_LISTED:
        ids = _list(rows)
        bounds = ids.searchsorted(first).tolist(), ids.searchsorted(last, "right").tolist()
        for low, start, stop in zip(first.tolist(), *bounds, strict=True):
            yield bitmap_of((ids[start:stop] - low).astype(np.uint32))
        return
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        inside = BitMap64()
        inside.add_range(low, high + 1)
        inside &= rows
        yield (
            BitMap.deserialize(inside.shift(-low).serialize()[_COUNT_AND_KEY.size :]) if inside else BitMap()
        )


def _list(rows: BitMap64) -> NDArray[np.int64]:
    return np.frombuffer(rows.to_array(), np.uint64).astype(np.int64)

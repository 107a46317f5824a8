"""Sets of row ids, of which a table can have many more than a file has rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

_COUNT_AND_KEY: Final = struct.Struct("<QI")
_MOST_LISTED: Final = 1 << 22
"""So many ids are listed and counted together; of larger sets each range is counted by itself."""


def rows_from(first: int, rows: BitMap) -> BitMap64:
    """The row ids of rows that count from one on."""
    # The portable form of 64 bits is that of its parts of 32 bits: nothing is copied number by number.
    return BitMap64.deserialize(_COUNT_AND_KEY.pack(1, 0) + rows.serialize()).shift(first)


def joined(first: NDArray[np.int64], last: NDArray[np.int64]) -> BitMap64:
    """All row ids of ranges, both ends included, which ascend."""
    rows = BitMap64()
    opens = np.ones(len(first), np.bool_)
    opens[1:] = first[1:] > last[:-1] + 1
    starts = np.flatnonzero(opens)
    ends = np.append(starts[1:], len(first))[: len(starts)] - 1
    for low, high in zip(first[starts].tolist(), last[ends].tolist(), strict=True):
        rows.add_range(low, high + 1)
    return rows


def count_within(rows: BitMap64, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the rows lie in each range, both ends included."""
    if len(rows) > _MOST_LISTED or len(first) < 16:  # noqa: PLR2004 - fewer are counted sooner than listed
        counts = (
            rows.range_cardinality(low, high + 1)
            for low, high in zip(first.tolist(), last.tolist(), strict=True)
        )
        return np.fromiter(counts, np.int64, len(first))
    ids = np.frombuffer(rows.to_array(), np.uint64).astype(np.int64)
    return ids.searchsorted(last, "right") - ids.searchsorted(first)


def rows_within(rows: BitMap64, first: NDArray[np.int64], last: NDArray[np.int64]) -> Iterator[BitMap]:
    """The rows of each range, counted from its first."""
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        inside = BitMap64()
        inside.add_range(low, high + 1)
        inside &= rows
        yield (
            BitMap.deserialize(inside.shift(-low).serialize()[_COUNT_AND_KEY.size :]) if inside else BitMap()
        )

"""Keys of many files, as their dictionaries store them: file after file, ascending within each.

Merging keys into a directory takes longer than reading them, and many stacks are searched only once. So the
first search, if for few keys, is a binary search in all files at once. Any other search uses merged keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.file_index.keys.keys import Key
from app.file_index.shared.directory import Directory

_BYTES_OF_FILE: Final = 4
"""Bytes that a directory takes for the file of each key."""

_MOST_SEARCHES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class OrderedKeys:
    """Ascending keys of m files, file by file. ``distinct``: int64, shape (m,): number of keys of each."""

    values: NDArray[np.signedinteger]
    distinct: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the keys take once they are merged, which is more than now."""
        return self.values.nbytes + _BYTES_OF_FILE * len(self.values) + 3 * self.distinct.nbytes

    def unordered(self) -> NDArray[np.bool_]:
        """Return files with a key that is not above the one before it, shape (m,)."""
        wrong = np.zeros(len(self.distinct), bool)
        falls = self.values[1:] <= self.values[:-1]
        ends = np.cumsum(self.distinct)
        # The first key of a file may be below the last key of the file before.
        inner = ends[(ends > 0) & (ends < len(self.values))]
        falls[inner - 1] = False
        wrong[np.searchsorted(ends, np.flatnonzero(falls), side="right")] = True
        return wrong

    def differ(self, ends: NDArray[np.signedinteger]) -> NDArray[np.bool_]:
        """Return which files, shape (m,), have another first or last key than ``ends``, shape (2, m)."""
        wrong, filled = np.zeros(len(self.distinct), bool), np.flatnonzero(self.distinct)
        behind = np.cumsum(self.distinct)[filled]
        for keys, places in zip(ends, (behind - self.distinct[filled], behind - 1), strict=True):
            wrong[filled] |= self.values[places] != keys[filled]
        return wrong

    def having(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Return files that have one of the keys, shape (m,)."""
        having = np.zeros(len(self.distinct), bool)
        for key in keys:
            having |= self._has(key)
        return having

    def having_others(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Return files with a key that is none of ``keys``, which are distinct. Shape (m,)."""
        hits = np.zeros(len(self.distinct), np.int64)
        for key in keys:
            hits += self._has(key)
        return self.distinct > hits

    def having_between(self, start: Key | None, stop: Key | None) -> NDArray[np.bool_]:
        """Return files with a key in [start, stop). None means unbounded."""
        ends = np.cumsum(self.distinct)
        first = ends - self.distinct if start is None else self._below(start)
        return first < (ends if stop is None else self._below(stop))

    def merged(self) -> Directory:
        """Merge the keys into a directory."""
        count = len(self.distinct)
        owners = np.repeat(np.arange(count), self.distinct)
        values, width = self.values.astype(np.int64), self.values.dtype.itemsize
        return Directory.of_integers(values, owners, np.zeros(count, bool), width)[0]

    def _has(self, key: Key) -> NDArray[np.bool_]:
        places = self._below(key)
        inside = places < np.cumsum(self.distinct)
        inside[inside] = self.values[places[inside]] == key
        return inside

    def _below(self, key: Key) -> NDArray[np.int64]:
        """Return the position of each file's first key that is not below ``key``, or the file's end."""
        high = np.cumsum(self.distinct)
        low = high - self.distinct
        while len(searching := np.flatnonzero(low < high)):
            middle = (low[searching] + high[searching]) >> 1
            smaller = self.values[middle] < key
            low[searching[smaller]] = middle[smaller] + 1
            high[searching[~smaller]] = middle[~smaller]
        return low


class SearchableKeys:
    """Keys of many files, merged once it is worthwhile. Thread-safe: at worst, two threads both merge."""

    __slots__ = ("_is_searched", "_keys")

    def __init__(self, keys: OrderedKeys | Directory) -> None:
        self._keys = keys
        self._is_searched = False

    def for_searches(self, searches: int = 1) -> OrderedKeys | Directory:
        """Return the keys in the form for the next ``searches`` searches. Merge them if it is worthwhile."""
        keys = self._keys
        if isinstance(keys, OrderedKeys) and (self._is_searched or searches > _MOST_SEARCHES):
            keys = self._keys = keys.merged()
        self._is_searched = True
        return keys

    @property
    def distinct(self) -> NDArray[np.int64]:
        """Number of keys of each file."""
        return self._keys.distinct

    @property
    def nbytes(self) -> int:
        """Bytes of memory without shared buffers."""
        return self._keys.nbytes

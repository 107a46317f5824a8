"""The keys of many files as their dictionaries hold them: those of a file ascend, one file after the other.

To merge them into a directory takes longer than to read them. So the first question is answered here, by a
binary search in each file, all of them side by side; only keys that are asked about again are merged.
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
"""Of the file of each key, in a directory."""

_MOST_SEARCHES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class OrderedKeys:
    """The keys of m files, n in all.

    ``values``: integers of the width that their type has, shape (n,). ``distinct``: int64, shape (m,): how
    many keys each file has.
    """

    values: NDArray[np.signedinteger]
    distinct: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of memory, those of a directory of the same keys if these are more."""
        return self.values.nbytes + _BYTES_OF_FILE * len(self.values) + 3 * self.distinct.nbytes

    def unordered(self) -> NDArray[np.bool_]:
        """Which files have a key that is not above the one before it, shape (m,)."""
        wrong = np.zeros(len(self.distinct), bool)
        falls = self.values[1:] <= self.values[:-1]
        ends = np.cumsum(self.distinct)
        # Between two files there is no order to break.
        inner = ends[(ends > 0) & (ends < len(self.values))]
        falls[inner - 1] = False
        wrong[np.searchsorted(ends, np.flatnonzero(falls), side="right")] = True
        return wrong

    def differ(self, ends: NDArray[np.signedinteger]) -> NDArray[np.bool_]:
        """Which files do not have these keys as their first and last one, shape (2, m); shape (m,)."""
        wrong, filled = np.zeros(len(self.distinct), bool), np.flatnonzero(self.distinct)
        behind = np.cumsum(self.distinct)[filled]
        for keys, places in zip(ends, (behind - self.distinct[filled], behind - 1), strict=True):
            wrong[filled] |= self.values[places] != keys[filled]
        return wrong

    def having(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Which files have one of the keys, shape (m,)."""
        having = np.zeros(len(self.distinct), bool)
        for key in keys:
            having |= self._has(key)
        return having

    def having_others(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Which files have a key that is none of ``keys``, which are distinct; shape (m,)."""
        hits = np.zeros(len(self.distinct), np.int64)
        for key in keys:
            hits += self._has(key)
        return self.distinct > hits

    def having_between(self, start: Key | None, stop: Key | None) -> NDArray[np.bool_]:
        """Which files have a key from ``start`` up to, but without, ``stop``; None leaves a side open."""
        ends = np.cumsum(self.distinct)
        first = ends - self.distinct if start is None else self._below(start)
        return first < (ends if stop is None else self._below(stop))

    def merged(self) -> Directory:
        """The same keys, for many questions."""
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
        """Where the first key of each file stands that is not smaller than ``key``; its end if none is."""
        high = np.cumsum(self.distinct)
        low = high - self.distinct
        while len(left := np.flatnonzero(low < high)):
            middle = (low[left] + high[left]) >> 1
            smaller = self.values[middle] < key
            low[left[smaller]] = middle[smaller] + 1
            high[left[~smaller]] = middle[~smaller]
        return low


class MergedKeys:
    """Keys of many files, merged once they are asked about again; threads may share one."""

    __slots__ = ("_keys", "_was_asked")

    def __init__(self, keys: OrderedKeys | Directory) -> None:
        self._keys = keys
        self._was_asked = False

    def for_searches(self, searches: int = 1) -> OrderedKeys | Directory:
        """What answers the next question, which looks for so many keys."""
        keys = self._keys
        if isinstance(keys, OrderedKeys) and (self._was_asked or searches > _MOST_SEARCHES):
            keys = self._keys = keys.merged()
        self._was_asked = True
        return keys

    @property
    def distinct(self) -> NDArray[np.int64]:
        """How many keys each file has."""
        return self._keys.distinct

    @property
    def nbytes(self) -> int:
        """Bytes of memory without buffers that are shared."""
        return self._keys.nbytes

"""Merged dictionaries of many files, for finding the files that have a key.

Keys ascend, each with the file that has it. A binary search finds a key and the slice of its files. A range
of keys gives a longer slice. It is read only if the range lies between the smallest and the largest key of
some file, and only until all such files are found in it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.file_index.keys.keys import FloatingKeys, Key, KeySpace, after
from app.file_index.payloads import integers
from app.types import BytesColumn

_LENGTH = struct.Struct(">i")
_SCANNED_AT_ONCE: Final = 1 << 18
_FEW_KEYS: Final = 16
_MOST_BITS: Final = 62
_NARROW_BITS: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class StoredKeys:
    """Keys of files in their stored form. ``owners``, ``places``: int64, shape (n,): file and offset."""

    owners: NDArray[np.int64]
    places: NDArray[np.int64]

    def of(self, owners: NDArray[np.int64]) -> StoredKeys:
        """Replace owner ``i`` by ``owners[i]``."""
        return StoredKeys(owners[self.owners], self.places)

    def only(self, chosen: NDArray[np.bool_]) -> StoredKeys:
        """Return the keys of ``chosen`` owners, shape (owners,)."""
        if chosen.all():
            return self
        is_chosen = chosen[self.owners]
        return StoredKeys(self.owners[is_chosen], self.places[is_chosen])


@dataclass(frozen=True, slots=True, eq=False)
class _Integers:
    values: NDArray[np.signedinteger]

    def below(self, key: Key) -> int:
        bounds = np.iinfo(self.values.dtype)
        if int(key) <= bounds.min:
            return 0
        if int(key) > bounds.max:
            return len(self.values)
        # NumPy would convert the whole array for a key of another width.
        return int(np.searchsorted(self.values, self.values.dtype.type(key)))

    def places(self, keys: Sequence[Key]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the position of each key that the type can hold, and of the first larger one."""
        bounds = np.iinfo(self.values.dtype)
        representable = [int(key) for key in keys if bounds.min <= int(key) <= bounds.max]
        typed = np.array(representable, self.values.dtype)
        return np.searchsorted(self.values, typed), np.searchsorted(self.values, typed, "right")

    @property
    def nbytes(self) -> int:
        return self.values.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """Ascending byte strings, which stay in the shared buffer at ``places``."""

    data: NDArray[np.uint8]
    places: NDArray[np.unsignedinteger]

    def below(self, key: Key) -> int:
        return bisect_left(range(len(self.places)), key, key=self._key)

    def _key(self, position: int) -> bytes:
        place = int(self.places[position])
        start = place + _LENGTH.size
        return self.data[start : start + _LENGTH.unpack_from(self.data.data, place)[0]].tobytes()

    @property
    def nbytes(self) -> int:
        return self.places.nbytes


_Keys: TypeAlias = _Integers | _Texts


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """The keys of m files, n in all.

    Attributes:
        keys: ascending, n of them.
        files: int32, shape (n,): the file that has the key.
        first: int64, shape (m,): position of the smallest key of each file; n if it has none.
        last: int64, shape (m,): position of its largest key; -1 if it has none.
        distinct: int64, shape (m,): number of its keys.
    """

    keys: _Keys
    files: NDArray[np.int32]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    distinct: NDArray[np.int64]

    @classmethod
    def build(
        cls, data: NDArray[np.uint8], stored: StoredKeys, space: KeySpace, ascending: NDArray[np.bool_]
    ) -> tuple[Self, NDArray[np.bool_]]:
        """Merge the dictionaries.

        ``ascending``: shape (m,): true if the file must store its keys in ascending order. Return the
        directory, and bool, shape (m,): files that break the order or repeat a key, which must not be
        evaluated.
        """
        if space.width is not None:
            return cls.of_integers(
                read_integers(data, stored.places, space), stored.owners, ascending, space.width
            )
        lengths = integers(data, stored.places, _LENGTH.format)
        _, ranks = BytesColumn(data, stored.places + _LENGTH.size, lengths).distinct()
        codes = ranks.astype(np.int64)
        keys = _Texts(data, stored.places[np.argsort(codes)].astype(place_type(data)))
        return cls._of(
            keys, _merged(codes, stored.owners, len(ascending)), _Runs.of(stored.owners, codes), ascending
        )

    @classmethod
    def of_integers(
        cls, values: NDArray[np.int64], owners: NDArray[np.int64], ascending: NDArray[np.bool_], width: int
    ) -> tuple[Self, NDArray[np.bool_]]:
        """Merge dictionaries of integers of ``width`` bytes, given file by file. See :meth:`build`."""
        file_bits = len(ascending).bit_length()
        codes, value_of = _codes(values, file_bits)
        merged = _merged(codes, owners, len(ascending))
        keys = _Integers(value_of((merged >> file_bits).astype(np.int64)).astype(f"i{width}"))
        return cls._of(keys, merged, _Runs.of(owners, codes), ascending)

    @classmethod
    def _of(
        cls, keys: _Keys, merged: NDArray[np.integer], runs: _Runs, ascending: NDArray[np.bool_]
    ) -> tuple[Self, NDArray[np.bool_]]:
        count, file_bits = len(ascending), len(ascending).bit_length()
        files = (merged & ((1 << file_bits) - 1)).astype(np.int32)
        wrong = runs.unordered(count) & ascending
        wrong[files[1:][merged[1:] == merged[:-1]]] = True
        return cls(keys, files, *runs.ends(merged, file_bits, count)), wrong

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        arrays = (self.files, self.first, self.last, self.distinct)
        return self.keys.nbytes + sum(array.nbytes for array in arrays)

    def having(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Return files that have one of the keys, shape (m,)."""
        having = np.zeros(len(self.first), bool)
        for files in self._files_with(keys):
            having[files] = True
        return having

    def having_others(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Return files with a key that is none of ``keys``, which are distinct. Shape (m,)."""
        hits = np.zeros(len(self.first), np.int64)
        for files in self._files_with(keys):
            # A file occurs once for each of its keys that are looked up together.
            hits += np.bincount(files, minlength=len(hits))
        return self.distinct > hits

    def having_between(self, start: Key | None, stop: Key | None) -> NDArray[np.bool_]:
        """Return files with a key in [start, stop). None means unbounded."""
        first = 0 if start is None else self.keys.below(start)
        behind = len(self.files) if stop is None else self.keys.below(stop)
        starts_inside = (first <= self.first) & (self.first < behind)
        having = starts_inside | ((first <= self.last) & (self.last < behind))
        around = (self.first < first) & (behind <= self.last)
        if first < behind and around.any():
            self._scan(first, behind, having, around)
        return having

    def _files_with(self, keys: Sequence[Key]) -> Iterator[NDArray[np.int32]]:
        if len(keys) <= _FEW_KEYS or not isinstance(self.keys, _Integers):
            for key in keys:
                yield self.files[self.keys.below(key) : self.keys.below(after(key))]
            return
        firsts, behind = self.keys.places(keys)
        counts = behind - firsts
        start, ends = 0, np.cumsum(counts)
        while start < len(counts):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _SCANNED_AT_ONCE, "right")))
            batch = counts[start:stop]
            inside = np.arange(int(batch.sum())) - np.repeat(np.cumsum(batch) - batch, batch)
            yield self.files[np.repeat(firsts[start:stop], batch) + inside]
            start = stop

    def _scan(self, first: int, behind: int, is_in: NDArray[np.bool_], around: NDArray[np.bool_]) -> None:
        for start in range(first, behind, _SCANNED_AT_ONCE):
            is_in[self.files[start : min(start + _SCANNED_AT_ONCE, behind)]] = True
            if is_in[around].all():
                return


def place_type(data: NDArray[np.uint8]) -> type[np.unsignedinteger]:
    """Return the unsigned type that holds any offset of a buffer."""
    return np.uint32 if len(data) < 1 << 32 else np.uint64


def read_integers(data: NDArray[np.uint8], places: NDArray[np.int64], space: KeySpace) -> NDArray[np.int64]:
    """Read keys of a fixed width, with the results of ``space.read``."""
    return as_keys(integers(data, places, f">i{space.width}"), space)


def as_keys(bits: NDArray[np.int64], space: KeySpace) -> NDArray[np.int64]:
    """Turn stored integers of a fixed width into keys, with the results of ``space.read``."""
    if not isinstance(space, FloatingKeys):
        return bits
    keys = np.where(bits < 0, bits ^ ((1 << (8 * space.width - 1)) - 1), bits)
    return np.where((~space.infinity <= keys) & (keys <= space.infinity), keys, space.nan)


def _codes(
    values: NDArray[np.int64], file_bits: int
) -> tuple[NDArray[np.int64], Callable[[NDArray[np.int64]], NDArray[np.int64]]]:
    """Return codes in the order of the values, with ``file_bits`` bits to spare, and the inverse function."""
    if not len(values):
        return values, lambda codes: codes
    least = int(values.min())
    if (int(values.max()) - least).bit_length() + file_bits <= _MOST_BITS:
        return values - least, lambda codes: codes + least
    distinct, codes = np.unique(values, return_inverse=True)
    return codes, distinct.take


def _merged(codes: NDArray[np.int64], owners: NDArray[np.int64], count: int) -> NDArray[np.integer]:
    # Sorted integers: the code of a key, and in the low bits the file that has it.
    file_bits = count.bit_length()
    pairs = codes << file_bits | owners
    # NumPy sorts 32-bit integers several times as fast as 64-bit ones.
    is_narrow = not len(codes) or int(codes.max()) < 1 << (_NARROW_BITS - file_bits)
    return np.sort(pairs.astype(np.uint32) if is_narrow else pairs)


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    # Keys as stored: the file of each run of keys, the run's first position, and the codes of all keys.
    owners: NDArray[np.int64]
    starts: NDArray[np.int64]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, owners: NDArray[np.int64], codes: NDArray[np.int64]) -> Self:
        opens = np.ones(len(owners), bool)
        np.not_equal(owners[1:], owners[:-1], out=opens[1:])
        starts = np.flatnonzero(opens)
        return cls(owners[starts], starts, codes)

    def unordered(self, count: int) -> NDArray[np.bool_]:
        """Return which of ``count`` files have a key that is not above the one before it."""
        wrong = np.zeros(count, bool)
        falls = self.codes[1:] <= self.codes[:-1]
        falls[self.starts[1:] - 1] = False
        wrong[self.owners[np.searchsorted(self.starts, np.flatnonzero(falls), side="right") - 1]] = True
        return wrong

    def ends(
        self, merged: NDArray[np.integer], file_bits: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return positions in ``merged`` of the first and last key of each file, and its number of keys."""
        first, last = np.full(count, len(merged)), np.full(count, -1)
        distinct = np.zeros(count, np.int64)
        if len(self.owners):
            for places, extreme in ((first, np.minimum), (last, np.maximum)):
                codes = extreme.reduceat(self.codes, self.starts)
                pairs = (codes << file_bits | self.owners).astype(merged.dtype)
                places[self.owners] = np.searchsorted(merged, pairs)
            distinct[self.owners] = np.diff(self.starts, append=len(self.codes))
        return first, last, distinct

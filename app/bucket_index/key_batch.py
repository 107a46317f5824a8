"""Rows of a batch, by partition and key hash.

A key hash is that of the *trimmed* primary key (without partition columns, in primary key order) as a binary
row, so it depends on the columns' types, too. It is Murmur3 (x86, 32 bits), which mixes little-endian words
of four bytes into the state:

======  ============================================================================================
step    wrapping 32-bit arithmetic; ``<<<`` rotates to the left
======  ============================================================================================
start   ``h = seed``
word    ``k = (word * 0xcc9e2d51 <<< 15) * 0x1b873593``, ``h = (h ^ k <<< 13) * 5 + 0xe6546b64``
end     ``h ^= length``, ``h = (h ^ h >>> 16) * 0x85ebca6b``, ``h = (h ^ h >>> 13) * 0xc2b2ae35``,
        ``h ^= h >>> 16``
======  ============================================================================================

Implementations differ in bytes left over. Rows are multiples of 8 bytes and have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import mmh3
import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes, HashNumbers, as_hashes
from app.errors import RequestError
from app.types.binary_row import FieldValues, row_hash, write_rows

# Seed of the engine.
SEED: Final = 42

_WORD: Final = np.dtype("<u4")
# This many states stay in CPU caches from word to word.
_ROWS_AT_ONCE: Final = 1 << 14

# With fewer rows, a NumPy call per word costs more than `mmh3` per row.
_FEWEST_ROWS_PER_BYTE: Final = 16


def hash_rows(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Hash contiguous rows, uint8, shape (n, length), where length is a multiple of 4."""
    count, length = rows.shape
    if count < _FEWEST_ROWS_PER_BYTE * length:
        return np.fromiter((mmh3.hash(row.tobytes(), SEED) for row in rows), np.int32, count)
    words = rows.view(_WORD)
    hashes = np.empty(count, np.uint32)
    for start in range(0, count, _ROWS_AT_ONCE):
        block = words[start : start + _ROWS_AT_ONCE]
        state = hashes[start : start + _ROWS_AT_ONCE]
        state[:] = SEED
        for column in range(block.shape[1]):
            _mix(state, block[:, column])
        _finish(state, np.uint32(length))
    return hashes.view(np.int32)


def _mix(state: NDArray[np.uint32], word: NDArray[np.uint32]) -> None:
    mixed = word * np.uint32(0xCC9E2D51)
    mixed = mixed << np.uint32(15) | mixed >> np.uint32(17)
    mixed *= np.uint32(0x1B873593)
    mixed ^= state
    state[:] = mixed << np.uint32(13) | mixed >> np.uint32(19)
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)


def _finish(state: NDArray[np.uint32], length: np.uint32) -> None:
    state ^= length
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)


def key_hashes(fields: Sequence[FieldValues], count: int) -> Hashes:
    """Hash ``count`` trimmed primary keys, in order."""
    hashes = np.empty(count, np.int32)
    for positions, rows in write_rows(fields, count):
        hashes[positions] = hash_rows(rows)
    return hashes


@dataclass(frozen=True, slots=True, eq=False)
class KeyBatch:
    """Key hashes with their partitions.

    ``partitions`` are distinct rows without their number of fields. ``codes`` index them, one per key.
    """

    partitions: Sequence[bytes]
    codes: NDArray[np.intp]
    hashes: Hashes

    @classmethod
    def of(cls, partitions: Sequence[bytes], codes: HashNumbers, hashes: HashNumbers) -> KeyBatch:
        """Make a batch from its attributes. Partitions may repeat here.

        Raises RequestError if a hash is not a signed 32-bit integer, a code names no partition, or there are
        not as many codes as hashes.
        """
        keys = as_hashes(hashes)
        named = np.asarray(codes, np.intp)
        if named.shape != keys.shape:
            raise RequestError(f"each key has a partition: found {len(named)} codes for {len(keys)} hashes")
        if len(named) and not 0 <= named.min() <= named.max() < len(partitions):
            raise RequestError(
                f"codes of {len(partitions)} partitions are 0 to {len(partitions) - 1}, "
                f"found {named.min()} to {named.max()}"
            )
        places = {partition: place for place, partition in enumerate(dict.fromkeys(partitions))}
        if len(places) < len(partitions):
            named = np.array([places[partition] for partition in partitions], np.intp)[named]
        return cls(tuple(places), named, keys)

    @classmethod
    def of_one(cls, partition: bytes, hashes: HashNumbers) -> KeyBatch:
        """Make a batch of one partition. Raises RequestError if a hash is not a signed 32-bit integer."""
        keys = as_hashes(hashes)
        return cls((partition,), np.zeros(len(keys), np.intp), keys)

    @property
    def partition_hashes(self) -> Hashes:
        """Row hash of each key's partition."""
        return np.array([row_hash(partition) for partition in self.partitions], np.int32)[self.codes]

    def by_partition(self) -> list[tuple[bytes, NDArray[np.intp]]]:
        """List partitions that have keys, with the keys' positions, ascending."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.flatnonzero(np.diff(self.codes[order])) + 1
        return [
            (self.partitions[self.codes[positions[0]]], positions)
            for positions in np.split(order, starts)
            if len(positions)
        ]

"""Murmur3 (x86, 32 bits) of many rows at once.

The bytes are taken four at a time, little endian, and each word is mixed into the state:

======  ============================================================================================
step    wrapping 32-bit arithmetic; ``<<<`` rotates to the left
======  ============================================================================================
start   ``h = seed``
word    ``k = (word * 0xcc9e2d51 <<< 15) * 0x1b873593``, ``h = (h ^ k <<< 13) * 5 + 0xe6546b64``
end     ``h ^= length``, ``h = (h ^ h >>> 16) * 0x85ebca6b``, ``h = (h ^ h >>> 13) * 0xc2b2ae35``,
        ``h ^= h >>> 16``
======  ============================================================================================

Implementations differ in what they do with bytes that are left over; rows are multiples of 8 bytes and have
none.
"""

from __future__ import annotations

from typing import Final

import mmh3
import numpy as np
from numpy.typing import NDArray

SEED: Final = 42
"""The engine's."""

_WORD: Final = np.dtype("<u4")
_ROWS_AT_ONCE: Final = 1 << 14
"""So many states stay in the processor's caches from word to word."""

_FEWEST_ROWS_PER_BYTE: Final = 16
"""With fewer rows than that, calling NumPy for each word costs more than ``mmh3`` for each row."""


def hash_rows(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The hash of each row, as signed integers.

    Args:
        rows: contiguous, shape (n, length); the length is a multiple of 4.
    """
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

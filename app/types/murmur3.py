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

Implementations differ in what they do with bytes that are left over. Rows are multiples of 8 bytes and have
none; of strings the engine takes each of these bytes as a word of its own, with its sign.
"""

from __future__ import annotations

from typing import Final

import mmh3
import numpy as np
from numpy.typing import NDArray

from app.types.bytes_column import BytesColumn

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


def hash_strings(strings: BytesColumn) -> NDArray[np.int32]:
    """The hash of each string, none of which is null; bytes left over count as a signed word each."""
    order = np.argsort(-strings.lengths, kind="stable")
    ordered = strings.take(order)
    words, left_over = np.divmod(ordered.lengths, _WORD.itemsize)
    state = np.full(len(ordered), SEED, np.uint32)
    # Longest first: the strings that have a further word stand in front.
    having = len(ordered) - np.searchsorted(words[::-1], np.arange(1, 1 + words.max(initial=0)), "left")
    for word, count in enumerate(having.tolist()):
        part = ordered.take(slice(0, count))
        _mix(state[:count], part.gather(_WORD.itemsize * word, _WORD.itemsize).view(_WORD)[:, 0])
    for byte in range(_WORD.itemsize - 1):
        having_byte = np.flatnonzero(left_over > byte)
        part = ordered.take(having_byte)
        at = _WORD.itemsize * words[having_byte] + byte
        mixed = state[having_byte]
        _mix(mixed, part.gather(at, 1)[:, 0].view(np.int8).astype(np.int32).view(np.uint32))
        state[having_byte] = mixed
    _finish(state, ordered.lengths.astype(np.uint32))
    hashes = np.empty(len(ordered), np.int32)
    hashes[order] = state.view(np.int32)
    return hashes


def _mix(state: NDArray[np.uint32], word: NDArray[np.uint32]) -> None:
    mixed = word * np.uint32(0xCC9E2D51)
    mixed = mixed << np.uint32(15) | mixed >> np.uint32(17)
    mixed *= np.uint32(0x1B873593)
    mixed ^= state
    state[:] = mixed << np.uint32(13) | mixed >> np.uint32(19)
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)


def _finish(state: NDArray[np.uint32], length: NDArray[np.uint32] | np.uint32) -> None:
    state ^= length
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)

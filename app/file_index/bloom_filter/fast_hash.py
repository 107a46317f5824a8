"""The 64-bit hashes that bloom filters test.

Texts and binaries are hashed with XXH64, seed 0. Every other key is widened with its sign to 64 bits
(floating point values by their bits, with one NaN) and mixed as Thomas Wang proposed, with Java's wrapping
arithmetic and its arithmetic right shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from app.file_index.keys.arrow_keys import Keys
from app.file_index.keys.keys import FloatingKeys, Key, KeySpace
from app.types.bytes_column import BytesColumn

_Number = TypeVar("_Number", int, NDArray[np.int64])

KEYS_AT_ONCE: Final = 1 << 14
"""So many hashes stay in the processor's caches from step to step."""

_MASK = (1 << 64) - 1
_SIGN = 1 << 63


def hash_key(key: Key, space: KeySpace) -> int:
    """Hash of one key, as an unsigned 64-bit integer."""
    if isinstance(key, bytes):
        return xxhash.xxh64_intdigest(key)
    return mix(space.reorder(key) if isinstance(space, FloatingKeys) else key)


def hash_keys(keys: Keys, space: KeySpace) -> Iterator[NDArray[np.uint64]]:
    """The hashes of many keys in their order, :data:`KEYS_AT_ONCE` at a time."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = slice(start, start + KEYS_AT_ONCE)
        if isinstance(keys, BytesColumn):
            strings = keys.take(part).to_arrow().to_numpy(zero_copy_only=False)
            yield np.fromiter(map(xxhash.xxh64_intdigest, strings), np.uint64, len(strings))
        else:
            numbers = space.reorder(keys[part]) if isinstance(space, FloatingKeys) else keys[part]
            yield _mixed(numbers.astype(np.int64), lambda wrapped: wrapped).view(np.uint64)


def mix(number: int) -> int:
    """Hash of a signed 64-bit integer, as an unsigned one."""
    return _mixed(number, _wrap) & _MASK


def _mixed(x: _Number, wrap: Callable[[_Number], _Number]) -> _Number:
    """The signed hash; ``wrap`` cuts a number to 64 bits where its type does not."""
    x = wrap(~x + (x << 21))
    x = x ^ x >> 24
    x = wrap(x + (x << 3) + (x << 8))
    x = x ^ x >> 14
    x = wrap(x + (x << 2) + (x << 4))
    x = x ^ x >> 28
    return x + (x << 31)


def _wrap(number: int) -> int:
    """The low 64 bits as a signed integer."""
    return ((number + _SIGN) & _MASK) - _SIGN

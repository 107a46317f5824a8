"""The 64-bit hashes that bloom filters test.

Texts and binaries are hashed with XXH64, seed 0. Every other key is widened with its sign to 64 bits
(floating point values by their bits, with one NaN) and mixed as Thomas Wang proposed, with Java's wrapping
arithmetic and its arithmetic right shifts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

from app.file_index.keys import FloatingKeys

if TYPE_CHECKING:
    from app.file_index.keys import Key, KeySpace

_MASK = (1 << 64) - 1
_SIGN = 1 << 63


def hash_key(key: Key, space: KeySpace) -> int:
    """Hash of one key, as an unsigned 64-bit integer."""
    if isinstance(key, bytes):
        return xxhash.xxh64_intdigest(key)
    return mix(space.reorder(key) if isinstance(space, FloatingKeys) else key)


def mix(number: int) -> int:
    """Hash of a signed 64-bit integer, as an unsigned one."""
    x = _wrap(~number + (number << 21))
    x ^= x >> 24
    x = _wrap(x + (x << 3) + (x << 8))
    x ^= x >> 14
    x = _wrap(x + (x << 2) + (x << 4))
    x ^= x >> 28
    return (x + (x << 31)) & _MASK


def _wrap(number: int) -> int:
    """The low 64 bits as a signed integer."""
    return ((number + _SIGN) & _MASK) - _SIGN

"""``bloom-filter``: rules out values that are not in the file.

======  =======  ===================================================
offset  type     meaning
======  =======  ===================================================
0       i32 BE   number of hash functions k
4       bytes    bit set; bit n is byte ``n >> 3``, mask ``1 << (n & 7)``
======  =======  ===================================================

The bit set has ``m = 8 * bytes`` bits. A key's 64-bit hash is cut into two 32-bit halves, ``h1`` (low) and
``h2`` (high). For i from 1 to k the bit ``c mod m`` is set, where ``c`` is ``h1 + i * h2`` in wrapping signed
32-bit arithmetic, complemented if it is negative. Null rows leave no trace.

The hash of texts and binaries is XXH64, seed 0. Every other key is sign-extended to 64 bits
(floating point values by their bits, with one NaN) and mixed by Thomas Wang's function, with Java's wrapping
arithmetic and arithmetic right shifts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from app.file_index.keys.arrow_keys import ArrowKeys
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import FloatingKeys, Key, KeySpace
from app.types import BytesColumn
from app.types.roaring import Buffer

_Number = TypeVar("_Number", int, NDArray[np.int64])

KEYS_AT_ONCE: Final = 1 << 14
"""Batch of keys whose hashes stay in the processor's caches from step to step."""

_MASK_64 = (1 << 64) - 1
_SIGN = 1 << 63

_Hash = TypeVar("_Hash", int, NDArray[Any])

DEFAULT_ITEMS: Final = 1_000_000
DEFAULT_FPP: Final = 0.1

MAX_HASH_FUNCTIONS: Final = 1100
"""Bound on hash functions, above what the smallest positive rate of false positives requires."""

# This many bytes give the estimate to within about 5 %.
_COUNTED_BYTES: Final = 1_024

_HASH_FUNCTIONS = struct.Struct(">i")
_MASK = (1 << 32) - 1
_SIGN_BIT = 31


def hash_key(key: Key, space: KeySpace) -> int:
    """Hash one key to an unsigned 64-bit integer."""
    if isinstance(key, bytes):
        return xxhash.xxh64_intdigest(key)
    return mix(space.reorder(key) if isinstance(space, FloatingKeys) else key)


def hash_keys(keys: ArrowKeys, space: KeySpace) -> Iterator[NDArray[np.uint64]]:
    """Yield the hashes of many keys in their order, :data:`KEYS_AT_ONCE` at a time."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = slice(start, start + KEYS_AT_ONCE)
        if isinstance(keys, BytesColumn):
            strings = keys.take(part).to_arrow().to_numpy(zero_copy_only=False)
            yield np.fromiter(map(xxhash.xxh64_intdigest, strings), np.uint64, len(strings))
        else:
            numbers = space.reorder(keys[part]) if isinstance(space, FloatingKeys) else keys[part]
            yield _mixed(numbers.astype(np.int64), lambda wrapped: wrapped).view(np.uint64)


def mix(number: int) -> int:
    """Hash a signed 64-bit integer to an unsigned one."""
    return _mixed(number, _wrap) & _MASK_64


def _mixed(x: _Number, wrap: Callable[[_Number], _Number]) -> _Number:
    """Return the signed hash. ``wrap`` cuts a number to 64 bits if its type does not."""
    x = wrap(~x + (x << 21))
    x = x ^ x >> 24
    x = wrap(x + (x << 3) + (x << 8))
    x = x ^ x >> 14
    x = wrap(x + (x << 2) + (x << 4))
    x = x ^ x >> 28
    return x + (x << 31)


def _wrap(number: int) -> int:
    return ((number + _SIGN) & _MASK_64) - _SIGN


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set that also admits some keys that it lacks. Each of its keys sets ``hash_functions`` bits."""

    space: KeySpace
    hash_functions: int
    bits: Buffer

    @property
    def false_positive_rate(self) -> float:
        """Estimated probability that a missing key passes, by the share of bits that are set."""
        # Hashes spread keys evenly, so the first bytes of a long bit set represent all of it.
        front = self.bits[:_COUNTED_BYTES]
        share = int.from_bytes(front).bit_count() / (8 * len(front))
        return float(f"{share**self.hash_functions:.2g}")


def places(hashed: _Hash, hash_functions: int, size_bits: int) -> Iterator[_Hash]:
    """Yield the bit of each hash function, for one hash or for an array of them."""
    return (spot % size_bits for spot in spots(hashed, hash_functions))


def spots(hashed: _Hash, hash_functions: int) -> Iterator[_Hash]:
    """Yield the result of each hash function. Modulo the size of a bit set, it is the bit's position."""
    step, at = hashed >> 32, hashed & _MASK
    for _ in range(hash_functions):
        at = (at + step) & _MASK
        yield at ^ -(at >> _SIGN_BIT) & _MASK


def payload_bytes(items: int, fpp: float) -> int:
    """Return the size of a payload for ``items`` distinct values and a rate of false positives."""
    size_bits = int(-items * math.log(fpp) / (math.log(2) ** 2))
    return _HASH_FUNCTIONS.size + size_bits // 8 + 1


def write(column: KeyColumn, items: int = DEFAULT_ITEMS, fpp: float = DEFAULT_FPP) -> bytes:
    """Write the index of a column. ``items``: distinct values to make room for, at least 1."""
    size_bits = 8 * (payload_bytes(items, fpp) - _HASH_FUNCTIONS.size)
    hash_functions = max(1, math.floor(size_bits / items * math.log(2) + 0.5))
    bits = np.zeros(size_bits // 8, np.uint8)
    for hashes in hash_keys(column.keys, column.space):
        for at in places(hashes, hash_functions, size_bits):
            np.bitwise_or.at(bits, (at >> 3).astype(np.intp), (1 << (at & 7)).astype(np.uint8))
    return _HASH_FUNCTIONS.pack(hash_functions) + bits.tobytes()

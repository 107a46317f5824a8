"""``bloom-filter``: whether a value may be in the file at all.

======  =======  ===================================================
offset  type     meaning
======  =======  ===================================================
0       i32 BE   number of hash functions k
4       bytes    bit set; bit n is byte ``n >> 3``, mask ``1 << (n & 7)``
======  =======  ===================================================

The bit set has ``m = 8 * bytes`` bits. A key's 64-bit hash (:mod:`app.file_index.bloom_filter.fast_hash`) is
cut into two 32-bit halves, ``h1`` (low) and ``h2`` (high); for i from 1 to k the bit ``c mod m`` is set,
where ``c`` is ``h1 + i * h2`` in wrapping signed 32-bit arithmetic, complemented if it is negative. Null rows
leave no trace.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.answers.conditions import Condition, Points
from app.file_index.answers.result import KEEP, SKIP, Decision
from app.file_index.bloom_filter.fast_hash import hash_key, hash_keys
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads.cursor import Cursor
from app.types.roaring import Buffer

_Hash = TypeVar("_Hash", int, NDArray[Any])

DEFAULT_ITEMS: Final = 1_000_000
DEFAULT_FPP: Final = 0.1

MAX_HASH_FUNCTIONS: Final = 1100
"""More than the smallest positive probability of a false positive calls for."""

_HASH_FUNCTIONS = struct.Struct(">i")
_MASK = (1 << 32) - 1
_SIGN_BIT = 31


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set that forgets which keys it holds, but not that it lacks one.

    Attributes:
        space: how values become keys.
        hash_functions: bits that each key sets.
        bits: the bit set.
    """

    space: KeySpace
    hash_functions: int
    bits: Buffer

    @classmethod
    def read(cls, buffer: Buffer, space: KeySpace) -> Self:
        """Reads the head; the bit set stays where it is.

        Raises:
            CorruptIndexError: there are no bits, or no sensible number of hash functions.
        """
        cursor = Cursor(buffer)
        hash_functions = cursor.i32("number of hash functions")
        if not 1 <= hash_functions <= MAX_HASH_FUNCTIONS:
            raise CorruptIndexError(
                f"expected 1 to {MAX_HASH_FUNCTIONS} hash functions, found {hash_functions}",
                offset=0,
            )
        if cursor.remaining == 0:
            raise CorruptIndexError("expected the bits of a bloom filter, found none", offset=cursor.position)
        return cls(space, hash_functions, cursor.take(cursor.remaining, "bits"))

    def select(self, condition: Condition) -> Decision:
        """``SKIP`` where no row can have one of the asked keys."""
        match condition:
            case Points(keys, negated=False) if not any(self.may_hold(key) for key in keys):
                return SKIP
            case _:
                return KEEP

    def may_hold(self, key: Key) -> bool:
        """False only if no row has this key."""
        bits = self.bits
        tested = places(hash_key(key, self.space), self.hash_functions, 8 * len(bits))
        return all(bits[at >> 3] >> (at & 7) & 1 for at in tested)


def places(hashed: _Hash, hash_functions: int, size_bits: int) -> Iterator[_Hash]:
    """The bits of one hash, or one by one those of many."""
    return (spot % size_bits for spot in spots(hashed, hash_functions))


def spots(hashed: _Hash, hash_functions: int) -> Iterator[_Hash]:
    """The same in a bit set without end; a real one takes them modulo its size."""
    step, at = hashed >> 32, hashed & _MASK
    for _ in range(hash_functions):
        at = (at + step) & _MASK
        yield at ^ -(at >> _SIGN_BIT) & _MASK


def payload_bytes(items: int, fpp: float) -> int:
    """Bytes of a payload that is made for so many distinct values and this rate of false positives."""
    wanted_bits = int(-items * math.log(fpp) / (math.log(2) ** 2))
    return _HASH_FUNCTIONS.size + wanted_bits // 8 + 1


def write(column: KeyColumn, items: int = DEFAULT_ITEMS, fpp: float = DEFAULT_FPP) -> bytes:
    """The index of a column.

    Args:
        column: of a type that the index takes.
        items: number of distinct values that the size is made for, at least 1.
        fpp: wanted probability of a false positive, between 0 and 1.
    """
    size_bits = 8 * (payload_bytes(items, fpp) - _HASH_FUNCTIONS.size)
    hash_functions = max(1, math.floor(size_bits / items * math.log(2) + 0.5))
    bits = np.zeros(size_bits // 8, np.uint8)
    for hashes in hash_keys(column.keys, column.space):
        for at in places(hashes, hash_functions, size_bits):
            np.bitwise_or.at(bits, (at >> 3).astype(np.intp), (1 << (at & 7)).astype(np.uint8))
    return _HASH_FUNCTIONS.pack(hash_functions) + bits.tobytes()

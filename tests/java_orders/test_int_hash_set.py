"""The set of key hashes: its content against Python's, its order against the Java engine's."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import Hashes, hash_index
from app.java_orders.int_hash_set import IntHashSet

# Multiples of a large power of two share their slots at first.
KEYS = st.integers(-9, 9) | st.integers(-40, 40).map(lambda number: number << 24)
BATCHES = st.lists(st.lists(KEYS | st.integers(-(2**31), 2**31 - 1), max_size=60), max_size=6)


def array(keys: list[int]) -> Hashes:
    return np.array(keys, np.int32)


def congruential(count: int) -> list[int]:
    """The numbers ``x = x * 1103515245 + 12345`` from x = 1 on, in 32 bits."""
    numbers, number = [], 1
    for _ in range(count):
        number = (number * 1103515245 + 12345) % 2**32
        numbers.append(number - 2**32 if number >= 2**31 else number)
    return numbers


def wrapping(count: int) -> list[int]:
    """The multiples of 65,536, which differ in their high halves only."""
    return [(number * 65536 + 2**31) % 2**32 - 2**31 for number in range(count)]


@pytest.mark.parametrize(
    ("expected", "keys", "digest"),
    [
        (16, congruential(24), "ae9d085efeec59a003bc23f2b29a88c85a9cd30da880519db3168201b664a1dd"),
        (16, congruential(25), "a3d2a5a710809114d96b09a4dc9f90c72ec1418544a70b7a12772cc760f36889"),
        (16, congruential(10000), "792af4637c3cf68c045776cbd8d0f3a76ebe19a52ff341fc872ec1376812e9ad"),
        (16, wrapping(3000), "c2efcd79cbe2b6f933f0cdfa5fc2bacc6a12cc98f0c85de9e6082fbe6013101e"),
        (0, congruential(100), "781e9efe096cd154529d6e060b8d2c27ad62ba59ed6eb79ea15bd3b25d148115"),
        (1, congruential(100), "781e9efe096cd154529d6e060b8d2c27ad62ba59ed6eb79ea15bd3b25d148115"),
        (5000, congruential(5000), "f139927c04f9638d824d160e1f33be001dc6330e564bf0389763b1157065f080"),
        (5000, wrapping(7000), "1f91e0f791b252506172993ae2efd8f56cf0ff88b71159ba462a48dfe03d610a"),
    ],
)
def test_the_order_is_that_of_the_engine(expected: int, keys: list[int], digest: str) -> None:
    # Digests of what org.apache.paimon.utils.IntHashSet of Paimon 1.4.2 iterates over, as a hash index file.
    at_once, one_by_one = IntHashSet(expected), IntHashSet(expected)
    at_once.add(array(keys))
    for key in keys[:300]:
        one_by_one.add(array([key]))
    one_by_one.add(array(keys[300:]))
    for filled in (at_once, one_by_one):
        assert hashlib.sha256(hash_index.write(filled.to_array())).hexdigest() == digest


@given(BATCHES, st.integers(0, 40))
def test_every_key_is_held_once(batches: list[list[int]], expected: int) -> None:
    keys, plain = IntHashSet(expected), set[int]()
    for batch in batches:
        assert keys.add(array(batch)) == len(set(batch) - plain)
        plain |= set(batch)
        assert len(keys) == len(plain)
        assert sorted(keys.to_array().tolist()) == sorted(plain)


@given(BATCHES, st.integers(0, 40))
def test_the_order_does_not_depend_on_batches(batches: list[list[int]], expected: int) -> None:
    batched, single = IntHashSet(expected), IntHashSet(expected)
    for batch in batches:
        batched.add(array(batch))
        for key in batch:
            single.add(array([key]))
    assert batched.to_array().tolist() == single.to_array().tolist()


def test_a_key_takes_at_most_eleven_bytes() -> None:
    keys = IntHashSet()
    keys.add(np.arange(3 * 2**14 + 1, dtype=np.int32))
    assert keys.nbytes == 4 * 2**17
    assert keys.nbytes / len(keys) < 11

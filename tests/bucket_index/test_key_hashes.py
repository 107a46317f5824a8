from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index.key_batch import SEED, hash_rows
from tests.examples import examples


@examples(50)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_hashes_are_those_of_mmh3(words: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    # Few rows, many rows, and more than are hashed at once.
    for count in (0, 1, 1000, 17_000):
        rows = chance.integers(0, 256, (count, 4 * words), dtype=np.uint8)
        hashes = hash_rows(rows)
        assert hashes.dtype == np.int32
        looked_at = slice(None) if count <= 1000 else slice(-1000, None)
        assert hashes[looked_at].tolist() == [mmh3.hash(row.tobytes(), SEED) for row in rows[looked_at]]


@pytest.mark.parametrize("byte", [0, 0x7F, 0x80, 0xFF])
def test_extreme_words_wrap_as_in_java(byte: int) -> None:
    rows = np.full((2000, 16), byte, np.uint8)
    assert set(hash_rows(rows).tolist()) == {mmh3.hash(bytes([byte]) * 16, SEED)}

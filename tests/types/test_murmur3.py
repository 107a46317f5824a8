from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types.bytes_column import BytesColumn
from app.types.murmur3 import SEED, hash_rows, hash_strings
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


def test_strings_hash_as_the_engines() -> None:
    recorded = {
        "": 142593372,
        "a": 1485273170,
        "é": 2119106806,
        "abcd": -396302900,
        "abcde": 814637928,
        "abcdef": 724255765,
        "abcdefg": 2132013596,
        "abcdefgh": -804741815,
        "键😀": 1012986700,
        "x" * 1001: -1536256584,
    }

    hashes = hash_strings(BytesColumn.of([text.encode() for text in recorded]))

    assert hashes.tolist() == list(recorded.values())
    assert hash_strings(BytesColumn.of([])).tolist() == []


@given(st.lists(st.binary(max_size=30)))
def test_strings_of_whole_words_hash_as_rows(strings: list[bytes]) -> None:
    whole = [string[: len(string) // 4 * 4] for string in strings]

    assert hash_strings(BytesColumn.of(whole)).tolist() == [mmh3.hash(string, SEED) for string in whole]

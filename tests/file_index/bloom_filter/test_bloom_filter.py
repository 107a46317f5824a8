from collections.abc import Mapping
from typing import Any

import pytest

from app.file_index.bloom_filter.bloom_filter import hash_key, write
from app.file_index.index_kinds import BLOOM_FILTER
from app.file_index.keys.keys import key_space
from app.types import parse_json, parse_type
from tests import golden_cases
from tests.golden_cases import expand
from tests.key_columns import key_column


@pytest.mark.parametrize(
    "hashed", golden_cases.document("hash", "fast-hash")["types"], ids=lambda hashed: str(hashed["type"])
)
def test_hashes_as_the_engine_does(hashed: Mapping[str, Any]) -> None:
    data_type = parse_type(hashed["type"])
    if "error" in hashed:
        assert not BLOOM_FILTER.takes(data_type)
        return
    space = key_space(data_type)
    assert space is not None

    for written, expected in hashed["values"]:
        value = parse_json(expand(written), data_type)
        assert value is not None
        assert hash_key(space.key(value), space) == expected % (1 << 64), written


@pytest.mark.parametrize(
    ("items", "fpp", "hash_functions", "size"),
    [(100, 0.99, 1, 1), (50, 0.5, 1, 10), (50, 0.3, 2, 16), (20, 0.1, 3, 12), (20, 0.05, 4, 16)],
)
def test_has_the_size_and_the_hash_functions_of_the_engine(
    items: int, fpp: float, hash_functions: int, size: int
) -> None:
    # As BloomFilter64 rounds them: whole bytes above ln(1 / fpp) / ln(2)**2 bits per item, ln(2) hash
    # functions per bit and item, and never none.
    payload = write(key_column([1], parse_type("BIGINT")), items, fpp)
    assert (int.from_bytes(payload[:4], "big"), len(payload) - 4) == (hash_functions, size)

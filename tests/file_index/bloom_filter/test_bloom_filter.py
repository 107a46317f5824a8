from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.file_index.bloom_filter.bloom_filter import hash_key
from app.file_index.index_kinds import BLOOM_FILTER
from app.file_index.keys.keys import key_space
from app.types import parse_json, parse_type
from tests import golden_unit
from tests.golden_file_index import expand


@pytest.mark.parametrize(
    "hashed", golden_unit.document("hash", "fast-hash")["types"], ids=lambda hashed: str(hashed["type"])
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

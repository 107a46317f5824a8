"""Small files that would become large: found out before they do, and what is asked for is told."""

from __future__ import annotations

from typing import Final

import pytest

from app.errors import CorruptMetadataError, MemoryShortError
from app.table.manifests.manifest import Manifest
from app.table.records.expansion import asking
from tests.table.expanding import encoded, manifest_of, with_empty_extra_files

MIB: Final = 1 << 20

BOMBS: Final = {
    "keys of 60 MB": lambda: manifest_of(*[encoded(min_key=bytes(60_000_000))] * 4),
    "60 M names without a letter": lambda: manifest_of(*[with_empty_extra_files(60_000_000)] * 4),
    "indexes of 60 MB": lambda: manifest_of(
        *[encoded(embedded_index=bytes.fromhex("00054e4ed01a35ae") + bytes(60_000_000))] * 4
    ),
    "many keys of 1 MB": lambda: manifest_of(*[encoded(min_key=bytes(1_000_000))] * 100),
    "many lists of 1 M names": lambda: manifest_of(*[with_empty_extra_files(1_000_000)] * 20),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_corrupt_and_asks_for_little(bomb: str) -> None:
    data = BOMBS[bomb]()
    asked: list[int] = []

    assert len(data) < 50_000
    with pytest.raises(CorruptMetadataError), asking(asked.append):
        Manifest.read(data)

    assert max(asked) < 270 * MIB


def test_memory_is_asked_for_in_time_and_about_as_much_as_is_taken() -> None:
    content = manifest_of(*[encoded(embedded_index=bytes.fromhex("00054e4ed01a35ae") + bytes(600_000))] * 50)
    asked: list[int] = []

    with asking(asked.append):
        found = Manifest.read(content)

    assert found.decoded_bytes <= max(asked) <= 2 * found.decoded_bytes


def test_who_may_have_no_memory_is_told_so() -> None:
    def refuse(size: int) -> None:
        raise MemoryShortError(f"{size} are too many")

    with pytest.raises(MemoryShortError), asking(refuse):
        Manifest.read(manifest_of(encoded()))

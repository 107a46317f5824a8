"""Small files that would become large are found out before they do."""

from typing import Final

import pytest

from app.errors import CorruptMetadataError
from app.table.manifests.manifest import Manifest
from tests.table.expanding import encoded, manifest_of, with_empty_extra_files

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
def test_a_bomb_is_corrupt(bomb: str) -> None:
    data = BOMBS[bomb]()

    assert len(data) < 50_000
    with pytest.raises(CorruptMetadataError, match=r"expands to more than|would take"):
        Manifest.read(data)


def test_nearly_empty_indexes_are_read_however_well_they_compress() -> None:
    index = bytes.fromhex("00054e4ed01a35ae") + bytes(600_000)
    data = manifest_of(*[encoded(embedded_index=index)] * 50)

    assert len(data) < 50_000
    assert list(Manifest.read(data).embedded_indexes) == [index] * 50

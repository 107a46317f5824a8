from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import PaimonIndexError
from app.table.index_manifest import DeletionRange, IndexEntry, IndexManifest
from app.table.manifest_entry import FileKind
from tests import golden_unit

KIND = "index-manifest"
FILES = [file["file"] for file in golden_unit.document(KIND, "files")["files"]]


def expected_entry(recorded: dict[str, Any]) -> IndexEntry:
    return IndexEntry(
        kind=FileKind[recorded["kind"]],
        partition=bytes.fromhex(recorded["partition_hex"]),
        bucket=recorded["bucket"],
        index_type=recorded["index_type"],
        file_name=recorded["file_name"],
        file_size=recorded["file_size"],
        row_count=recorded["row_count"],
        ranges=tuple(
            DeletionRange(each["data_file"], each["offset"], each["length"], each["cardinality"])
            for each in recorded["dv_ranges"] or ()
        ),
        external_path=recorded["external_path"],
    )


@pytest.mark.parametrize("name", FILES)
def test_entries_are_what_the_engine_wrote(name: str) -> None:
    files = golden_unit.document(KIND, "files")["files"]
    (recorded,) = (file["entries"] for file in files if file["file"] == name)
    found = IndexManifest.parse(golden_unit.files(KIND)[name])
    assert list(found.entries) == [expected_entry(entry) for entry in recorded]
    assert found.nbytes > 0


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(FILES), st.data())
def test_damage_raises_nothing_but_our_errors(name: str, data: st.DataObject) -> None:
    damaged = bytearray(golden_unit.files(KIND)[name])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PaimonIndexError):
        IndexManifest.parse(bytes(damaged))

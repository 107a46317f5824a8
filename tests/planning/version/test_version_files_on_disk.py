"""Files of a version that come back from the disk are the files that were kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from app.planning.version import contents
from app.planning.version.contents import VersionFiles, open_version_files, store_version_files
from app.planning.version.manifests import Manifests
from app.storage import DiskTier
from app.storage.disk_entry import Piece
from app.storage.disk_tier import KeptArrays
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import FileKind
from app.types import parse_type
from app.types.binary_row.row import serialize_row
from tests.planning.version.test_version_files import columns
from tests.table.entries import entry, manifest

KEYS = [("manifest-\udc80", 1), ("manifest-2", 2), ("manifest-3", 3)]


def manifests() -> list[Manifest]:
    """The second of three removes a file of the first."""
    partitions = [serialize_row([number], [parse_type("INT")]) for number in range(2)]
    first = [entry(file_name=f"a{at}", partition=partitions[at % 2], row_count=at) for at in range(5)]
    removed = entry(kind=FileKind.DELETE, file_name="a1", partition=partitions[1], row_count=1)
    second = [removed, entry(file_name="b", partition=partitions[0], bucket=7)]
    return [manifest(first), manifest(second), manifest([entry(file_name="c", level=5)])]


@pytest.fixture(autouse=True)
def _keeps_small_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "LEAST_FILES", 1)


def place(directory: Path) -> KeptArrays:
    return KeptArrays(DiskTier(directory, 1 << 30), Piece("w", "db.db/t", None, 0, None), "live files", "w")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_files_come_back(tmp_path: Path, count: int) -> None:
    live = VersionFiles.of(KEYS[:count], Manifests.of(manifests()[:count]))

    kept = store_version_files(place(tmp_path), live)
    found = open_version_files(place(tmp_path))

    assert found is not None
    assert (list(found.keys), list(found.removing)) == (list(live.keys), list(live.removing))
    assert columns(found) == columns(live)
    assert found.on_disk == kept.on_disk == len(live.columns)
    assert found.is_of(KEYS[:count])


def test_what_is_mapped_takes_no_memory(tmp_path: Path) -> None:
    live = VersionFiles.of(KEYS, Manifests.of(manifests()))
    store_version_files(place(tmp_path), live)

    found = open_version_files(place(tmp_path))

    assert found is not None
    assert found.columns.nbytes < live.columns.nbytes // 2


def test_a_version_that_follows_is_told_from_what_was_kept(tmp_path: Path) -> None:
    store_version_files(place(tmp_path), VersionFiles.of(KEYS[:2], Manifests.of(manifests()[:2])))

    found = VersionFiles.of(KEYS, Manifests.of(manifests()), open_version_files(place(tmp_path)))

    assert columns(found) == columns(VersionFiles.of(KEYS, Manifests.of(manifests())))
    assert found.on_disk == 5


def test_a_few_new_files_are_no_reason_to_write_everything_anew(tmp_path: Path) -> None:
    live = VersionFiles.of(KEYS, Manifests.of(manifests()))
    store_version_files(place(tmp_path), replace(live, on_disk=0))
    place(tmp_path).drop()

    assert store_version_files(place(tmp_path), replace(live, on_disk=6)).on_disk == 6
    assert open_version_files(place(tmp_path)) is None
    assert store_version_files(place(tmp_path), replace(live, on_disk=5)).on_disk == 6
    assert open_version_files(place(tmp_path)) is not None


def test_nothing_is_taken_from_a_damaged_file(tmp_path: Path) -> None:
    """Wherever the file is damaged; it is gone then."""
    live = VersionFiles.of(KEYS, Manifests.of(manifests()))
    store_version_files(place(tmp_path), live)
    [file] = (path for path in tmp_path.rglob("*") if path.is_file())
    written = file.read_bytes()
    for start, stop in pairwise(range(0, len(written), 1 + len(written) // 50)):
        # Mapped files are never written to, but replaced.
        file.unlink(missing_ok=True)
        file.write_bytes(written[:start] + bytes(byte ^ 1 for byte in written[start:stop]) + written[stop:])

        assert open_version_files(place(tmp_path)) is None
        assert not file.exists()

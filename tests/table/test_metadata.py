"""What versions consist of: read once, of files that may be gone or damaged."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, PaimonIndexError, SnapshotExpiredError, UnsupportedFormatError
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestList
from app.table.table import Table
from tests.examples import examples
from tests.golden_tables import GoldenWarehouse
from tests.memory_storage import MemoryStorage
from tests.table.entries import avro, entry, record
from tests.table.versioned_table import DIRECTORY, metadata_reads


def test_what_is_written_once_is_read_once(table: Table, storage: MemoryStorage) -> None:
    for _ in range(3):
        resolved = table.resolve()
        assert table.metadata.manifests(resolved)
        assert table.metadata.index_entries(resolved)
    assert len(metadata_reads(storage)) == len(set(metadata_reads(storage)))


def test_a_new_version_decodes_only_what_it_added(table: Table, storage: MemoryStorage) -> None:
    older, newer = (table.resolve(snapshot_id=number) for number in (7, 8))
    table.metadata.manifests(older)
    seen = {name for name, _ in table.metadata.manifest_files(older)}
    added = [name for name, _ in table.metadata.manifest_files(newer) if name not in seen]
    storage.reads.clear()
    manifests = table.metadata.manifests(newer)
    assert len(manifests) == len(table.metadata.manifest_files(newer)) > len(added) > 0
    assert [path.rpartition("/")[2] for path in metadata_reads(storage)] == added


@pytest.mark.parametrize("kind", ["manifest-list-", "manifest-", "index-manifest-"])
def test_files_that_expire_while_they_are_read(table: Table, storage: MemoryStorage, kind: str) -> None:
    resolved = table.resolve()
    for path in list(storage.files):
        if path.startswith(f"{DIRECTORY}/manifest/{kind}"):
            del storage.files[path]
    with pytest.raises(SnapshotExpiredError, match=kind):
        _ = table.metadata.manifests(resolved), table.metadata.index_entries(resolved)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"garbage", CorruptMetadataError),
        (b"ORC...", CorruptMetadataError),
        (b"PAR1" + bytes(20), CorruptMetadataError),
        (avro([{**record(entry()), "_VERSION": 3}]), UnsupportedFormatError),
    ],
    ids=["garbage", "orc", "parquet", "later_version"],
)
def test_errors_name_the_file(
    table: Table, storage: MemoryStorage, content: bytes, error: type[PaimonIndexError]
) -> None:
    ((name, _), *_) = table.metadata.manifest_files(table.resolve())
    path = f"{DIRECTORY}/manifest/{name}"
    storage.files[path] = content
    with pytest.raises(error, match=path):
        table.metadata.manifests(table.resolve())


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_manifests_raise_nothing_but_our_errors(golden: GoldenWarehouse, data: st.DataObject) -> None:
    # Not compressed, so that damage reaches the records.
    files = sorted((golden.table("codec_null") / "manifest").glob("manifest-*"))
    path = data.draw(st.sampled_from(files))
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PaimonIndexError):
        (ManifestList if "manifest-list" in path.name else Manifest).read(bytes(damaged))

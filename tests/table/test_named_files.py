from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest

from app.errors import CorruptMetadataError, PaimonIndexError, PathNotAllowedError, UnsupportedFormatError
from tests.table.index_tables import DAY, NOW, IndexTable, ReaderOf, find

VERSIONS = [
    "snapshot/snapshot-7",
    "tag/tag-v1",
    "tag/tag-with space",
    "tag/tag-a/b",
    "tag/tag-a/b/tag-c",
    "changelog/changelog-3",
    "branch/branch-dev/snapshot/snapshot-2",
    "branch/branch-dev/tag/tag-v1",
    "branch/branch-dev/tag/tag-a/b",
    "branch/branch-dev/changelog/changelog-1",
    "branch/branch-a/b/snapshot/snapshot-1",
]


@pytest.fixture
def table(tmp_path: Path) -> IndexTable:
    return IndexTable.make(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_names_is_in_use(table: IndexTable, reader_of: ReaderOf, version: str) -> None:
    used, stray = table.index_file(), table.index_file()
    manifest, stray_manifest = table.index_manifest(used), table.index_manifest(used, stray)
    table.version(version, manifest)

    assert find(table, reader_of) == sorted([stray, stray_manifest])


@pytest.mark.parametrize(
    "path", ["snapshot/snapshot-x", "snapshot/.snapshot-7.f0.tmp", "tag/.tag-v1.f0.tmp", "old/snapshot-1"]
)
def test_what_is_no_version_names_nothing(table: IndexTable, reader_of: ReaderOf, path: str) -> None:
    manifest = table.index_manifest()
    table.version(path, manifest)

    assert find(table, reader_of) == [manifest]


def test_a_version_without_index_manifest(table: IndexTable, reader_of: ReaderOf) -> None:
    table.version("snapshot/snapshot-1", None)

    assert find(table, reader_of) == []


def test_a_changelog_outlives_its_index_manifest(table: IndexTable, reader_of: ReaderOf) -> None:
    gone, kept = table.index_manifest(), table.index_manifest(table.index_file())
    table.version("changelog/changelog-1", gone)
    table.version("changelog/changelog-2", kept)
    table.delete(gone)

    assert find(table, reader_of) == []


class TestUnreadable:
    """Whatever cannot be read could name everything."""

    @pytest.fixture
    def table(self, table: IndexTable) -> IndexTable:
        """A table with one index file in use."""
        table.version("snapshot/snapshot-1", table.index_manifest(table.index_file()))
        table.index_file()
        return table

    def check(
        self, table: IndexTable, reader_of: ReaderOf, error: type[PaimonIndexError], match: str
    ) -> None:
        """Neither finding nor removing what was found before goes through."""
        before = table.paths()
        with pytest.raises(error, match=match):
            table.orphans(reader_of).find(DAY, NOW)
        assert table.paths() == before

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"id": "x"}'])
    def test_a_version(self, table: IndexTable, reader_of: ReaderOf, version: str, content: bytes) -> None:
        table.write(version, content)

        self.check(table, reader_of, CorruptMetadataError, version)

    def test_an_index_manifest(self, table: IndexTable, reader_of: ReaderOf) -> None:
        (manifest,) = (path for path in table.paths() if "manifest" in path)
        content = (table.directory / manifest).read_bytes()
        for damaged in (b"", content[:-1], content[:40], content.replace(b"Obj\x01", b"Obj\x02")):
            table.write(manifest, damaged)
            self.check(table, reader_of, PaimonIndexError, manifest)

    def test_an_index_manifest_of_another_version(self, table: IndexTable, reader_of: ReaderOf) -> None:
        manifest = table.index_manifest(table.index_file())
        reader = fastavro.reader(io.BytesIO((table.directory / manifest).read_bytes()))
        newer = io.BytesIO()
        records = [record | {"_VERSION": 2} for record in reader if isinstance(record, dict)]
        fastavro.writer(newer, reader.writer_schema, records)
        table.write(manifest, newer.getvalue())
        table.version("tag/tag-new", manifest)

        self.check(table, reader_of, UnsupportedFormatError, manifest)

    @pytest.mark.parametrize("version", [each for each in VERSIONS if "changelog" not in each])
    def test_an_index_manifest_that_is_gone(
        self, table: IndexTable, reader_of: ReaderOf, version: str
    ) -> None:
        manifest = table.index_manifest()
        table.version(version, manifest)
        table.delete(manifest)

        self.check(table, reader_of, CorruptMetadataError, f"{version}: names db.db/t/{manifest}")

    def test_an_index_manifest_outside_of_the_table(self, table: IndexTable, reader_of: ReaderOf) -> None:
        content = json.loads((table.directory / "snapshot" / "snapshot-1").read_bytes())
        table.write("tag/tag-x", json.dumps(content | {"indexManifest": "../../../../x"}).encode())

        self.check(table, reader_of, PathNotAllowedError, "x")

    @pytest.mark.parametrize("directory", ["snapshot", "branch/branch-dev/snapshot"])
    def test_snapshots_that_are_all_gone(
        self, table: IndexTable, reader_of: ReaderOf, directory: str
    ) -> None:
        for file in table.directory.glob(f"{directory}/snapshot-*"):
            file.unlink()
        table.write(f"{directory}/LATEST", b"1")

        self.check(table, reader_of, CorruptMetadataError, f"{directory}/LATEST: names a snapshot")

    def test_a_schema(self, table: IndexTable, reader_of: ReaderOf) -> None:
        table.write("schema/schema-1", b"{")

        self.check(table, reader_of, CorruptMetadataError, "schema-1")

    def test_a_link_out_of_the_warehouse(
        self, table: IndexTable, reader_of: ReaderOf, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        outside = tmp_path_factory.mktemp("outside")
        (table.directory / "branch").symlink_to(outside)

        self.check(table, reader_of, PathNotAllowedError, "branch")

    def test_nothing_is_removed_if_it_becomes_unreadable(
        self, table: IndexTable, reader_of: ReaderOf
    ) -> None:
        files = table.orphans(reader_of)
        found = files.find(DAY, NOW)
        assert found.found
        before = table.paths()
        table.write("tag/tag-x", b"{")

        with pytest.raises(CorruptMetadataError, match="tag-x"):
            files.remove(found)
        assert table.paths() == before

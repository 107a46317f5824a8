from __future__ import annotations

import datetime as dt
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest

from app.errors import (
    CorruptMetadataError,
    NotFoundError,
    PaimonIndexError,
    PathNotAllowedError,
    UnsupportedFormatError,
)
from app.storage import Maintenance, Warehouse
from app.storage.writing import Writing
from app.table import Catalog, OrphanKind, Orphans, OrphanSearch
from app.table.avro.writing import write_avro
from app.table.commits import Changes, CommitKind, Committer
from app.table.commits.manifest_writing import Outline, listed, write_manifest
from app.table.manifests.manifest_list import RECORD
from app.table.records.expected import ArrayOf, Nullable, RecordOf
from app.table.schema.schema import TableSchema
from tests.golden_tables import DATABASE, GoldenWarehouse
from tests.golden_versions import VersionTable, version_tables
from tests.s3_server import serve
from tests.table.entries import entry
from tests.table.index_tables import (
    DAY,
    MANIFEST_LISTS,
    NOW,
    IndexTable,
    ReaderOf,
    find,
    orphans_of,
    paths_of,
)
from tests.writable_tables import copy_table, files_below, open_table


@pytest.fixture
def table(tmp_path: Path) -> IndexTable:
    return IndexTable.make(tmp_path)


def test_every_kind_of_file(table: IndexTable, reader_of: ReaderOf) -> None:
    some = "00000000-0000-0000-0000-0000000000aa"
    orphans = {
        "index/btree-global-index-00000000-0000-0000-0000-000000000000.index": OrphanKind.OTHER_FILE,
        f"index/index-{some}-0.parquet": OrphanKind.OTHER_FILE,
        f"index/index-{some}": OrphanKind.OTHER_FILE,
        f"index/.index-{some}-0.crc": OrphanKind.OTHER_FILE,
        f"index/.index-{some}-0.2b.tmp": OrphanKind.TEMPORARY_FILE,
        f"index/index-{some}-0": OrphanKind.INDEX_FILE,
        f"bucket-0/index-{some}-1": OrphanKind.INDEX_FILE,
        "bucket-0/data-1.parquet": OrphanKind.DATA_FILE,
        f"manifest/manifest-{some}-0": OrphanKind.MANIFEST,
        f"manifest/manifest-list-{some}-0": OrphanKind.MANIFEST_LIST,
        f"manifest/.index-manifest-{some}-12.tmp": OrphanKind.TEMPORARY_FILE,
        f"manifest/index-manifest-{some}-12": OrphanKind.INDEX_MANIFEST,
        "statistics/stat-1": OrphanKind.STATISTICS,
        "snapshot/.snapshot-1.5e.tmp": OrphanKind.TEMPORARY_FILE,
    }
    for path in (f"index/deeper/index-{some}-0", *orphans):
        table.write(path)

    found = table.orphans(reader_of).find(DAY, NOW).found

    kinds = dict(
        zip(
            paths_of(found),
            [orphan.kind for orphan in found if orphan.file.name not in MANIFEST_LISTS],
            strict=True,
        )
    )
    assert kinds == orphans


def test_bucket_directories_are_those_of_any_schema(tmp_path: Path, reader_of: ReaderOf) -> None:
    table = IndexTable.make(
        tmp_path, ["day", "h:r"], {"index-file-in-data-file-dir": "true", "data-file.path-directory": "d/e"}
    )
    table.alter(1, ["day", "h:r"], {"data-file.path-directory": "elsewhere"})
    bucket = "d/e/day=1/h%3Ar=__DEFAULT_PARTITION__/bucket-12"
    used, stray, postponed, flat = (
        table.index_file(directory)
        for directory in (bucket, bucket, "d/e/day=2/h%3Ar=2/bucket-postpone", "index")
    )
    elsewhere = (
        "d/e/day=1/bucket-0",
        "d/e/other=1/h%3Ar=2/bucket-0",
        "d/e/day=1/h%3Ar=2/basket-0",
        "bucket-0",
    )
    for directory in elsewhere:
        table.index_file(directory)
    table.version("snapshot/snapshot-1", table.index_manifest(used))

    assert find(table, reader_of) == sorted([stray, postponed, flat])


def test_index_files_are_in_use_wherever_they_lie(table: IndexTable, reader_of: ReaderOf) -> None:
    inside, renamed = table.index_file(), table.index_file()
    manifest = table.index_manifest(inside, external_path=f"s3://elsewhere/{renamed}")
    table.version("snapshot/snapshot-1", manifest)

    assert find(table, reader_of) == []


def test_age_is_the_time_since_the_file_was_written(table: IndexTable, reader_of: ReaderOf) -> None:
    table.age = dt.timedelta(hours=24)
    old = table.index_file()
    table.age -= dt.timedelta(seconds=1)
    table.index_file()
    table.age = -DAY
    table.index_file()

    found = table.orphans(reader_of).find(DAY, NOW)

    assert (paths_of(found.found), found.younger) == ([old], 2)


def test_a_table_that_is_not_there(tmp_path: Path, reader_of: ReaderOf) -> None:
    (tmp_path / "db.db" / "t").mkdir(parents=True)

    with pytest.raises(NotFoundError, match=r"there is no table db\.t"):
        orphans_of(Warehouse("w", str(tmp_path)), reader_of).find(DAY, NOW)


def test_a_table_in_an_object_store(table: IndexTable, reader_of: ReaderOf) -> None:
    used, stray = table.index_file(), table.index_file()
    manifest = table.index_manifest(used)
    table.version("snapshot/snapshot-1", manifest)
    keys = {
        f"warehouse/{file.relative_to(table.root)}": file.read_bytes()
        for file in table.root.rglob("*")
        if file.is_file()
    }
    with serve("orphans", keys) as options:
        warehouse = Warehouse("w", "s3://orphans/warehouse", options=options)
        files = orphans_of(warehouse, reader_of)
        # Objects are as old as they are in the store.
        now = dt.datetime.now(dt.UTC)
        fresh, found = files.find(DAY, now), files.find(DAY, now + 2 * DAY)

        assert (fresh.found, fresh.younger) == ((), 1)
        assert paths_of(found.found) == [stray]


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


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_names_is_in_use(table: IndexTable, reader_of: ReaderOf, version: str) -> None:
    used, stray = table.index_file(), table.index_file()
    manifest, stray_manifest = table.index_manifest(used), table.index_manifest(used, stray)
    table.version(version, manifest)

    assert find(table, reader_of) == sorted([stray, stray_manifest])


def test_files_beside_a_manifest_are_in_use(table: IndexTable, reader_of: ReaderOf) -> None:
    """As release 2.1 writes them, and names them in the manifest list."""
    beside, stray = (f"manifest-{at}.avro.sidecar" for at in (1, 2))
    content = write_manifest([entry()], "null")
    table.write("manifest/manifest-1", content)
    for name in (beside, stray):
        table.write(f"manifest/{name}", b"blocks")
    schema = TableSchema.read((table.directory / "schema" / "schema-0").read_bytes())
    record = listed("manifest-1", len(content), Outline.of([entry()]), schema)
    fields = RecordOf({**RECORD.fields, "_EXTRA_FILES": Nullable(ArrayOf("string"))})
    records = [record | {"_EXTRA_FILES": names} for names in ([beside], None)]
    table.write(f"manifest/{MANIFEST_LISTS[1]}", write_avro(records, fields, "null"))
    table.version("snapshot/snapshot-1", None)

    assert find(table, reader_of) == [f"manifest/{stray}"]


@pytest.mark.parametrize(
    "path", ["snapshot/snapshot-x", "snapshot/.snapshot-7.f0.tmp", "tag/.tag-v1.f0.tmp", "old/snapshot-1"]
)
def test_what_is_no_version_names_nothing(table: IndexTable, reader_of: ReaderOf, path: str) -> None:
    manifest = table.index_manifest()
    table.version(path, manifest)

    assert [each for each in find(table, reader_of) if each != path] == [manifest]


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
        with pytest.raises(error, match=match):
            table.orphans(reader_of).find(DAY, NOW)

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

        self.check(table, reader_of, CorruptMetadataError, f"db.db/t/{manifest}: is gone")

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


def find_aged(root: Path, name: str, reader_of: ReaderOf, age: dt.timedelta = DAY) -> Orphans:
    """Orphans of a table all of whose files are two days old."""
    warehouse = Warehouse("w", str(root))
    reader = reader_of(warehouse)
    table = Catalog(reader).table(DATABASE, name)
    now = dt.datetime.now(dt.UTC) + 2 * DAY
    return OrphanSearch(table, Maintenance(warehouse), reader.readers).find(age, now)


def kinds_of(orphans: Orphans, name: str) -> dict[str, OrphanKind]:
    start = f"{DATABASE}.db/{name}/"
    return {orphan.file.path.removeprefix(start): orphan.kind for orphan in orphans.found}


class KilledError(BaseException):
    """Nothing is done after it."""


class Killed(Writing):
    """Of a process that is killed when it makes the snapshot."""

    def create(self, path: str, content: bytes) -> bool:
        if "/snapshot/" in path:
            raise KilledError
        return super().create(path, content)


@pytest.mark.parametrize("name", ["append_partitioned", "append_embedded", "dyn_bucket", "pk_dv"])
def test_all_that_a_killed_job_leaves_is_found(
    golden: GoldenWarehouse, tmp_path: Path, reader_of: ReaderOf, name: str
) -> None:
    directory = copy_table(golden, name, tmp_path)
    table, there = open_table(tmp_path, name), kinds_of(find_aged(tmp_path, name, reader_of), name)
    before, entry = files_below(directory), table.entries()[0]
    data = table.table.paths(table.table.resolve()).data_file(entry)
    bucket = tmp_path / data.rpartition("/")[0]
    changes = Changes(
        CommitKind.APPEND, (replace(entry, file=replace(entry.file, file_name="data-f00-1.parquet")),)
    )
    for left in ("data-f00-1.parquet", "data-f00-1.parquet.index", ".data-f00-2.parquet.5e.tmp"):
        (bucket / left).write_bytes(b"rows")
    with pytest.raises(KilledError):
        Committer(table.table, Killed(table.warehouse)).commit(changes)
    (directory / "snapshot" / ".snapshot-9.5e.tmp").write_bytes(b"{")
    (directory / "statistics").mkdir(exist_ok=True)
    (directory / "statistics" / "stat-f00-0").write_bytes(b"{}")

    orphans = find_aged(tmp_path, name, reader_of)

    found = kinds_of(orphans, name)
    assert found.keys() - there.keys() == files_below(directory) - before
    assert there.items() <= found.items()
    new = [found[path] for path in found if path not in there]
    assert {kind: new.count(kind) for kind in new} == {
        OrphanKind.DATA_FILE: 2,
        OrphanKind.TEMPORARY_FILE: 2,
        OrphanKind.MANIFEST: 1,
        OrphanKind.MANIFEST_LIST: 2,
        OrphanKind.STATISTICS: 1,
    }
    younger = find_aged(tmp_path, name, reader_of, 3 * DAY)
    assert (younger.found, younger.younger) == ((), len(orphans.found))


@pytest.mark.parametrize("table", version_tables(), ids=str)
def test_what_any_release_has_written_and_names_is_in_use(
    table: VersionTable, golden_versions: Path, reader_of: ReaderOf
) -> None:
    assert find_aged(golden_versions / table.version, table.name, reader_of).found == ()


def test_what_only_a_branch_names_is_in_use(
    golden: GoldenWarehouse, tmp_path: Path, reader_of: ReaderOf
) -> None:
    name = "append_partitioned"
    directory = copy_table(golden, name, tmp_path)
    before = kinds_of(find_aged(tmp_path, name, reader_of), name)
    branch = directory / "branch" / "branch-b"
    shutil.copytree(directory / "schema", branch / "schema")
    table = open_table(tmp_path, name)
    entry = table.entries()[0]
    data = table.table.paths(table.table.resolve()).data_file(entry).rpartition("/")[0]
    (tmp_path / data / "data-new-0.parquet").write_bytes(b"rows")
    table.committer.commit(
        Changes(
            CommitKind.APPEND, (replace(entry, file=replace(entry.file, file_name="data-new-0.parquet")),)
        )
    )
    (branch / "snapshot").mkdir()
    latest = directory / "snapshot" / f"snapshot-{table.snapshot()['id']}"
    latest.rename(branch / "snapshot" / latest.name)
    (branch / "snapshot" / ".snapshot-9.5e.tmp").write_bytes(b"{")

    found = kinds_of(find_aged(tmp_path, name, reader_of), name)

    assert found == before | {"branch/branch-b/snapshot/.snapshot-9.5e.tmp": OrphanKind.TEMPORARY_FILE}


def test_a_manifest_that_is_gone_could_name_anything(
    golden: GoldenWarehouse, tmp_path: Path, reader_of: ReaderOf
) -> None:
    directory = copy_table(golden, "codec_null", tmp_path)
    (directory / "manifest" / open_table(tmp_path, "codec_null").snapshot()["deltaManifestList"]).unlink()
    with pytest.raises(CorruptMetadataError, match="snapshot, tag or branch needs it"):
        find_aged(tmp_path, "codec_null", reader_of)

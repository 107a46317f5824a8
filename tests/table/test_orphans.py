from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from app.errors import NotFoundError, RequestError
from app.storage import Maintenance, Warehouse
from app.table import Catalog, OrphanFiles, OrphanKind
from tests.golden_tables import DATABASE
from tests.golden_versions import VersionTable, version_tables
from tests.s3_server import serve
from tests.table.index_tables import DAY, NOW, IndexTable, ReaderOf, find, orphans_of, paths_of


@pytest.fixture
def table(tmp_path: Path) -> IndexTable:
    return IndexTable.make(tmp_path)


def test_only_names_of_index_files_are_orphans(table: IndexTable, reader_of: ReaderOf) -> None:
    some = "00000000-0000-0000-0000-0000000000aa"
    others = [
        "index/btree-global-index-00000000-0000-0000-0000-000000000000.index",
        f"index/index-{some}-0.parquet",
        f"index/index-{some}",
        "index/index-1",
        f"index/.index-{some}-0.crc",
        f"index/deeper/index-{some}-0",
        f"manifest/manifest-{some}-0",
        f"manifest/manifest-list-{some}-0",
        f"manifest/.manifest-{some}-0.tmp",
        f"bucket-0/index-{some}-0",
    ]
    orphans = {
        f"index/.index-{some}-0.2b.tmp": OrphanKind.TEMPORARY_FILE,
        f"index/index-{some}-0": OrphanKind.INDEX_FILE,
        f"manifest/.index-manifest-{some}-12.tmp": OrphanKind.TEMPORARY_FILE,
        f"manifest/index-manifest-{some}-12": OrphanKind.INDEX_MANIFEST,
    }
    for path in (*others, *orphans):
        table.write(path)

    found = table.orphans(reader_of).find(DAY, NOW).found

    assert dict(zip(paths_of(found), [orphan.kind for orphan in found], strict=True)) == orphans


@pytest.mark.parametrize("table", version_tables(), ids=str)
def test_index_manifests_of_every_release_and_format_name_their_files(
    table: VersionTable, golden_versions: Path, reader_of: ReaderOf
) -> None:
    warehouse = Warehouse("w", str(golden_versions / table.version))
    reader = reader_of(warehouse)
    named = Catalog(reader).table(DATABASE, table.name)

    orphans = OrphanFiles(named, Maintenance(warehouse), reader.readers).find(
        dt.timedelta(0), dt.datetime.now(dt.UTC)
    )

    assert (orphans.found, orphans.younger) == ((), 0)


def test_bucket_directories_are_searched_if_any_schema_lays_index_files_there(
    tmp_path: Path, reader_of: ReaderOf
) -> None:
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


def test_removal(table: IndexTable, reader_of: ReaderOf) -> None:
    used, stray = table.index_file(), table.index_file()
    manifest, stray_manifest = table.index_manifest(used), table.index_manifest(stray)
    table.version("snapshot/snapshot-1", manifest)
    files = table.orphans(reader_of)

    removal = files.remove(files.find(DAY, NOW))

    assert (paths_of(removal.removed), removal.failures) == ([stray, stray_manifest], ())
    assert table.paths() == {used, manifest}
    assert files.find(DAY, NOW).found == ()


def test_nothing_that_was_written_within_the_hour_is_removed(table: IndexTable, reader_of: ReaderOf) -> None:
    stray = table.index_file()
    files = table.orphans(reader_of)
    found = files.find(dt.timedelta(minutes=59), NOW)

    with pytest.raises(RequestError, match="at least 1h"):
        files.remove(found)
    assert paths_of(found.found) == [stray]
    assert table.paths() == {stray}


def test_what_is_gone_already_counts_as_removed(table: IndexTable, reader_of: ReaderOf) -> None:
    stray = table.index_file()
    files = table.orphans(reader_of)
    found = files.find(DAY, NOW)
    table.delete(stray)

    assert paths_of(files.remove(found).removed) == [stray]


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
        removal = files.remove(found)

        assert (fresh.found, fresh.younger) == ((), 1)
        assert paths_of(removal.removed) == [stray]
        assert warehouse.list_names("db.db/t/index") == [used.removeprefix("index/")]
        assert warehouse.exists(f"db.db/t/{manifest}")

"""What a job leaves that is killed: found by the engine's rule, whatever it is, and left to the engine."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import CorruptMetadataError
from app.storage import Maintenance, Warehouse
from app.storage.writing import Writing
from app.table import Catalog, OrphanKind, Orphans, OtherOrphanFiles
from app.table.commits import Changes, CommitKind, Committer
from tests.golden_tables import DATABASE, GoldenWarehouse
from tests.golden_versions import VersionTable, version_tables
from tests.table.index_tables import ReaderOf
from tests.writable_tables import copy_table, files_below, open_table

DAY = dt.timedelta(days=1)


def find(root: Path, name: str, reader_of: ReaderOf, age: dt.timedelta = DAY) -> Orphans:
    """Orphans of a table all of whose files are two days old."""
    warehouse = Warehouse("w", str(root))
    reader = reader_of(warehouse)
    table = Catalog(reader).table(DATABASE, name)
    now = dt.datetime.now(dt.UTC) + 2 * DAY
    return OtherOrphanFiles(table, Maintenance(warehouse), reader.readers).find(age, now)


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
    table, there = open_table(tmp_path, name), kinds_of(find(tmp_path, name, reader_of), name)
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

    orphans = find(tmp_path, name, reader_of)

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
    younger = find(tmp_path, name, reader_of, 3 * DAY)
    assert (younger.found, younger.younger) == ((), len(orphans.found))


@pytest.mark.parametrize("table", version_tables(), ids=str)
def test_what_any_release_has_written_and_names_is_in_use(
    table: VersionTable, golden_versions: Path, reader_of: ReaderOf
) -> None:
    assert find(golden_versions / table.version, table.name, reader_of).found == ()


def test_what_only_a_branch_names_is_in_use(
    golden: GoldenWarehouse, tmp_path: Path, reader_of: ReaderOf
) -> None:
    name = "append_partitioned"
    directory = copy_table(golden, name, tmp_path)
    before = kinds_of(find(tmp_path, name, reader_of), name)
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

    found = kinds_of(find(tmp_path, name, reader_of), name)

    assert found == before | {"branch/branch-b/snapshot/.snapshot-9.5e.tmp": OrphanKind.TEMPORARY_FILE}


def test_a_manifest_that_is_gone_could_name_anything(
    golden: GoldenWarehouse, tmp_path: Path, reader_of: ReaderOf
) -> None:
    directory = copy_table(golden, "codec_null", tmp_path)
    (directory / "manifest" / open_table(tmp_path, "codec_null").snapshot()["deltaManifestList"]).unlink()
    with pytest.raises(CorruptMetadataError, match="snapshot, tag or branch needs it"):
        find(tmp_path, "codec_null", reader_of)

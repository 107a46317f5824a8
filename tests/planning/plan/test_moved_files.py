"""Plans of tables whose directories another writer than the engine has named."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.errors import PathNotAllowedError
from app.file_index.index_kinds import BITMAP
from app.planning.request.requests import PlanRequest, SnapshotSelector
from app.planning.service import IndexService
from app.table.manifests import Manifest
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import MadeTable, file_of, names_of, open_service

DAY, NUMBER = DataField(0, "day", parse_type("DATE")), DataField(1, "number", parse_type("INT"))
NAMES = {20455: "2026-01-02", 20456: "2026-01-03"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    with closing(open_service(tmp_path)) as service:
        yield service


@pytest.fixture
def made(tmp_path: Path) -> MadeTable:
    return MadeTable.make(tmp_path, [DAY, NUMBER], partitioned_by=[DAY])


def file(name: str, day: int, number: int) -> ManifestEntry:
    partition = serialize_row([day], [DAY.type])
    return file_of(name, {NUMBER: [number] * 10}, BITMAP, bounded=False, partition=partition)


def place(made: MadeTable, directory: str, written: ManifestEntry, *, beside: bool = False) -> ManifestEntry:
    """Put a file, which nobody reads, into a directory; its index, too, if that is beside it."""
    path = made.directory / directory / "bucket-0" / written.file.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    index = written.file.embedded_index
    if not beside or index is None:
        return written
    path.with_name(f"{path.name}.index").write_bytes(index)
    named = replace(written.file, embedded_index=None, extra_files=(f"{path.name}.index",))
    return replace(written, file=named)


def by_python(made: MadeTable, *, beside: bool = False) -> list[ManifestEntry]:
    """Return a file of each of two days, as pypaimon up to 2.0.0 places them."""
    files = [file(f"data-{at}.parquet", day, at) for at, day in enumerate(NAMES)]
    return [
        place(made, f"day={name}", each, beside=beside)
        for each, name in zip(files, NAMES.values(), strict=True)
    ]


def exist(made: MadeTable, service: IndexService, *plans: PlanRequest) -> bool:
    root = made.directory.parents[1]
    found = [(root / each.path).exists() for asked in plans for each in service.plan(made.ref, asked).files]
    return bool(found) and all(found)


def test_plans_name_the_directory_that_exists(made: MadeTable, service: IndexService) -> None:
    made.commit(by_python(made))
    plan = made.plan(service)

    assert [file.path.split("/")[2] for file in plan.files] == ["day=2026-01-02", "day=2026-01-03"]
    assert plan.warnings == ()
    assert exist(made, service, PlanRequest(), PlanRequest(filter="number = 1"))
    (uri,) = made.plan(service, "number = 1", uris=True).files
    assert Path(uri.path.removeprefix("file:")).exists()


def test_skipped_files_are_named_as_well(made: MadeTable, service: IndexService) -> None:
    made.commit(by_python(made))
    plan = made.plan(service, "number = 1", explain=True)

    assert [file.path.split("/")[2] for file in plan.skipped_files] == ["day=2026-01-02"]


def test_indexes_beside_the_data_are_read_there(made: MadeTable, service: IndexService) -> None:
    made.commit(by_python(made, beside=True))
    plan = made.plan(service, "number = 1")

    assert names_of(plan.files) == ["data-1.parquet"]
    assert plan.warnings == ()


def test_files_of_both_directories_of_a_partition(made: MadeTable, service: IndexService) -> None:
    old, _ = by_python(made)
    new = place(made, "day=20455", file("new.parquet", 20455, 7))
    made.commit([old, new])

    paths = {file.file_name: file.path.split("/")[2] for file in made.plan(service).files}
    assert paths == {"data-0.parquet": "day=2026-01-02", "new.parquet": "day=20455"}


def test_a_directory_that_the_next_commit_makes(made: MadeTable, service: IndexService) -> None:
    old, other = by_python(made)
    made.commit([old, other])
    assert exist(made, service, PlanRequest())

    made.commit([old, other], [place(made, "day=20455", file("new.parquet", 20455, 7))])
    assert exist(made, service, PlanRequest())
    assert len(made.plan(service).files) == 3


def test_changes_name_the_directory_that_exists(made: MadeTable, service: IndexService) -> None:
    old, other = by_python(made)
    made.commit([old])
    made.commit([old], [other])

    before, after = (service.resolve(made.ref, SnapshotSelector(snapshot_id=each)) for each in (1, 2))
    (added,) = service.changes(before, after, PlanRequest()).added.files
    assert (made.directory.parents[1] / added.path).exists()


def test_a_partition_without_a_directory_is_warned_of(made: MadeTable, service: IndexService) -> None:
    made.commit(by_python(made))
    shutil.rmtree(made.directory / "day=2026-01-02")
    plan = made.plan(service)

    assert plan.files[0].path.split("/")[2] == "day=20455"
    assert len(plan.warnings) == 1
    assert (
        "no directory exists for 1 of the partitions, such as golden.db/made/day=20455: restore it"
        in plan.warnings[0]
    )
    assert made.plan(service, "number = 1").warnings == ()


def test_files_elsewhere_need_no_directory(made: MadeTable, service: IndexService) -> None:
    outside = file("data-0.parquet", 20455, 0)
    made.commit([replace(outside, file=replace(outside.file, external_path="s3://b/data-0.parquet"))])
    plan = made.plan(service)

    assert [file.path for file in plan.files] == ["s3://b/data-0.parquet"]
    assert plan.warnings == ()


def test_a_directory_that_cannot_be_listed_fails_the_plan(
    made: MadeTable, service: IndexService, tmp_path: Path
) -> None:
    made.commit(by_python(made))
    version = made.version(service)
    version.load()
    made.directory.rename(tmp_path / "away")
    made.directory.symlink_to(made.directory)

    with pytest.raises(PathNotAllowedError, match="leads to itself"):
        service.plan(version, PlanRequest())


def test_pruned_snapshots_tell_readers_where_files_are(made: MadeTable, service: IndexService) -> None:
    made.commit([*by_python(made), place(made, "day=20457", file("new.parquet", 20457, 7))])
    snapshot = service.pruned_snapshot(made.ref, PlanRequest(filter="number >= 0"), most_share=0.5)

    (manifest, *_) = snapshot.metadata_files
    entries = Manifest.read(manifest.content).entries(np.arange(3))
    external = [entry.file.external_path for entry in entries]
    assert [path is not None and Path(path.removeprefix("file:")).exists() for path in external] == [
        True,
        True,
        False,
    ]


def test_where_only_the_engine_writes_nothing_is_listed(made: MadeTable, tmp_path: Path) -> None:
    made.commit(by_python(made))
    with closing(open_service(tmp_path, engine_writes_only=True)) as service:
        plan = made.plan(service)

    assert [file.path.split("/")[2] for file in plan.files] == ["day=20455", "day=20456"]

"""Jobs leave in a table's metadata what only a later release knows of."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from app.table.manifests.manifest_entry import FileKind
from tests.golden_cases import GoldenWarehouse
from tests.jobs.new_tables import make_table
from tests.jobs.running_jobs import Jobs, table
from tests.table.later_release import UNKNOWN, add_unknown_members, read_records, unknown_members

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]

COLUMNS = {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL"}
QUERY = "SELECT '{p}' AS p, id AS k FROM range(20)"


def metadata(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the unknown members of the latest snapshot, its manifests, files and index files, by name."""
    number = (directory / "snapshot" / "LATEST").read_text()
    snapshot = orjson.loads((directory / "snapshot" / f"snapshot-{number}").read_bytes())
    found = {"snapshot": {"": snapshot.get(UNKNOWN)}}
    for name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
        for listed in read_records(directory / "manifest" / name):
            found[listed["_FILE_NAME"]] = unknown_members(listed)
            for entry in read_records(directory / "manifest" / listed["_FILE_NAME"]):
                if entry["_KIND"] == FileKind.ADD:
                    found[entry["_FILE"]["_FILE_NAME"]] = unknown_members(entry)
    if "indexManifest" in snapshot:
        for entry in read_records(directory / "manifest" / snapshot["indexManifest"]):
            found[entry["_FILE_NAME"]] = unknown_members(entry)
    return found


def check(directory: Path, before: dict[str, dict[str, Any]]) -> None:
    """Check that everything is there, except replaced index files."""
    after = metadata(directory)
    assert all(before.values())
    assert all(name.startswith("index-") for name in before.keys() - after.keys())
    for name in before.keys() & after.keys():
        assert after[name] == before[name], name


def test_build_index(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = golden.copy("append_partitioned", tmp_path)
    add_unknown_members(directory)
    before = metadata(directory)
    options = {"file-index.bitmap.columns": "shelf"}
    assert jobs.run("build_index", tmp_path, table("append_partitioned"), options=options, rebuild=True)[
        "built"
    ]
    check(directory, before)
    assert jobs.run("drop_index", tmp_path, table("append_partitioned"))["dropped"]
    check(directory, before)


def test_delete(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = golden.copy("append_dv64", tmp_path)
    add_unknown_members(directory)
    before = metadata(directory)
    assert jobs.run("delete", tmp_path, table("append_dv64"), where="hot")["rows_deleted"]
    check(directory, before)


def test_upsert(jobs: Jobs, tmp_path: Path) -> None:
    make_table(
        tmp_path,
        "t",
        COLUMNS,
        keys=("p", "k"),
        partitions=("p",),
        options={"dynamic-bucket.target-row-num": "40"},
    )
    for p in ("a", "b"):
        jobs.run("upsert", tmp_path, table("t"), paths=[], query=QUERY.format(p=p))
    directory = tmp_path / "golden.db" / "t"
    add_unknown_members(directory)
    before = metadata(directory)
    assert jobs.run("upsert", tmp_path, table("t"), paths=[], query=QUERY.format(p="a"))["rows_written"]
    check(directory, before)

"""Golden tables after the removal of what their history left behind."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import shutil
from pathlib import Path
from uuid import uuid4

import fastavro
import pytest

from app.planning.request.requests import SnapshotSelector
from app.storage import Maintenance, Readers
from app.table import OrphanSearch
from tests.golden_checks import GoldenQuery, check
from tests.golden_tables import DATABASE, GoldenWarehouse, expected, tables
from tests.planning.copied_tables import golden_ref, open_service
from tests.planning.test_golden_tables import kept_files, request_of

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
SNAPSHOTS = "snapshot/snapshot-*"
VERSIONS = (SNAPSHOTS, "tag/tag-*", f"branch/*/{SNAPSHOTS}", "branch/*/tag/tag-*")
WITH_INDEX_FILES = [
    table for table in tables() if any(version["index_entries"] for version in expected(table)["versions"])
]


def named_by(table: Path, *versions: str) -> set[str]:
    """What some snapshots and tags name, told by another reader of Avro."""
    documents = [json.loads(file.read_bytes()) for pattern in versions for file in table.glob(pattern)]
    manifests = {document["indexManifest"] for document in documents if "indexManifest" in document}
    contents = [io.BytesIO((table / "manifest" / name).read_bytes()) for name in manifests]
    records = (record for content in contents for record in fastavro.reader(content))
    return manifests | {record["_FILE_NAME"] for record in records if isinstance(record, dict)}


def index_files(table: Path) -> set[Path]:
    """Every file that is an index manifest or an index file by its name."""
    return {file for file in table.rglob("index-*-*") if "." not in file.name}


def strew(table: Path) -> set[Path]:
    """Leaves behind what stopped commits would: copies of every index file and index manifest."""
    strewn = set()
    for file in index_files(table):
        stem = "index-manifest-" if file.name.startswith("index-manifest-") else "index-"
        for name in (f"{stem}{uuid4()}-0", f".{file.name}.{uuid4()}.tmp"):
            shutil.copy(file, file.with_name(name))
            strewn.add(file.with_name(name))
    return strewn


def remove_orphans(table: str, root: Path) -> set[Path]:
    """Removes the orphans of a table as the engine would, and tells them."""
    service = open_service(root)
    try:
        found = service.resolve(golden_ref(table), SnapshotSelector()).table
        search = OrphanSearch(found, Maintenance(service.warehouses["golden"]), Readers(2))
        orphans = {root / orphan.file.path for orphan in search.find(DAY, NOW).found}
    finally:
        service.close()
    for file in orphans:
        file.unlink()
    return orphans


def age(table: Path) -> None:
    """Makes every file of a table two days old."""
    written = (NOW - 2 * DAY).timestamp()
    for file in table.rglob("*"):
        os.utime(file, (written, written))


@pytest.mark.parametrize("table", WITH_INDEX_FILES)
@pytest.mark.parametrize("expired", [0, 2])
def test_queries_answer_as_before(golden: GoldenWarehouse, tmp_path: Path, table: str, expired: int) -> None:
    directory = tmp_path / f"{DATABASE}.db" / table
    shutil.copytree(golden.table(table), directory)
    strewn = strew(directory)
    snapshots = sorted(directory.glob(SNAPSHOTS), key=lambda file: int(file.name.rpartition("-")[2]))
    for file in snapshots[: min(expired, len(snapshots) - 1)]:
        file.unlink()
    age(directory)
    before = {file for file in directory.rglob("*") if file.is_file()}
    in_use = named_by(directory, *VERSIONS)
    unnamed = {file for file in index_files(directory) | strewn if file.name not in in_use}

    removed = remove_orphans(table, tmp_path)

    assert removed >= unnamed >= strewn
    assert not removed & {file for file in before if file.name in in_use}
    assert _answered(golden, tmp_path, table) > 0


def _answered(golden: GoldenWarehouse, root: Path, table: str) -> int:
    """Checks every golden query of the versions that are left, and counts them."""
    left = {int(file.name.rpartition("-")[2]) for file in root.glob(f"*/{table}/{SNAPSHOTS}")}
    service = open_service(root, golden.allow_external())
    document, answered = expected(table), 0
    try:
        for query in document["queries"]:
            if query["snapshot_id"] is not None and query["snapshot_id"] not in left:
                continue
            plan = service.plan(
                golden_ref(table), request_of(query, query["filter_sql"] or query["predicate"])
            )
            check(GoldenQuery(table, document, query), kept_files(plan))
            answered += 1
    finally:
        service.close()
    return answered


def test_what_only_a_branch_names_is_in_use(golden: GoldenWarehouse, tmp_path: Path) -> None:
    """As the engine's expiration would leave it, but for asking branches."""
    directory = tmp_path / f"{DATABASE}.db" / "versions"
    shutil.copytree(golden.table("versions"), directory)
    for tag in directory.glob("tag/tag-*"):
        tag.unlink()
    age(directory)
    in_use = named_by(directory, *VERSIONS)
    only_of_branch = in_use - named_by(directory, SNAPSHOTS)
    assert only_of_branch

    remove_orphans("versions", tmp_path)
    assert {file.name for file in index_files(directory)} == in_use

    shutil.rmtree(directory / "branch" / "branch-dev")
    removed = remove_orphans("versions", tmp_path)
    assert {file.name for file in removed} >= only_of_branch

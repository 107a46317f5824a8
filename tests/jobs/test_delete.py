"""Rows that meet a condition are deleted, and no others, whoever else deletes."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from app.deletion_vectors import VectorOptions, delete_without_buckets
from app.errors import CommitConflictError
from app.storage.writing import Writing
from app.table.commits import Changes, CommitKind
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types.index_files import index_file_names
from tests import golden_cases
from tests.copied_tables import WritableTable, files_below, open_table
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.jobs.running_jobs import Jobs, deleted, table

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]
CONDITIONS = {
    "append_dv32": (
        "city like 'a%' OR session_no IS NULL",
        pc.or_kleene(pc.starts_with(ds.field("city"), "a"), ds.field("session_no").is_null()),
    ),
    "append_dv64": ("month(born) > 6 AND NOT hot", (pc.month(ds.field("born")) > 6) & ~ds.field("hot")),
    "bucketed_dv": (
        "category IN (1, 2) OR weight > 500",
        ds.field("category").isin([1, 2]) | (ds.field("weight") > 500),
    ),
}
LONG = ("bucketed_dv", "append_dv32")
"""The others show the same in a third of the time."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in CONDITIONS]
)
def test_rows_that_meet_the_condition_are_deleted(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    directory = golden.copy(name, tmp_path)
    where, arrow = CONDITIONS[name]
    expected = deleted(tmp_path, name)
    before = sum(map(len, expected.values()))
    matched = 0
    for entry in open_table(tmp_path, name).entries():
        (path,) = directory.rglob(entry.file.file_name)
        rows = pq.read_table(path, partitioning=None)
        rows = rows.append_column("at", pa.array(range(len(rows))))
        positions = rows.filter(arrow).column("at").to_pylist()
        matched += len(positions)
        if positions:
            expected.setdefault(entry.file.file_name, set()).update(positions)

    report = jobs.run("delete", tmp_path, table(name), where=where)

    assert deleted(tmp_path, name) == expected
    assert report["rows_matched"] == matched
    assert report["rows_deleted"] == sum(map(len, expected.values())) - before > 0
    document = open_table(tmp_path, name).snapshot()
    assert (document["commitKind"], document["deltaRecordCount"]) == ("OVERWRITE", 0)

    there = files_below(directory)
    again = jobs.run("delete", tmp_path, table(name), where=where)
    assert (again["snapshot_id"], again["rows_deleted"]) == (None, 0)
    assert files_below(directory) == there


def test_a_deletion_beside_others_loses_none(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path) -> None:
    """Another writer deletes the first rows of files, one file a commit, while the job is under way."""
    name = "append_dv32"
    golden.copy(name, tmp_path)
    opened = open_table(tmp_path, name)
    expected = deleted(tmp_path, name)
    entries = opened.entries()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(jobs.run, "delete", tmp_path, table(name), where="city LIKE 'a%'")
        for entry in entries:
            delete_first_row(opened, entry)
        report = running.result()

    alone = copy_of_first(golden, tmp_path / "alone", name)
    jobs.run("delete", alone, table(name), where="city LIKE 'a%'")
    by_job = deleted(alone, name)
    for entry in entries:
        file = entry.file.file_name
        expected[file] = expected.get(file, set()) | by_job.get(file, set()) | {0}
    assert report["snapshot_id"]
    assert deleted(tmp_path, name) == expected


def delete_first_row(opened: WritableTable, entry: ManifestEntry) -> None:
    """Commit a vector with the first row of a file, again where another commit came in between."""
    resolved = opened.table.resolve()
    paths = opened.table.data_paths(resolved).paths
    previous = [
        each
        for each in opened.table.metadata.index_entries(resolved)
        if (each.partition, each.bucket) == (entry.partition, entry.bucket)
    ]
    contents = {each.file.file_name: opened.warehouse.read(paths.index_file(each)) for each in previous}
    change = delete_without_buckets(
        [each.file for each in previous],
        contents,
        {entry.file.file_name: np.array([0])},
        index_file_names(),
        VectorOptions.parse(resolved.schema.options.values),
    )
    changes = [IndexEntry(FileKind.DELETE, entry.partition, entry.bucket, meta) for meta in change.removed]
    for file in change.added:
        new = IndexEntry(FileKind.ADD, entry.partition, entry.bucket, file.meta)
        Writing(opened.warehouse).create(paths.index_file(new), file.content)
        changes.append(new)
    if changes:
        try:
            opened.committer.commit(Changes(CommitKind.OVERWRITE, (), tuple(changes)))
        except CommitConflictError:
            delete_first_row(opened, entry)


def copy_of_first(golden: GoldenWarehouse, root: Path, name: str) -> Path:
    golden.copy(name, root)
    return root


def test_columns_are_found_by_their_ids_in_older_files(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Of an evolved table as many rows are deleted as the engine counts in it."""
    name = "evolve_append"
    directory = golden.copy(name, tmp_path)
    for schema in (directory / "schema").glob("schema-*"):
        document = json.loads(schema.read_text())
        document["options"]["deletion-vectors.enabled"] = "true"
        schema.write_text(json.dumps(document))
    queries = [
        query
        for query in golden_cases.expected(name)["queries"]
        if query["filter_sql"]
        and not (query["tag"] or query["snapshot_id"] or query["topn"] or query["limit"])
    ]
    for query in queries[:: len(queries) // 2]:
        rows = tmp_path / str(query["name"])
        copy_to(directory, rows)
        report = jobs.run("delete", rows, table(name), where=query["filter_sql"])
        assert report["rows_deleted"] == query["matching_count"], query["filter_sql"]


def copy_to(directory: Path, root: Path) -> None:
    shutil.copytree(directory, root / f"{DATABASE}.db" / directory.name)

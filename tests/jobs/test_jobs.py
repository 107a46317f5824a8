"""Jobs over copies of golden tables: what they commit is right, and what they refuse changes nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from app.cli.spark_submit import run_job
from app.deletion_vectors import VectorOptions, delete_without_buckets
from app.errors import CommitConflictError, FilterError, JobError, RequestError, UnsupportedFormatError
from app.jobs.build_index import commit_replacements
from app.planning.request.requests import DeletionsRequest, PlanRequest
from app.storage.writing import Writing
from app.table.commits import Changes, CommitKind
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.table.schema.partition import partition_json
from app.types.index_files import index_file_names
from tests import golden_tables
from tests.golden_tables import DATABASE
from tests.jobs.running_jobs import job_environment
from tests.planning.copied_tables import golden_ref, open_service
from tests.spark.environment import spark_python
from tests.writable_tables import WritableTable, copy_table, files_below, open_table

if TYPE_CHECKING:
    from app.table.manifests.manifest_entry import ManifestEntry
    from tests.golden_tables import GoldenWarehouse
    from tests.jobs.running_jobs import Jobs

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("jobs")]


def table(name: str) -> str:
    return f"{DATABASE}.{name}"


def live_names(root: Path, name: str) -> set[str]:
    return {entry.file.file_name for entry in open_table(root, name).entries()}


def deleted(root: Path, name: str) -> dict[str, set[int]]:
    """Deleted positions by data file, as the service tells them."""
    service = open_service(root)
    answer = service.deletions(golden_ref(name), DeletionsRequest())
    service.close()
    return {each.file_name: set(each.positions or ()) for each in answer.deletions}


@pytest.mark.parametrize("name", ["append_dv32", "append_sidecar", "append_avro", "map_index"])
def test_indexes_are_built_as_the_engine_built_them(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    directory = copy_table(golden, name, tmp_path)
    before = {entry.file.file_name: entry for entry in open_table(tmp_path, name).entries()}

    dropped = jobs.run("drop_index", tmp_path, table(name))
    assert live_names(tmp_path, name) == set(before)
    built = jobs.run("build_index", tmp_path, table(name))

    assert dropped["dropped"] == built["built"] == len(before)
    assert live_names(tmp_path, name) == set(before)
    assert built["row_count"] == sum(entry.file.row_count for entry in before.values())
    for entry in open_table(tmp_path, name).entries():
        old = before[entry.file.file_name]
        # What follows tells the entry from the one that was removed.
        assert (entry.file.embedded_index or b"").startswith(old.file.embedded_index or b"")
        assert len(entry.file.extra_files) == len(old.file.extra_files)
        for new_side, old_side in zip(entry.file.extra_files, old.file.extra_files, strict=True):
            assert new_side != old_side
            (new_file,), (old_file,) = (list(directory.rglob(side)) for side in (new_side, old_side))
            assert new_file.read_bytes() == old_file.read_bytes()

    there = files_below(directory)
    again = jobs.run("build_index", tmp_path, table(name))
    assert (again["snapshot_id"], again["unchanged"]) == (None, len(before))
    assert files_below(directory) == there


@pytest.mark.parametrize("name", ["evolve_append", "pk_merge", "dyn_bucket"])
def test_advised_indexes_hide_no_row(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str) -> None:
    copy_table(golden, name, tmp_path)
    names = live_names(tmp_path, name)

    built = jobs.run("build_index", tmp_path, table(name), advised=True)
    audited = jobs.run("audit", tmp_path, table(name))

    assert built["built"] + built["unchanged"] + built["skipped"] == len(names)
    assert built["built"]
    assert live_names(tmp_path, name) == names
    assert audited["problems"] == []
    assert audited["indexed"] >= built["built"]
    assert all(column["checked"] == column["distinct"] for column in audited["columns"])


def test_indexes_may_come_and_go_as_often_as_somebody_likes(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Readers drop a file for good once it was removed as what it is; each time it must be another one."""
    name = "append_embedded"
    copy_table(golden, name, tmp_path)
    names = live_names(tmp_path, name)
    for _ in range(2):
        assert jobs.run("drop_index", tmp_path, table(name))["dropped"] == len(names)
        assert jobs.run("drop_index", tmp_path, table(name))["snapshot_id"] is None
        assert live_names(tmp_path, name) == names
        assert jobs.run("audit", tmp_path, table(name))["indexed"] == 0
        assert jobs.run("build_index", tmp_path, table(name))["built"] == len(names)
        assert live_names(tmp_path, name) == names
    audited = jobs.run("audit", tmp_path, table(name))
    assert (audited["indexed"], audited["problems"]) == (len(names), [])


def test_only_files_without_an_index_of_some_partitions(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    name = "append_partitioned"
    copy_table(golden, name, tmp_path)
    resolved = open_table(tmp_path, name).table.resolve()
    entries = open_table(tmp_path, name).entries()
    partition = partition_json(entries[0].partition, resolved.schema)
    inside = [entry.file.file_name for entry in entries if entry.partition == entries[0].partition]
    options = {"file-index.bitmap.columns": "shelf", "file-index.in-manifest-threshold": "1 mb"}

    jobs.run("drop_index", tmp_path, table(name))
    built = jobs.run("build_index", tmp_path, table(name), options=options, partitions=[partition])
    rest = jobs.run("build_index", tmp_path, table(name), options=options, missing_only=True)

    assert (built["built"], built["embedded"]) == (len(inside), len(inside))
    assert rest["built"] == len(entries) - len(inside)
    assert built["options"] == {"file-index.bitmap.columns": "shelf"}


def test_an_audit_names_an_index_that_hides_a_row(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    name = "append_dv32"
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    one, other = opened.entries()[:2]
    wrong = replace(one, file=replace(one.file, embedded_index=other.file.embedded_index))
    broken = replace(other, file=replace(other.file, embedded_index=b"no index"))
    commit_replacements(opened.committer, [(one, wrong), (other, broken)])

    audited = jobs.run("audit", tmp_path, table(name), sample=20)

    found = {problem["path"].rpartition("/")[2] for problem in audited["problems"]}
    assert found == {one.file.file_name, other.file.file_name}
    assert any(problem["lost"] for problem in audited["problems"])

    jobs.run("build_index", tmp_path, table(name), rebuild=True)
    assert jobs.run("audit", tmp_path, table(name))["problems"] == []


def test_files_that_others_removed_are_left_out(golden: GoldenWarehouse, tmp_path: Path) -> None:
    name = "append_dv32"
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    entries = opened.entries()
    pairs = [(entry, replace(entry, file=replace(entry.file, embedded_index=b"new"))) for entry in entries]
    removed = replace(entries[0], kind=FileKind.DELETE)
    opened.committer.commit(Changes(CommitKind.OVERWRITE, (removed,)))

    snapshot_id, overtaken = commit_replacements(opened.committer, pairs)

    assert overtaken == [entries[0]]
    assert snapshot_id == opened.snapshot()["id"]
    assert {entry.file.embedded_index for entry in opened.entries()} == {b"new"}


CONDITIONS = {
    "append_dv32": (
        "city like 'a%' OR session_no IS NULL",
        pc.or_kleene(pc.starts_with(ds.field("city"), "a"), ds.field("session_no").is_null()),
    ),
    "append_dv64": (
        "month(born) > 6 AND NOT hot",
        (pc.month(ds.field("born")) > 6) & ~ds.field("hot"),
    ),
    "bucketed_dv": (
        "category IN (1, 2) OR weight > 500",
        ds.field("category").isin([1, 2]) | (ds.field("weight") > 500),
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_that_meet_the_condition_are_deleted(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    directory = copy_table(golden, name, tmp_path)
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
    copy_table(golden, name, tmp_path)
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
    """Commits a vector with the first row of a file, again where another commit came in between."""
    resolved = opened.table.resolve()
    paths = opened.table.paths(resolved)
    previous = [
        each
        for each in opened.table.index_entries(resolved)
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
    copy_table(golden, name, root)
    return root


def test_columns_are_found_by_their_ids_in_older_files(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Of an evolved table as many rows are deleted as the engine counts in it."""
    name = "evolve_append"
    directory = copy_table(golden, name, tmp_path)
    for schema in (directory / "schema").glob("schema-*"):
        document = json.loads(schema.read_text())
        document["options"]["deletion-vectors.enabled"] = "true"
        schema.write_text(json.dumps(document))
    queries = [
        query
        for query in golden_tables.expected(name)["queries"]
        if query["filter_sql"]
        and not (query["tag"] or query["snapshot_id"] or query["topn"] or query["limit"])
    ]
    for query in queries[:: len(queries) // 2]:
        rows = tmp_path / str(query["name"])
        copy_to(directory, rows)
        report = jobs.run("delete", rows, table(name), where=query["filter_sql"])
        assert report["rows_deleted"] == query["matching_count"], query["filter_sql"]


@pytest.mark.parametrize("name", ["append_partitioned", "append_dv32", "empty"])
def test_plans_of_many_manifests_are_those_of_the_service(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    """Also with manifests that remove what others add."""
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    for entry in opened.entries()[::3]:
        commit_replacements(
            opened.committer, [(entry, replace(entry, file=replace(entry.file, embedded_index=None)))]
        )
    service = open_service(tmp_path)
    filters = [
        query["filter_sql"]
        for query in golden_tables.expected(name)["queries"]
        if not (query["tag"] or query["snapshot_id"] or query["topn"] or query["limit"] or query["branch"])
    ]
    for condition in filters[1 :: max(1, len(filters) // 2)]:
        expected = service.plan(golden_ref(name), PlanRequest(filter=condition))

        found = jobs.run("plan", tmp_path, table(name), filter=condition)

        assert sorted(file["path"] for file in found["files"]) == sorted(file.path for file in expected.files)
        assert found["files_total"] == expected.summary.files_total
        assert found["rows_total"] == expected.summary.rows_total
        assert found["rows_selected"] == expected.summary.rows_selected, condition
        assert found["skipped_by"] == {str(step): n for step, n in expected.summary.skipped_by.items()}
    service.close()


def test_what_a_job_refuses_leaves_the_table_as_it_is(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    directories = {
        name: copy_table(golden, name, tmp_path) for name in ("pk_dv", "append_orc", "append_dv32")
    }
    before = {name: files_below(directory) for name, directory in directories.items()}
    refused: list[tuple[type[Exception], str, str, str, dict[str, Any]]] = [
        (UnsupportedFormatError, "has a primary key", "delete", "pk_dv", {"where": "1 = 1"}),
        (UnsupportedFormatError, "no deletion vectors", "delete", "append_orc", {"where": "1 = 1"}),
        (FilterError, "there is no column", "delete", "append_dv32", {"where": "nothing = 1"}),
        (FilterError, "there is no column", "plan", "append_dv32", {"filter": "nothing = 1"}),
        (UnsupportedFormatError, "planned together", "plan", "pk_dv", {}),
        (
            RequestError,
            "there is no column 'nothing'",
            "build_index",
            "append_dv32",
            {"options": {"file-index.bitmap.columns": "nothing"}},
        ),
        (
            RequestError,
            "has no option file-index",
            "build_index",
            "append_dv32",
            {"options": {}},
        ),
        (FilterError, "the partition of this table", "build_index", "append_orc", {"partitions": [{"a": 1}]}),
    ]
    for kind, message, job, name, arguments in refused:
        with pytest.raises(kind, match=message):
            jobs.run(job, tmp_path, table(name), **arguments)
        assert files_below(directories[name]) == before[name], message


def test_a_task_that_fails_leaves_nothing_behind(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path) -> None:
    name = "append_sidecar"
    directory = copy_table(golden, name, tmp_path)
    lost = open_table(tmp_path, name).entries()[3].file.file_name
    (path,) = directory.rglob(lost)
    path.unlink()
    before = files_below(directory)

    with pytest.raises(JobError, match=f"build-index golden.{name}: .*{lost}: there is no such file"):
        jobs.run("build_index", tmp_path, table(name), rebuild=True)

    assert files_below(directory) == before


def test_a_worker_that_is_killed_leaves_the_table_as_it_is(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """A data file that never answers keeps a task busy, whose process is then killed."""
    name = "append_sidecar"
    directory = copy_table(golden, name, tmp_path)
    stuck = open_table(tmp_path, name).entries()[0].file.file_name
    (path,) = directory.rglob(stuck)
    path.unlink()
    os.mkfifo(path)
    before = files_below(directory)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(jobs.run, "build_index", tmp_path, table(name), rebuild=True)
        end = writing_end(path)
        for process in holders(path) - {os.getpid()}:
            os.kill(process, signal.SIGKILL)
        os.close(end)
        with pytest.raises(JobError, match="Spark gave up"):
            running.result()

    assert files_below(directory) == before


def writing_end(pipe: Path) -> int:
    """Opens a pipe once somebody reads it."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise


def holders(path: Path) -> set[int]:
    """Processes that have a file open."""
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == path:
                found.add(int(descriptor.parts[2]))
    return found


def test_the_command_tells_by_its_status_what_an_audit_found(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    del jobs  # says whether Spark can run
    name = "append_dv32"
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    one, other = opened.entries()[:2]
    wrong = replace(one, file=replace(one.file, embedded_index=other.file.embedded_index))
    commit_replacements(opened.committer, [(one, wrong)])
    program = Path(run_job.__file__)

    finished = subprocess.run(  # noqa: S603 - fixed words
        [
            *(str(spark_python()), str(program), "audit", table(name), "--warehouse", str(tmp_path)),
            *("--master", "local[1]", "--sample", "5", "--json"),
        ],
        env=job_environment(),
        check=False,
        capture_output=True,
        text=True,
    )

    assert finished.returncode == 1, finished.stderr
    document = json.loads(finished.stdout.splitlines()[-1])
    assert document["passed"] is False
    assert f"{one.file.file_name}: " in finished.stderr
    assert "Traceback" not in finished.stderr


def copy_to(directory: Path, root: Path) -> None:
    shutil.copytree(directory, root / f"{DATABASE}.db" / directory.name)

"""The Java engine reads what jobs committed, and goes on with it: it writes, deletes, compacts, expires."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.jobs.build_index import commit_replacements
from app.table.commits import Changes, CommitKind
from app.table.manifests.manifest_entry import FileKind
from tests import golden_cases
from tests.acceptance.java_engine import JavaEngine
from tests.copied_tables import open_table
from tests.golden_cases import GoldenWarehouse
from tests.jobs.engine_tables import EngineTable
from tests.jobs.running_jobs import Jobs, table
from tests.spark.sessions import Spark

pytestmark = [pytest.mark.spark, pytest.mark.connector, pytest.mark.engine]

ROUNDS = 50


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    running = Spark.start(tmp_path_factory.mktemp("connector"))
    yield running
    running.stop()


@pytest.mark.parametrize(
    "name", ["append_part_types", "evolve_append", "append_sidecar", "pk_merge", "pk_dv"]
)
def test_the_engine_reads_the_same_rows_from_files_with_new_indexes(
    jobs: Jobs, engine: JavaEngine, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    directory = golden.copy(name, tmp_path)
    before = engine.read_back(directory)

    report = jobs.run("build_index", tmp_path, table(name), advised=True)
    after = engine.read_back(directory)

    assert report["built"]
    assert after["snapshot"]["id"] == report["snapshot_id"] == before["snapshot"]["id"] + 1
    for member in ("row_count", "rows_sha256", "row_count_without_pushdown", "rows_sha256_without_pushdown"):
        assert after.get(member) == before.get(member), member


def test_the_engine_prunes_by_our_indexes_as_by_its_own(
    jobs: Jobs, engine: JavaEngine, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Embedded indexes taken off and built again: plans have the files that they had."""
    name = "append_embedded"
    directory = golden.copy(name, tmp_path)
    jobs.run("drop_index", tmp_path, table(name))
    jobs.run("build_index", tmp_path, table(name))
    queries = [
        query
        for query in golden_cases.expected(name)["queries"]
        if query["predicate"]
        and not (query["tag"] or query["snapshot_id"] or query["topn"] or query["limit"])
    ]
    files = len(open_table(tmp_path, name).entries())
    pruned = [
        query
        for query in queries
        if query["planned_files"] is not None and len(query["planned_files"]) < files
    ]
    assert pruned

    for query in pruned[:: max(1, len(pruned) // 5)]:
        found = engine.read_back(directory, predicate=query["predicate"])
        planned = [file["file"] for split in found["plan"] for file in split["files"]]
        assert sorted(planned) == sorted(file["file"] for file in query["planned_files"]), query["name"]
        assert found["pushdown_consistent"], query["name"]


def test_the_engine_goes_on_with_what_jobs_committed(
    jobs: Jobs, connector: Spark, golden: GoldenWarehouse
) -> None:
    found = EngineTable.copy(connector, golden, "append_dv32")
    root, name = found.root, found.name
    rows = found.rows()

    # Ours, then the engine's, and ours on top of those.
    jobs.run("drop_index", root, name)
    jobs.run("build_index", root, name, options={"file-index.bloom-filter.columns": "city"})
    deleted = jobs.run("delete", root, name, where="city LIKE 'a%'")["rows_deleted"]
    assert deleted > 0
    assert found.rows() == rows - deleted
    (left,) = found.session.sql(f"SELECT count(*) AS n FROM {name} WHERE city LIKE 'a%'")  # noqa: S608
    assert left["n"] == 0
    found.session.sql(f"INSERT INTO {name} SELECT * FROM {name}")  # noqa: S608
    doubled = found.rows()
    assert doubled == 2 * (rows - deleted)
    (gone,) = found.session.sql(f"SELECT count(*) AS n FROM {name} WHERE batch_no = 1")  # noqa: S608
    found.session.sql(f"DELETE FROM {name} WHERE batch_no = 1")  # noqa: S608
    assert found.rows() == doubled - gone["n"]
    again = jobs.run("delete", root, name, where="session_no IS NULL")["rows_deleted"]
    assert found.rows() == doubled - gone["n"] - again
    jobs.run("build_index", root, name)
    assert jobs.run("audit", root, name)["problems"] == []
    assert found.missing_files() == []

    # Compaction applies our vectors; expiration removes no file that is in use.
    found.call(f"compact(table => '{name}', order_strategy => 'order', order_by => 'city')")
    assert found.rows() == doubled - gone["n"] - again
    jobs.run("build_index", root, name, rebuild=True)
    found.call(f"expire_snapshots(table => '{name}', retain_max => 1, retain_min => 1)")
    assert found.missing_files() == []
    assert found.rows() == doubled - gone["n"] - again
    assert jobs.run("audit", root, name)["problems"] == []


def test_side_files_survive_expiration(jobs: Jobs, connector: Spark, golden: GoldenWarehouse) -> None:
    found = EngineTable.copy(connector, golden, "append_sidecar")
    rows = found.rows()
    for _ in range(2):
        jobs.run("drop_index", found.root, found.name)
        jobs.run("build_index", found.root, found.name)
    found.call(f"expire_snapshots(table => '{found.name}', retain_max => 1, retain_min => 1)")

    assert len(list((found.directory / "snapshot").glob("snapshot-*"))) == 1
    assert found.missing_files() == []
    assert found.rows() == rows
    assert jobs.run("audit", found.root, found.name)["problems"] == []


def test_the_engine_goes_on_with_manifests_that_we_merged(
    jobs: Jobs, connector: Spark, golden: GoldenWarehouse
) -> None:
    found = EngineTable.copy(connector, golden, "append_partitioned")
    contents = found.opened.table.metadata
    like, rows, files = found.opened.entries()[0], found.rows(), len(found.opened.entries())
    digest = f"SELECT sum(crc32(to_json(struct(*)))) AS digest FROM {found.name}"  # noqa: S608

    # A minor merge, of as many files as it takes.
    at = 0
    while at < 5 or len(contents.manifests(found.opened.table.resolve())) > 3:
        at += 1
        new = f"data-{at}-0.parquet"
        shutil.copy(next(found.directory.rglob(like.file.file_name)), _beside(found.directory, like, new))
        entry = replace(like, file=replace(like.file, file_name=new))
        found.opened.committer.commit(Changes(CommitKind.APPEND, (entry,)))
    assert at > 20
    assert found.rows() == rows + at * like.file.row_count
    (before,) = found.session.sql(digest)

    # A full one: every file is removed and added again, and nothing of what was removed is left.
    found.session.sql(
        f"ALTER TABLE {found.name} SET TBLPROPERTIES ('manifest.full-compaction-threshold-size' = '1 kb')"
    )
    jobs.run("drop_index", found.root, found.name)
    jobs.run("build_index", found.root, found.name)
    (base,) = contents.manifests(found.opened.table.resolve())[:-1]
    assert len(base) == files + at
    assert FileKind.DELETE not in base.kinds
    assert found.session.sql(digest) == [before]

    # The engine writes, merges and expires on top.
    found.session.sql(f"INSERT INTO {found.name} SELECT * FROM {found.name}")  # noqa: S608
    assert found.rows() == 2 * (rows + at * like.file.row_count)
    found.session.sql(f"DELETE FROM {found.name} WHERE TRUE")  # noqa: S608
    assert found.rows() == 0
    jobs.run("build_index", found.root, found.name)
    # What was merged goes with the snapshots that list it.
    manifests = found.directory / "manifest"
    assert len(list(manifests.glob("manifest-*"))) > 100
    found.call(f"expire_snapshots(table => '{found.name}', retain_max => 1, retain_min => 1)")
    assert len(list(manifests.glob("manifest-*"))) < 10
    assert found.missing_files() == []
    assert found.rows() == 0


def test_two_committers_and_the_engine_at_once_lose_nothing(
    connector: Spark, golden: GoldenWarehouse
) -> None:
    """Every round one commits a new file, one changes an index, and the engine inserts a row."""
    found = EngineTable.copy(connector, golden, "codec_null")
    like, changing = found.opened.entries()[:2]
    files, before = len(found.opened.entries()), found.opened.snapshot()
    first = before["id"]
    schema = found.opened.table.resolve().schema
    columns = ", ".join(f"CAST(NULL AS {_sql_type(str(column.type))})" for column in schema.fields)
    start = threading.Barrier(3)

    def append() -> list[int]:
        opened, made = open_table(found.root, "codec_null"), []
        for at in range(ROUNDS):
            start.wait(120)
            new = f"data-{at}-0.parquet"
            shutil.copy(next(found.directory.rglob(like.file.file_name)), _beside(found.directory, like, new))
            entry = replace(like, file=replace(like.file, file_name=new))
            made.append(opened.committer.commit(Changes(CommitKind.APPEND, (entry,))))
        return made

    def change() -> list[int]:
        opened, made, old = open_table(found.root, "codec_null"), [], changing
        for at in range(ROUNDS):
            start.wait(120)
            new = replace(old, file=replace(old.file, embedded_index=b"index %d" % at))
            made.append(commit_replacements(opened.committer, [(old, new)])[0] or 0)
            old = new
        return made

    def insert() -> list[int]:
        for _ in range(ROUNDS):
            start.wait(120)
            found.session.sql(f"INSERT INTO {found.name} SELECT {columns}")
        return []

    with ThreadPoolExecutor(3) as threads:
        made: list[Any] = [
            thread.result() for thread in [threads.submit(each) for each in (append, change, insert)]
        ]

    ours = sorted(made[0] + made[1])
    assert len(set(ours)) == 2 * ROUNDS
    snapshots = {
        int(path.name.rpartition("-")[2]) for path in (found.directory / "snapshot").glob("snapshot-*")
    }
    assert snapshots >= set(range(first + 1, first + 1 + 3 * ROUNDS))
    entries = {entry.file.file_name: entry for entry in found.opened.entries()}
    assert len(entries) == files + 2 * ROUNDS
    assert {f"data-{at}-0.parquet" for at in range(ROUNDS)} <= entries.keys()
    assert entries[changing.file.file_name].file.embedded_index == b"index %d" % (ROUNDS - 1)
    assert found.missing_files() == []
    added = ROUNDS * (like.file.row_count + 1)
    assert found.opened.snapshot()["totalRecordCount"] == before["totalRecordCount"] + added


def _beside(directory: Path, like: Any, name: str) -> Path:
    return next(directory.rglob(like.file.file_name)).with_name(name)


def _sql_type(text: str) -> str:
    return text.removesuffix(" NOT NULL")

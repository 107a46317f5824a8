"""Workers and executors that are killed amid a job: it fails and changes nothing, or Spark repeats tasks."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from app.errors import JobError
from tests.copied_tables import files_below, open_table
from tests.golden_cases import GoldenWarehouse
from tests.jobs.new_tables import make_table, merged_rows
from tests.jobs.running_jobs import (
    Jobs,
    ancestors,
    command,
    descendants,
    holders,
    live_names,
    parent,
    seconds_computed,
    table,
    writing_end,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

COLUMNS = {"k": "BIGINT NOT NULL", "s": "STRING"}
BUCKETS = 40
ROWS = 200_000
"""So many that all buckets together are written for seconds."""
EVEN_BUCKETS = 128
"""Spark deals half of them to each of two tasks, which then start and end together (of 40: 14 and 26)."""
_BUSY_SECONDS: Final = 0.1
"""Of a processor: more than a worker uses to tidy up after a task (0.05)."""
QUERY = f"SELECT id k, concat('s', id) s FROM range({ROWS})"  # noqa: S608 - a number


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Yield a Spark with two executors, each a process of its own."""
    running = Jobs.start(tmp_path_factory.mktemp("cluster"), "local-cluster[2,1,1024]")
    yield running
    running.stop()


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    """Return a table with fixed buckets; its directory."""
    return make_table(
        tmp_path, "t", COLUMNS, keys=["k"], options={"bucket": str(BUCKETS), "file.format": "parquet"}
    )


def test_an_upsert_whose_workers_are_killed_changes_nothing(jobs: Jobs, keyed: Path) -> None:
    root = keyed.parents[1]
    before = files_below(keyed)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(jobs.run, "upsert", root, table("t"), paths=[], query=QUERY)
        first_new_file(keyed, running)
        kill(worker for worker in descendants(jobs.pid) if is_worker(worker))
        with pytest.raises(JobError, match=r"upsert golden\.t: Spark gave up"):
            running.result()

    assert files_below(keyed) == before
    # The same Spark does it again.
    assert jobs.run("upsert", root, table("t"), paths=[], query=QUERY)["rows_written"] == ROWS


@pytest.fixture
def two_tasks(jobs: Jobs) -> Iterator[None]:
    """Have Spark write with two tasks at once, however little there is to write."""
    jobs.configure({"spark.sql.adaptive.enabled": "false"})
    yield
    jobs.configure({"spark.sql.adaptive.enabled": "true"})


@pytest.mark.usefixtures("two_tasks")
def test_a_task_that_outlives_its_job_leaves_no_file(jobs: Jobs, tmp_path: Path) -> None:
    """One of two workers is killed while the other one builds an index, which it writes afterwards.

    Spark tells of the failure at once, and takes seconds to stop the other worker.
    """
    strings = [f"s{number}" for number in range(6)]
    indexes = {
        "file-index.range-bitmap.columns": ",".join(strings),
        "file-index.in-manifest-threshold": "1 b",
    }
    options = {"bucket": str(EVEN_BUCKETS), "file.format": "parquet"} | indexes
    columns = {"k": "BIGINT NOT NULL"} | dict.fromkeys(strings, "STRING")
    directory = make_table(tmp_path, "slow", columns, keys=["k"], options=options)
    before = files_below(directory)
    values = ", ".join(f"concat('{name}', id) {name}" for name in strings)
    query = f"SELECT id k, {values} FROM range({8 * ROWS})"  # noqa: S608 - names and a number

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(jobs.run, "upsert", tmp_path, table("slow"), paths=[], query=query)
        files_of_tasks(directory, 2, running)
        kill(busy_workers(jobs, 2, running)[:1])
        with pytest.raises(JobError, match=r"upsert golden\.slow: Spark gave up"):
            running.result()

    # Whatever was still written when the job had ended, it would be there after the next one.
    jobs.run("upsert", tmp_path, table("slow"), paths=[], query=f"{query} WHERE id < 0")
    assert files_below(directory) == before


def test_an_upsert_goes_on_without_an_executor(cluster: Jobs, keyed: Path) -> None:
    root = keyed.parents[1]

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(cluster.run, "upsert", root, table("t"), paths=[], query=QUERY)
        first_new_file(keyed, running)
        executors = [each for each in descendants(cluster.pid) if is_executor(each)]
        kill(executors[:1])
        report = running.result()

    assert executors
    assert report["rows_written"] == ROWS
    assert {row["k"] for row in merged_rows(root, "t")} == set(range(ROWS))
    assert len(live_names(root, "t")) == BUCKETS
    # What the killed tasks had written is not left either.
    assert {path.name for path in keyed.rglob("*.parquet*")} == live_names(root, "t")


def test_build_index_goes_on_without_an_executor(
    cluster: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """A data file that does not answer keeps a task busy, whose executor is then killed."""
    name = "append_sidecar"
    directory = golden.copy(name, tmp_path)
    entries = open_table(tmp_path, name).entries()
    (path,) = directory.rglob(entries[0].file.file_name)
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(cluster.run, "build_index", tmp_path, table(name), rebuild=True)
        end = writing_end(path)
        (reader,) = holders(path) - {os.getpid()}
        # The task is repeated, and finds the file whole.
        path.unlink()
        path.write_bytes(content)
        kill([each for each in ancestors(reader) if is_executor(each)])
        report = running.result()
        os.close(end)

    assert report["built"] == len(entries)
    assert cluster.run("audit", tmp_path, table(name))["problems"] == []
    names = {side for entry in open_table(tmp_path, name).entries() for side in entry.file.extra_files}
    assert names == {file.name for file in directory.rglob("*-1.index")}
    assert not list(directory.rglob("*.tmp"))


def first_new_file(directory: Path, running: Future[Any]) -> None:
    """Wait until a data file is there, and state that the job is not over by then."""
    files_of_tasks(directory, 1, running)


def files_of_tasks(directory: Path, count: int, running: Future[Any]) -> None:
    """Wait for files of so many tasks, whose numbers are in the files' names."""
    pause = threading.Event()
    while len({number(path) // 1_000_000 for path in directory.glob("bucket-*/*.parquet")}) < count:
        assert not running.done()
        pause.wait(0.01)
    assert not running.done()


def busy_workers(jobs: Jobs, count: int, running: Future[Any]) -> list[int]:
    """Wait until so many workers have computed for longer than those without a task do."""
    pause = threading.Event()
    before = {each: seconds_computed(each) for each in descendants(jobs.pid) if is_worker(each)}
    while True:
        found = [each for each in before if seconds_computed(each) >= before[each] + _BUSY_SECONDS]
        if len(found) >= count:
            return found
        assert not running.done()
        pause.wait(0.01)


def number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def kill(processes: Any) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


def is_executor(process: int) -> bool:
    return b"CoarseGrainedExecutorBackend" in command(process)


def is_worker(process: int) -> bool:
    return b"pyspark.daemon" in command(process) and b"pyspark.daemon" in command(parent(process))

"""What a job refuses, and what fails in it, leaves the table as it is."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.errors import FilterError, JobError, RequestError, UnsupportedFormatError
from tests.copied_tables import files_below, open_table
from tests.golden_cases import GoldenWarehouse
from tests.jobs.running_jobs import Jobs, holders, table, writing_end

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]


def test_what_a_job_refuses_leaves_the_table_as_it_is(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    directories = {name: golden.copy(name, tmp_path) for name in ("pk_dv", "append_orc", "append_dv32")}
    before = {name: files_below(directory) for name, directory in directories.items()}
    refused: list[tuple[type[Exception], str, str, str, dict[str, Any]]] = [
        (UnsupportedFormatError, "has a primary key", "delete", "pk_dv", {"where": "1 = 1"}),
        (UnsupportedFormatError, "no deletion vectors", "delete", "append_orc", {"where": "1 = 1"}),
        (FilterError, "`nothing` cannot be resolved", "delete", "append_dv32", {"where": "nothing = 1"}),
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
            "while file-index.bloom-filter.columns names it",
            "build_index",
            "append_dv32",
            {
                "options": {"file-index.bloom-filter.columns": "city"},
                "take_off": [["city", "bloom-filter"]],
            },
        ),
        (
            RequestError,
            "did you mean 'bitmap'",
            "build_index",
            "append_orc",
            {"take_off": [["city", "bitmpa"]]},
        ),
        (
            FilterError,
            "this table has no partitions: leave a away",
            "build_index",
            "append_orc",
            {"partitions": [{"a": 1}]},
        ),
    ]
    for kind, message, job, name, arguments in refused:
        with pytest.raises(kind, match=message):
            jobs.run(job, tmp_path, table(name), **arguments)
        assert files_below(directories[name]) == before[name], message


def test_a_task_that_fails_leaves_nothing_behind(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path) -> None:
    name = "append_sidecar"
    directory = golden.copy(name, tmp_path)
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
    directory = golden.copy(name, tmp_path)
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

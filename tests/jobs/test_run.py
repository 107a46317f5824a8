"""What is left of a job that ends before its time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from app.errors import CommitConflictError, JobError, UncertainCommitError
from app.jobs.run import FilesOfRun, JobRun, WrittenFiles, remove
from app.storage import Warehouse
from app.storage.writing import Writing

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.parametrize(
    ("error", "in_commit", "stays"),
    [
        (JobError("a task failed"), False, False),
        (KeyboardInterrupt(), False, False),
        (CommitConflictError("another was first"), True, False),
        (UncertainCommitError("no answer"), True, True),
        (KeyboardInterrupt(), True, True),
        (MemoryError(), True, True),
    ],
)
def test_files_go_unless_a_snapshot_may_name_them(
    tmp_path: Path, *, error: BaseException, in_commit: bool, stays: bool
) -> None:
    writing = Writing(Warehouse("w", str(tmp_path)))

    def fail() -> None:
        with WrittenFiles(writing, ["never-written", "written"]) as written:
            writing.create("written", b"index")
            written.is_committing = in_commit
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == (["written"] if stays else [])


def test_files_of_a_job_that_ends_well_stay(tmp_path: Path) -> None:
    writing = Writing(Warehouse("w", str(tmp_path)))
    with WrittenFiles(writing, ["written"]):
        writing.create("written", b"index")
    assert (tmp_path / "written").read_bytes() == b"index"


def test_what_a_task_writes_while_files_are_removed_is_removed_too(tmp_path: Path) -> None:
    """Spark is gone here, so that nobody knows whether tasks have ended."""
    writing = Writing(Warehouse("w", str(tmp_path)))
    late = iter(["data-run-1-3.parquet"])
    for name in (
        "data-run-1-0.parquet",
        ".data-run-1-1.parquet.9f.tmp",
        "data-run-1-2.parquet",
        "data-run-2-0.parquet",
    ):
        writing.create(f"bucket-0/{name}", b"rows")

    def listed() -> list[str]:
        names = writing.warehouse.list_names("bucket-0")
        for name in late:
            writing.create(f"bucket-0/{name}", b"rows")
        return [f"bucket-0/{name}" for name in names]

    run = JobRun(cast("SparkContext", None), "run-1")
    remove(writing, FilesOfRun(run, listed, named={"data-run-1-2.parquet"}))

    assert writing.warehouse.list_names("bucket-0") == ["data-run-1-2.parquet", "data-run-2-0.parquet"]

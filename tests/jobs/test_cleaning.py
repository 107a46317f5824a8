"""What is left of a job that ends before its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.errors import CommitConflictError, JobError, UncertainCommitError
from app.jobs.cleaning import WrittenFiles
from app.storage import Warehouse
from app.storage.writing import Writing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("error", "in_commit", "stays"),
    [
        (JobError("a task failed"), False, False),
        (KeyboardInterrupt(), False, False),
        (CommitConflictError("another was first"), True, False),
        (UncertainCommitError("no answer"), True, True),
        (KeyboardInterrupt(), True, True),
    ],
)
def test_files_go_unless_a_snapshot_may_name_them(
    tmp_path: Path, *, error: BaseException, in_commit: bool, stays: bool
) -> None:
    writing = Writing(Warehouse("w", str(tmp_path)))

    def fail() -> None:
        with WrittenFiles(writing, ["never-written", "written"]) as written:
            writing.create("written", b"index")
            written.are_committed = in_commit
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == (["written"] if stays else [])


def test_files_of_a_job_that_ends_well_stay(tmp_path: Path) -> None:
    writing = Writing(Warehouse("w", str(tmp_path)))
    with WrittenFiles(writing, ["written"]):
        writing.create("written", b"index")
    assert (tmp_path / "written").read_bytes() == b"index"

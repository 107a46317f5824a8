"""One run of a job in Spark: the end of its tasks, and the removal of files that a failed run has written.

A task that is killed, with its worker or its executor, reports nothing. Spark keeps stopping tasks for some
seconds after it has reported a failed job, and these may still write.

The names of all files that the tasks of a run write contain the run's token. So a failed job can list the
directories and remove its files, also those of tasks that reported nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import tenacity

from app.errors import CommitConflictError, PaimonIndexError, StorageError, UncertainCommitError
from app.storage import Writing

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.status import SparkJobInfo, SparkStageInfo, StatusTracker

_log = logging.getLogger("paimon_index.jobs")

_POLL_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 60.0
"""Limit of waiting for tasks. Spark kills the Python worker of a cancelled task after some four seconds."""
RETRYING: Final = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(5),
    retry=tenacity.retry_if_exception_type(CommitConflictError),
    before_sleep=tenacity.before_sleep_log(_log, logging.INFO),
    reraise=True,
)
"""Policy that starts a job again after another commit came in between."""
_RUNNING: Final = ("RUNNING", "UNKNOWN")
_SUCCEEDED: Final = "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job. Its token is part of the names of its files, and groups its jobs in Spark."""

    context: SparkContext
    token: str

    def settle(self) -> bool:
        """Cancel tasks and await their end. Return True if each succeeded at once and reported its files."""
        try:
            tracker = self.context.statusTracker()
            # Spark warns of a group without jobs to cancel.
            if self._is_running(tracker):
                self.context.cancelJobGroup(self.token)
            give_up_at = time.monotonic() + _MOST_SECONDS
            while self._is_running(tracker):
                if time.monotonic() > give_up_at:
                    _log.warning("tasks of run %s are still running, and may write files", self.token)
                    return False
                time.sleep(_POLL_SECONDS)
            return self._is_complete(tracker)
        except Exception as error:  # noqa: BLE001 - Spark may be gone, whatever py4j then raises
            _log.warning("cannot learn from Spark whether tasks of run %s have ended: %s", self.token, error)
            return False

    def _is_running(self, tracker: StatusTracker) -> bool:
        # Spark reports the end of a job after all events before it.
        if any(job.status in _RUNNING for job in self._jobs(tracker)):
            return True
        return any(stage.numActiveTasks for stage in self._stages(tracker))

    def _is_complete(self, tracker: StatusTracker) -> bool:
        if self.context.getConf().get("spark.speculation", "false") != "false":
            return False  # the slower one of two attempts is killed
        return all(job.status == _SUCCEEDED for job in self._jobs(tracker)) and not any(
            stage.numFailedTasks or stage.currentAttemptId for stage in self._stages(tracker)
        )

    def _jobs(self, tracker: StatusTracker) -> Iterator[SparkJobInfo]:
        for number in tracker.getJobIdsForGroup(self.token):
            job = tracker.getJobInfo(number)
            if job is not None:
                yield job

    def _stages(self, tracker: StatusTracker) -> Iterator[SparkStageInfo]:
        for number in {number for job in self._jobs(tracker) for number in job.stageIds}:
            stage = tracker.getStageInfo(number)
            if stage is not None:
                yield stage


_LISTINGS: Final = 5
_PAUSE_SECONDS: Final = 1.0
"""Pause between listings: a Python worker may outlive its task until it writes to Spark again."""


@dataclass(frozen=True, slots=True)
class FilesOfRun:
    """Paths of the files that the tasks of a run have written, listed again by each iteration.

    Iteration first waits for the end of the tasks. If some were killed, it lists directories until nothing
    new appears. ``listed``: returns the paths of all files in the directories that the run may write to.
    ``named``: names of files that a snapshot names, which are skipped.
    """

    run: JobRun
    listed: Callable[[], Iterable[str]]
    named: Collection[str] = frozenset()

    def __iter__(self) -> Iterator[str]:
        is_complete = self.run.settle()
        # A killed task may still write files after a listing.
        for listing in range(1 if is_complete else _LISTINGS):
            if listing:
                time.sleep(_PAUSE_SECONDS)
            try:
                paths = [path for path in self.listed() if self._is_of_run(path)]
            except PaimonIndexError as error:
                _log.warning("unreferenced files named %s may stay: %s", self.run.token, error)
                return
            if listing and not paths:
                return
            yield from paths

    def _is_of_run(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return self.run.token in name and name not in self.named


@dataclass(slots=True)
class WrittenFiles:
    """Removes files if the block raises, unless a snapshot may already name them.

    That is so after UncertainCommitError, and after an unexpected error while ``is_committing``, which the
    block sets when it begins to commit. ``paths``: files with names that only this run uses, iterated over
    only for their removal. Files that were never written are ignored.
    """

    writing: Writing
    paths: Iterable[str]
    is_committing: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A snapshot may name the files if the commit is uncertain, or if the process was stopped or failed
        # unexpectedly while it committed.
        if kind is None or issubclass(kind, UncertainCommitError):
            return
        if self.is_committing and not issubclass(kind, PaimonIndexError):
            return
        remove(self.writing, self.paths)


def remove(writing: Writing, paths: Iterable[str]) -> None:
    """Remove unreferenced files. Log those that cannot be removed."""
    for path in paths:
        try:
            writing.delete(path)
        except StorageError as error:
            _log.warning("unreferenced file %s stays: %s", path, error)

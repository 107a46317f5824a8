"""One run of a job as Spark knows it: whether its tasks have ended, and all of them told what they did.

A task that is killed, with its worker or with its executor, tells nothing. Spark goes on stopping tasks for
some seconds after it has told that a job failed, and these may still write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.status import SparkJobInfo, SparkStageInfo, StatusTracker

_log = logging.getLogger("paimon_index.jobs")

_POLL_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 60.0
"""Spark kills a Python worker some four seconds after it has given its task up."""
_RUNNING: Final = ("RUNNING", "UNKNOWN")
_SUCCEEDED: Final = "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job.

    Attributes:
        context: of the session.
        token: in the names of all files that the run's tasks write; the group of its jobs in Spark.
    """

    context: SparkContext
    token: str

    def settle(self) -> bool:
        """Stops what is still running, and waits until Spark says that it has ended.

        Returns:
            Whether each task ended well at its first attempt, and so has told what it did.
        """
        try:
            self.context.cancelJobGroup(self.token)
            tracker = self.context.statusTracker()
            patience = time.monotonic() + _MOST_SECONDS
            while self._is_running(tracker):
                if time.monotonic() > patience:
                    _log.warning("tasks of run %s are still running, and may write files", self.token)
                    return False
                time.sleep(_POLL_SECONDS)
            return self._is_complete(tracker)
        except Exception as error:  # noqa: BLE001 - Spark may be gone, whatever py4j then raises
            _log.warning("Spark does not tell whether tasks of run %s have ended: %s", self.token, error)
            return False

    def _is_running(self, tracker: StatusTracker) -> bool:
        # Spark tells of a job's end after all that came before it.
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

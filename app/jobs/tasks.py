"""Spark tasks that work side by side, and the handling of their errors.

An error that this project raises would be raised again by a second attempt, so a task returns it as a result
instead of failing. Spark retries only tasks that it lost with an executor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from app.building import Advance, ignore_progress
from app.errors import JobError, PaimonIndexError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_log = logging.getLogger("paimon_index.jobs")

# Enough that no core waits long for the last task, and few enough that starting them costs little.
_TASKS_OF_CORE: Final = 32
# A small job has fewer tasks: the start of a task takes Python about as long as reading so many bytes.
_FEWEST_TASKS_OF_CORE: Final = 4
_BYTES_OF_TASK: Final = 4 << 20
_POLL_SECONDS: Final = 0.5
_POLLS_OF_LINE: Final = 20
_GROUP: Final = "spark.jobGroup.id"
"""Property by which Spark groups the jobs of a thread."""


@dataclass(frozen=True, slots=True)
class _Failed:
    message: str


@dataclass(frozen=True, slots=True)
class _Guarded(Generic[_Item, _Result]):
    # A class instead of a closure: Spark's workers find it by its name.
    work: Callable[[_Item], _Result]

    def __call__(self, batches: Iterable[Sequence[_Item]]) -> Iterator[_Result | _Failed]:
        for item in chain.from_iterable(batches):
            try:
                yield self.work(item)
            except PaimonIndexError as error:
                yield _Failed(str(error))


@dataclass(frozen=True, slots=True)
class Lean(Generic[_Item, _Result]):
    """A task that frees what would slow down the start of later tasks in its process."""

    work: Callable[[Iterable[_Item]], Iterator[_Result]]

    def __call__(self, items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results of the work."""
        # Part of the extra "jobs", which this module must not require.
        from paimon_index.spark.worker import forget_zip_finders  # noqa: PLC0415

        yield from self.work(items)
        forget_zip_finders()


def run_tasks(
    spark: SparkSession,
    label: str,
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    advance: Advance = ignore_progress,
    *,
    size_bytes: int,
    group: str | None = None,
) -> list[_Result]:
    """Do the work of all items in tasks, and return results in order.

    ``items``: those that take longest first. ``size_bytes``: bytes of all files of the items.
    """
    if not items:
        return []
    context = spark.sparkContext
    tasks = task_count(context, label, len(items), size_bytes)
    # Neighbours take about equally long, so they are dealt to different tasks.
    batches = [items[first::tasks] for first in range(tasks)]
    with Progress(context, label, len(items) / tasks, advance, group):
        try:
            results: list[_Result] = (
                context.parallelize(batches, tasks).mapPartitions(Lean(_Guarded(work))).collect()
            )
        except Exception as error:
            raise spark_failed(label, error) from error
    for result in results:
        if isinstance(result, _Failed):
            raise JobError(f"{label}: {result.message}")
    places = [place for first in range(tasks) for place in range(first, len(items), tasks)]
    return [result for _, result in sorted(zip(places, results, strict=True), key=itemgetter(0))]


def task_count(context: SparkContext, label: str, files: int, size_bytes: int) -> int:
    """Return the number of tasks that read files, bounded by files, bytes and cores, and announce it."""
    cores = max(1, int(context.defaultParallelism))
    by_size = min(_TASKS_OF_CORE * cores, size_bytes // _BYTES_OF_TASK)
    tasks = min(files, max(_FEWEST_TASKS_OF_CORE * cores, by_size))
    _log.info("%s: files %s, bytes %s, tasks %s", label, f"{files:,}", f"{size_bytes:,}", f"{tasks:,}")
    return tasks


def spark_failed(label: str, error: Exception) -> JobError:
    """Turn an exception of Spark into a JobError with the first line that names an error, and its causes."""
    reasons = [line.strip() for line in str(error).splitlines() if "Exception:" in line or "Error:" in line]
    reason = next(iter(reasons), "") or str(error).partition("\n")[0]
    causes = [line for line in reasons[1:] if line.startswith("Caused by:") and "Traceback" not in line]
    reason = "; ".join([reason.removeprefix(": "), *causes])
    return JobError(f"{label}: Spark gave up: {reason:.500}")


class Progress:
    """Reports the number of finished tasks while a block runs."""

    def __init__(
        self,
        context: SparkContext,
        label: str,
        items_of_task: float,
        advance: Advance,
        group: str | None = None,
    ) -> None:
        self._context = context
        self._label = label
        self._items_of_task = items_of_task
        self._advance = advance
        self._group = group
        self._group_before: str | None = None
        self._reported = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._context.setJobDescription(self._label)
        if self._group is not None:
            self._group_before = self._context.getLocalProperty(_GROUP)
            self._context.setLocalProperty(_GROUP, self._group)
        if self._advance is not ignore_progress:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        # None removes the description.
        self._context.setJobDescription(None)
        if self._group is not None:
            self._context.setLocalProperty(_GROUP, self._group_before)

    def _watch(self) -> None:
        tracker, polls = self._context.statusTracker(), 0
        while not self._ended.wait(_POLL_SECONDS):
            polls += 1
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            tasks_done = sum(stage.numCompletedTasks for stage in stages if stage)
            if polls % _POLLS_OF_LINE == 0:
                tasks = sum(stage.numTasks for stage in stages if stage)
                _log.info("%s: %s of %s tasks of this step are done", self._label, tasks_done, tasks)
            done = int(tasks_done * self._items_of_task)
            if done > self._reported:
                self._advance(done - self._reported)
                self._reported = done

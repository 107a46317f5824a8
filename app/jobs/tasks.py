"""Work that Spark's tasks do side by side, and what becomes of their errors.

What fails for a reason that this project knows fails again wherever it is tried, so a task gives its error
back as a result instead of being tried again. What Spark repeats is what it lost with an executor.
"""

from __future__ import annotations

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

Item = TypeVar("Item")
Result = TypeVar("Result")

_TASKS_OF_CORE: Final = 32
"""So many that no core waits long for another one, and so few that starting them is no work of its own."""
_POLL_SECONDS: Final = 0.5
_GROUP: Final = "spark.jobGroup.id"
"""By which Spark finds the jobs that one thread has started."""


@dataclass(frozen=True, slots=True)
class _Failed:
    message: str


@dataclass(frozen=True, slots=True)
class _Guarded(Generic[Item, Result]):
    """Does the work of the items of a task; a class, since Spark's workers find it by its name."""

    work: Callable[[Item], Result]

    def __call__(self, dealt: Iterable[Sequence[Item]]) -> Iterator[Result | _Failed]:
        for item in chain.from_iterable(dealt):
            try:
                yield self.work(item)
            except PaimonIndexError as error:
                yield _Failed(str(error))


@dataclass(frozen=True, slots=True)
class Lean(Generic[Item, Result]):
    """A task that spares the next one in its process a part of the work of starting."""

    work: Callable[[Iterable[Item]], Iterator[Result]]

    def __call__(self, items: Iterable[Item]) -> Iterator[Result]:
        """What the work gives."""
        # Comes with the extra jobs, which loading this module does not need.
        from paimon_index.spark.worker import forget_zip_finders  # noqa: PLC0415

        yield from self.work(items)
        forget_zip_finders()


def run_tasks(
    spark: SparkSession,
    what: str,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    advance: Advance = ignore_progress,
    *,
    group: str | None = None,
) -> list[Result]:
    """Does work in tasks, one for each item unless there are many; items that take longest come first."""
    if not items:
        return []
    context = spark.sparkContext
    tasks = min(len(items), _TASKS_OF_CORE * max(1, int(context.defaultParallelism)))
    # Neighbours take about as long, so each goes to another task.
    dealt = [items[first::tasks] for first in range(tasks)]
    with Progress(context, what, len(items) / tasks, advance, group):
        try:
            results: list[Result] = (
                context.parallelize(dealt, tasks).mapPartitions(Lean(_Guarded(work))).collect()
            )
        except Exception as error:
            raise spark_failed(what, error) from error
    for result in results:
        if isinstance(result, _Failed):
            raise JobError(f"{what}: {result.message}")
    places = [place for first in range(tasks) for place in range(first, len(items), tasks)]
    return [result for _, result in sorted(zip(places, results, strict=True), key=itemgetter(0))]


def spark_failed(what: str, error: Exception) -> JobError:
    """What to tell of an exception of Spark: its first line that says something, and what caused that."""
    reasons = [line.strip() for line in str(error).splitlines() if "Exception:" in line or "Error:" in line]
    reason = next(iter(reasons), "") or str(error).partition("\n")[0]
    causes = [line for line in reasons[1:] if line.startswith("Caused by:") and "Traceback" not in line]
    reason = "; ".join([reason.removeprefix(": "), *causes])
    return JobError(f"{what}: Spark gave up: {reason:.500}")


class Progress:
    """Asks Spark now and then how many tasks are done, for the time of a block."""

    def __init__(
        self,
        context: SparkContext,
        what: str,
        items_of_task: float,
        advance: Advance,
        group: str | None = None,
    ) -> None:
        self._context = context
        self._what = what
        self._items_of_task = items_of_task
        self._advance = advance
        self._group = group
        self._group_before: str | None = None
        self._reported = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._context.setJobDescription(self._what)
        if self._group is not None:
            self._group_before = self._context.getLocalProperty(_GROUP)
            self._context.setLocalProperty(_GROUP, self._group)
        if self._advance is not ignore_progress:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        # None takes it back.
        self._context.setJobDescription(None)
        if self._group is not None:
            self._context.setLocalProperty(_GROUP, self._group_before)

    def _watch(self) -> None:
        tracker = self._context.statusTracker()
        while not self._ended.wait(_POLL_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = int(sum(stage.numCompletedTasks for stage in stages if stage) * self._items_of_task)
            if done > self._reported:
                self._advance(done - self._reported)
                self._reported = done

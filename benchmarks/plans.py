"""Plans of synthetic tables: cold and warm, with each kind of index, embedded and beside the data files.

A cold plan is the first of a new process, which reads and decodes everything, but waits for no disk: the
operating system's file cache is warm. A warm plan has new literals, and finds everything decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from app.planning.plan.answers import Plan
from app.work.memory import prepare_process
from benchmarks.events import Indexed, Layout
from benchmarks.questions import TEN_THOUSAND_IDS, THOUSAND_IDS, questions
from benchmarks.runner import in_process, measured
from benchmarks.services import LAYOUTS, ask, open_service, prepare, read_manifests, warehouse_of, warm_up
from benchmarks.workload import Measured, Suite, Target, Workload

LARGEST: Final = 100_000
"""Files of the table that targets are set for."""

_TARGETS: Final = {
    (Indexed.NOTHING, "half of the days, 10 columns"): Target(5),
    (Indexed.KEYS, "id ="): Target(10),
    (Indexed.VALUES, "cat ="): Target(10),
    (Indexed.VALUES, "score BETWEEN"): Target(10),
}
_LIST_TARGETS: Final = {THOUSAND_IDS: Target(300), TEN_THOUSAND_IDS: Target(800)}
"""Of whole plans, reading the filter included."""
FIRST: Final = 100
"""Files of the table that a process plans before the one that is timed."""
_COLD_RUNS: Final = 5
COMPARED: Final = 10_000
"""Files of the tables that have more of something else, and of the one that the largest is held against."""

MANY_COLUMNS: Final = "100 columns"
FEW_VALUES: Final = "20 values each"
MANY_VALUES: Final = "200 values each"


def suites(files: int) -> Iterator[Suite]:
    """Plans of every layout of a table, at one size."""
    for layout in LAYOUTS:
        yield _suite(layout.title, layout, files)


def growth_suites() -> Iterator[Suite]:
    """Plans of tables that have more columns, or more distinct values."""
    yield _suite(MANY_COLUMNS, Layout(Indexed.NOTHING, numbers=100), COMPARED)
    yield _suite(FEW_VALUES, Layout(Indexed.VALUES, bodies=200), COMPARED)
    yield _suite(MANY_VALUES, Layout(Indexed.VALUES, bodies=200, distinct=200), COMPARED)


def cold_name(title: str, question: str) -> str:
    """Return what results call a cold plan of a table, for a question of that name."""
    return f"cold plan, {title}: {question}"


def warm_name(title: str, question: str) -> str:
    """Return what results call a warm plan of a table, for a question of that name."""
    return f"warm plan, {title}: {question}"


def planner_name(title: str, question: str) -> str:
    """Return what results call the planner's part of a warm plan, for a question of that name."""
    return f"planner of a warm plan, {title}: {question}"


def _suite(title: str, layout: Layout, files: int) -> Suite:
    return Suite(
        f"plans, {title}, {files} files",
        partial(_workloads, title, layout, files),
        partial(_prepare, layout, files),
    )


def _prepare(layout: Layout, files: int, directory: Path) -> None:
    prepare(layout, FIRST, directory)
    prepare(layout, files, directory)


def _workloads(title: str, layout: Layout, files: int, directory: Path) -> Iterator[Workload]:
    random = Random(files)
    asked = questions(layout, files)
    for number, question in enumerate(asked):
        if question.is_compared:
            cold = partial(_plan_cold, layout, files, directory, number)
            yield Workload(
                cold_name(title, question.name),
                files,
                partial(in_process, cold),
                is_cold=True,
                runs=_COLD_RUNS,
                profiled=partial(_plan_once, layout, files, directory, number),
            )
    warehouse = warehouse_of(directory, layout, files)
    with closing(open_service(warehouse)) as service:
        for question in asked:
            warm_up(service, question, random)
            plan = partial(ask, service, question, random)
            whole = _LIST_TARGETS.get(question.name) if files == LARGEST and layout.is_embedded else None
            name = warm_name(title, question.name)
            yield Workload(name, files, partial(_files_kept, plan), target=whole)
            target = _TARGETS.get((layout.indexed, question.name))
            if target is not None and files == LARGEST:
                name = planner_name(title, question.name)
                yield Workload(name, files, partial(_planner, plan), target=target)


def _plan_cold(layout: Layout, files: int, directory: Path, number: int) -> Measured:
    """Return the first plan of a table; what is imported and set up once in a process is no part of it."""
    prepare_process()
    random = Random(files)
    for size in (FIRST, files):
        read_manifests(warehouse_of(directory, layout, size))
        question = questions(layout, files)[number]
        with closing(open_service(warehouse_of(directory, layout, size))) as service:
            found = measured(partial(_files_kept, partial(ask, service, question, random)), size)
    return found


def _plan_once(layout: Layout, files: int, directory: Path, number: int) -> None:
    """Make the same plan, in a process that has the memory for it already."""
    with closing(open_service(warehouse_of(directory, layout, files))) as service:
        ask(service, questions(layout, files)[number], Random(files))


def _files_kept(plan: Callable[[], Plan]) -> int:
    return plan().summary.files_kept


def _planner(plan: Callable[[], Plan]) -> Measured:
    """Make the part of a plan that decides, without finding the snapshot, the filter and names of files."""
    found = plan()
    return Measured(found.timings_ms["evaluate"] / 1000, found.summary.files_kept)

"""The native Rust planner over the same tables, with filters of the same form, in the same run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.events import Layout
from benchmarks.plans import FIRST
from benchmarks.questions import Comparison, Operator, Question, questions
from benchmarks.runner import in_process, measured
from benchmarks.services import KEYS, NO_INDEX, VALUES, prepare, read_manifests, warehouse_of
from benchmarks.synthetic import IDENTIFIER
from benchmarks.workload import Measured, Note, Suite, Workload

LAYOUTS: Final = (NO_INDEX, KEYS, VALUES)
"""Of the tables that are planned; side files make no difference to a planner that does not look at them."""

_NAME: Final = "pypaimon-rust"
_MODULE: Final = "pypaimon_rust"
_RUNS: Final = 5
_METHODS: Final = {Operator.EQUAL: "equal", Operator.LESS_THAN: "lessThan", Operator.BETWEEN: "between"}


def suites(files: int) -> Iterator[Suite]:
    """Its plans of tables of one size."""
    for layout in LAYOUTS:
        prepared = partial(_prepare, layout, files)
        yield Suite(f"{_NAME}, {layout.title}", partial(_plans, layout, files), prepared)


def _prepare(layout: Layout, files: int, directory: Path) -> None:
    for size in (FIRST, files):
        prepare(layout, size, directory)


def compared(layout: Layout, files: int) -> tuple[Question, ...]:
    """Return what it is asked about a table."""
    return tuple(question for question in questions(layout, files) if question.is_compared)


def plan_name(title: str, question: str) -> str:
    """Return what results call its plan of a table, for a question of that name."""
    return f"{_NAME}, {title}: {question}"


def cold_name(title: str, question: str) -> str:
    """Return what results call its first plan of a table in a process."""
    return f"{_NAME} in a new process, {title}: {question}"


def _plans(layout: Layout, files: int, directory: Path) -> Iterator[Workload | Note]:
    if find_spec(_MODULE) is None:
        yield Note(f"{_NAME} is not installed (pip install '.[bench]'): it is not compared")
        return
    table, random = _table(layout, files, directory), Random(files)
    for number, question in enumerate(questions(layout, files)):
        if question.is_compared:
            plan = partial(_files_kept, table, layout, question, random)
            yield Workload(plan_name(layout.title, question.name), files, plan, runs=_RUNS)
            cold = partial(in_process, partial(_plan_cold, layout, files, directory, number))
            yield Workload(cold_name(layout.title, question.name), files, cold, runs=_RUNS, is_cold=True)


def _plan_cold(layout: Layout, files: int, directory: Path, number: int) -> Measured:
    """Return the first plan of a table, in the way that ours is timed."""
    random = Random(files)
    for size in (FIRST, files):
        read_manifests(warehouse_of(directory, layout, size))
        question = questions(layout, files)[number]
        table = _table(layout, size, directory)
        found = measured(partial(_files_kept, table, layout, question, random), size)
    return found


def _table(layout: Layout, files: int, directory: Path) -> Any:
    # It is there only where benchmarks are run.
    from pypaimon_rust.datafusion import PaimonCatalog  # noqa: PLC0415 - see above

    return PaimonCatalog({"warehouse": str(warehouse_of(directory, layout, files))}).get_table(IDENTIFIER)


def _files_kept(table: Any, layout: Layout, question: Question, random: Random) -> int:
    builder = table.new_read_builder().with_filter(_predicate(layout, question.comparisons(random)))
    rows: int = sum(split.row_count() for split in builder.new_scan().plan().splits())
    return rows // layout.rows


def _predicate(layout: Layout, comparisons: tuple[Comparison, ...]) -> dict[str, Any]:
    index = {column.name: at for at, column in enumerate(layout.columns)}
    children = [
        {
            "method": _METHODS[each.operator],
            "index": index[each.column],
            "field": each.column,
            "literals": list(each.literals),
        }
        for each in comparisons
    ]
    return children[0] if len(children) == 1 else {"method": "and", "children": children}

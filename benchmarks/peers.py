"""The native Rust planner over the same tables, with filters of the same form, in the same run."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any, Final

from benchmarks.questions import Operator, Question, questions
from benchmarks.services import KEYS, NO_INDEX, VALUES, prepare, warehouse_of
from benchmarks.synthetic import IDENTIFIER
from benchmarks.workload import Note, Suite, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.events import Layout
    from benchmarks.questions import Comparison

LAYOUTS: Final = (NO_INDEX, KEYS, VALUES)
"""Of the tables that are planned; side files make no difference to a planner that does not look at them."""

_NAME: Final = "pypaimon-rust"
_MODULE: Final = "pypaimon_rust"
_RUNS: Final = 5
_METHODS: Final = {Operator.EQUAL: "equal", Operator.LESS_THAN: "lessThan", Operator.BETWEEN: "between"}


def suites(files: int) -> Iterator[Suite]:
    """Its plans of tables of one size."""
    for layout in LAYOUTS:
        yield Suite(
            f"{_NAME}, {layout.title}", partial(_plans, layout, files), partial(prepare, layout, files)
        )


def compared(layout: Layout, files: int) -> tuple[Question, ...]:
    """What it is asked about a table."""
    return tuple(question for question in questions(layout, files) if question.is_compared)


def plan_name(title: str, question: str) -> str:
    """What results call its plan of a table, for a question of that name."""
    return f"{_NAME}, {title}: {question}"


def _plans(layout: Layout, files: int, directory: Path) -> Iterator[Workload | Note]:
    if find_spec(_MODULE) is None:
        yield Note(f"{_NAME} is not installed (pip install 'paimon-index[bench]'): it is not compared")
        return
    # It is there only where benchmarks are run.
    from pypaimon_rust.datafusion import PaimonCatalog  # noqa: PLC0415 - see above

    table = PaimonCatalog({"warehouse": str(warehouse_of(directory, layout, files))}).get_table(IDENTIFIER)
    random = Random(files)

    def plan(question: Question) -> int:
        builder = table.new_read_builder().with_filter(_predicate(layout, question.comparisons(random)))
        rows: int = sum(split.row_count() for split in builder.new_scan().plan().splits())
        return rows // layout.rows

    for question in compared(layout, files):
        yield Workload(plan_name(layout.title, question.name), files, partial(plan, question), runs=_RUNS)


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

"""Other planners over the same tables with filters of the same form, in the same run."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any, Final

from benchmarks.events import (
    CAT,
    DAY,
    FILES_PER_DAY,
    FIRST_DAY,
    FIRST_PRIVATE_CATEGORY,
    ID,
    IDS,
    NUMBER_SPAN,
    Indexed,
    Layout,
)
from benchmarks.services import KEYS, NO_INDEX, VALUES, prepare, warehouse_of
from benchmarks.synthetic import IDENTIFIER
from benchmarks.workload import Note, Suite, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUST: Final = "pypaimon-rust"
_MODULE: Final = "pypaimon_rust"
_RUNS: Final = 5


def suites(files: int) -> Iterator[Suite]:
    """Plans of the native Rust planner."""
    for layout in (NO_INDEX, KEYS, VALUES):
        yield Suite(
            f"{RUST}, {layout.title}",
            partial(_rust, layout, files),
            partial(prepare, layout, files),
        )


def rust_name(layout: Layout) -> str:
    """What results call its plans."""
    return f"{RUST}, {layout.title}: {_FORMS[layout.indexed]}"


_FORMS: Final = {
    Indexed.NOTHING: "one day, one column",
    Indexed.KEYS: "id =",
    Indexed.VALUES: "cat =",
}
"""The question of :func:`benchmarks.services.questions` that is asked in a peer's own words."""


def form(layout: Layout) -> str:
    """The name of the question that peers are asked about a table."""
    return _FORMS[layout.indexed]


def _rust(layout: Layout, files: int, directory: Path) -> Iterator[Workload | Note]:
    if find_spec(_MODULE) is None:
        yield Note(f"{RUST} is not installed (pip install 'paimon-index[bench]'): it is not compared")
        return
    # Not installed with the product, and so not there to be imported before.
    from pypaimon_rust.datafusion import PaimonCatalog  # noqa: PLC0415 - see above

    catalog = PaimonCatalog({"warehouse": str(warehouse_of(directory, layout, files))})
    table = catalog.get_table(IDENTIFIER)
    random = Random(files)

    def plan() -> int:
        builder = table.new_read_builder().with_filter(_predicate(layout, files, random))
        rows: int = sum(split.row_count() for split in builder.new_scan().plan().splits())
        return rows // layout.rows

    yield Workload(rust_name(layout), files, plan, runs=_RUNS)


def _predicate(layout: Layout, files: int, random: Random) -> dict[str, Any]:
    columns = layout.columns

    def test(method: str, name: str, literal: object) -> dict[str, Any]:
        index = next(at for at, column in enumerate(columns) if column.name == name)
        return {"method": method, "index": index, "field": name, "literals": [literal]}

    match layout.indexed:
        case Indexed.NOTHING:
            day = FIRST_DAY + timedelta(days=random.randrange(files // FILES_PER_DAY))
            below = (FILES_PER_DAY // 10 - 1) * NUMBER_SPAN + random.randrange(1, NUMBER_SPAN)
            children = [test("equal", DAY.name, day), test("lessThan", "c0", below)]
            return {"method": "and", "children": children}
        case Indexed.KEYS:
            return test("equal", ID.name, random.randrange(IDS))
        case Indexed.VALUES:
            return test("equal", CAT.name, FIRST_PRIVATE_CATEGORY + random.randrange(layout.bodies))

"""Writing large answers: a plan that is made already, in each of its forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from app.api.answers.encoding import encode_plan
from app.api.answers.paging import Window
from app.api.answers.plan_batches import plan_batches
from app.api.answers.plan_rows import plan_lines
from app.api.answers.selections import SelectionEncoding
from app.api.http.strict_json import write_json
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector
from benchmarks.services import EVENTS, NO_INDEX, open_service, prepare, warehouse_of
from benchmarks.workload import Suite, Target, Workload

_FILES: Final = 100_000
_PAGE_BYTES: Final = 1_000_000


def suites() -> Iterator[Suite]:
    """All files of a table are kept."""
    yield Suite("answers", _workloads, partial(prepare, NO_INDEX, _FILES))


def _workloads(directory: Path) -> Iterator[Workload]:
    form = SelectionEncoding(SelectionForm.BITMAP, 1_000_000)
    with closing(open_service(warehouse_of(directory, NO_INDEX, _FILES))) as service:
        version = service.resolve(EVENTS, SnapshotSelector())
        plan = service.plan(version, PlanRequest())
        fields = version.schema.partition_fields

        def page(offset: int) -> int:
            window = Window(offset, _FILES, _PAGE_BYTES)
            return len(write_json(encode_plan(plan, window, form, str, explain=False)))

        def arrow() -> int:
            return sum(map(len, plan_batches(plan, fields, form, explain=False)))

        def lines() -> int:
            return sum(map(len, plan_lines(plan, form, explain=False)))

        yield Workload("plan written as Arrow", _FILES, _nothing_kept(arrow), target=Target(100))
        yield Workload("plan written as NDJSON", _FILES, _nothing_kept(lines), target=Target(500))
        for name, offset in (("first", 0), ("last", _FILES - 5_000)):
            written = _nothing_kept(partial(page, offset))
            yield Workload(f"{name} page of 1 MB written as JSON", _FILES, written, target=Target(15))


def _nothing_kept(write: Callable[[], int]) -> Callable[[], None]:
    """Do not return the size, which would be taken for a number of files."""

    def run() -> None:
        write()

    return run

"""Loads that no caller waits for: a bounded number of them for each warehouse, and what they leave."""

import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from app.file_index.index_kinds import BLOOM_FILTER
from app.planning.plans import BackgroundLoads
from app.planning.request.requests import PlanRequest
from app.types import DataField, parse_type
from app.work.ledger import LEDGER
from tests.tables import MadeTable, entry, file_of, no_statistics, open_service

PATIENCE_SECONDS = 20


def test_plans_that_wait_to_be_finished_are_bounded() -> None:
    loads = BackgroundLoads()
    released, other = threading.Event(), threading.Event()
    begun: list[int] = []
    loads.begin("hung", "first", partial(released.wait, PATIENCE_SECONDS))
    for number in range(1_000):
        loads.begin("hung", number, partial(begun.append, number))
    loads.begin("other", "first", other.set)

    assert other.wait(PATIENCE_SECONDS)
    ended = threading.Event()
    released.set()
    while not ended.wait(0.001):
        # Refused for as long as there are too many.
        loads.begin("hung", "last", ended.set)
    loads.close()
    assert 0 < len(begun) < 100


def test_nothing_begins_when_all_is_over() -> None:
    loads = BackgroundLoads()
    loads.close()
    begun = threading.Event()
    loads.begin("any", "first", begun.set)

    assert not begun.wait(0.05)


def test_a_plan_that_was_finished_is_the_caches_to_count(tmp_path: Path) -> None:
    number = DataField(0, "number", parse_type("INT"))
    made = MadeTable.make(tmp_path, [number])
    others = [entry(file_name=f"data-{at}", **no_statistics()) for at in range(4_300)]
    made.commit([made.beside(file_of("indexed", {number: [1]}, BLOOM_FILTER, bounded=False)), *others])
    until = time.monotonic() + PATIENCE_SECONDS

    with closing(open_service(tmp_path)) as service:
        is_finished = False
        while not (is_finished and not LEDGER.claimed["plans"]) and time.monotonic() < until:
            is_finished = service.plan(made.ref, PlanRequest(filter="number = 2"), 0).summary.complete

        assert is_finished
        assert LEDGER.claimed["plans"] == 0


def test_a_filter_that_was_changed_before_its_plan_was_finished_is_not_remembered(tmp_path: Path) -> None:
    number = DataField(0, "number", parse_type("INT"))
    made = MadeTable.make(tmp_path, [number])
    made.commit([made.beside(file_of("indexed", {number: [1]}, BLOOM_FILTER, bounded=False))])
    released, finished = threading.Event(), threading.Event()
    written = is_one()

    with closing(open_service(tmp_path)) as service:
        loads = service._plans._loads  # noqa: SLF001 - it is held up for the time of the test
        loads.begin(made.ref.warehouse, "first", partial(released.wait, PATIENCE_SECONDS))
        assert not service.plan(made.ref, PlanRequest(filter=written, budget_ms=0)).summary.complete
        written["literals"][0] = 2
        loads.begin(made.ref.warehouse, "last", finished.set)
        released.set()
        assert finished.wait(PATIENCE_SECONDS)

        assert service.plan(made.ref, PlanRequest(filter=is_one())).summary.files_kept == 1


def is_one() -> dict[str, Any]:
    field = {"name": "FIELD_REF", "fieldRef": {"name": "number", "type": "INT"}}
    return {"kind": "LEAF", "transform": field, "function": "EQUAL", "literals": [1]}

"""Tables in an object store: an S3 server on the loopback interface, whose answers all take 20 ms longer.

The service runs in this process. Calls are counted where they pass.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Final
from unittest.mock import patch

import httpx

from app.opening import create_service
from app.planning.request.requests import (
    DeletionsRequest,
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
)
from app.planning.service import IndexService
from app.settings import Settings
from app.work.memory import prepare_process
from benchmarks.events import Layout
from benchmarks.questions import one_day, sql
from benchmarks.runner import percentile
from benchmarks.services import EVENTS, KEYS, KEYS_BESIDE, NO_INDEX, WAREHOUSE
from benchmarks.soak.faults import BUCKET, COUNTS, Storage, serve
from benchmarks.synthetic import write_table
from benchmarks.workload import Figure, Suite, Target, Unit

DELAY_SECONDS: Final = 0.02
_FILES: Final = 10_000
_SIDE_FILES: Final = 3_000
"""Fewer, since the server takes so long to get them; the target is its share of 3 s for 10,000."""
_BUDGET_MS: Final = 500
_FILES_OF_MANIFEST: Final = 100
_WARM_RUNS: Final = 20
_COLD_RUNS: Final = 3
_WARM: Final = Target(30)
_COLD: Final = (
    ("no index", NO_INDEX, _FILES, Target(400)),
    ("embedded bloom filters", KEYS, _FILES, Target(800)),
    ("bloom filters in side files", KEYS_BESIDE, _SIDE_FILES, Target(900)),
)


def suites() -> Iterator[Suite]:
    """Warm requests, and first plans."""
    yield Suite("object store", _figures)


def _figures(directory: Path) -> Iterator[Figure]:
    # As the server does.
    prepare_process()
    with serve(delay_seconds=DELAY_SECONDS, remembers=True) as storage:
        for name, layout, count, target in _COLD:
            warehouse = directory / f"store-{name.replace(' ', '-')}"
            if not warehouse.exists():
                write_table(warehouse, layout, count, count // _FILES_OF_MANIFEST)
            files = [path for path in warehouse.rglob("*") if path.is_file()]
            storage.put({f"{name}/{path.relative_to(warehouse)}": path.read_bytes() for path in files})
            if layout is NO_INDEX:
                yield from _warm_figures(storage, name)
            yield from _cold_figures(storage, name, layout, count, target)
            if layout is KEYS_BESIDE:
                yield _budget_figure(storage, name, count)


def _warm_figures(storage: Storage, name: str) -> Iterator[Figure]:
    question = PlanRequest(filter="id = 5")
    asked: dict[str, Callable[[IndexService], object]] = {
        "plan": lambda service: service.plan(EVENTS, question),
        "plan of a snapshot by its number": lambda service: service.plan(
            EVENTS, PlanRequest(filter="id = 5", snapshot_id=1)
        ),
        "deletions": lambda service: service.deletions(
            EVENTS, DeletionsRequest(encoding=SelectionForm.COUNT)
        ),
        "resolving, which is all of a 304": lambda service: service.resolve(EVENTS, SnapshotSelector()),
        "plan with max_staleness_ms": lambda service: service.plan(
            EVENTS, PlanRequest(filter="id = 5", max_staleness_ms=3_600_000)
        ),
    }
    with _service(storage, name) as service:
        for what, ask in asked.items():
            ask(service)
            before, took = _calls(storage), []
            for _ in range(_WARM_RUNS):
                started = time.perf_counter()
                ask(service)
                took.append(time.perf_counter() - started)
            calls = (_calls(storage) - before) / _WARM_RUNS
            yield _figure(f"S3, warm: {what}; {calls:.0f} calls", _FILES, took, _WARM)


def _cold_figures(
    storage: Storage, name: str, layout: Layout, count: int, target: Target
) -> Iterator[Figure]:
    written = sql(one_day(Random(1), _FILES)) if layout is NO_INDEX else "id = 5"
    took, calls = [], 0
    for run in range(_COLD_RUNS + 1):
        before = _calls(storage)
        with _service(storage, name) as service:
            # Making a client of the store takes half a second, once for a process.
            service.tables.databases(WAREHOUSE)
            started = time.perf_counter()
            service.plan(EVENTS, PlanRequest(filter=written))
            # The proxy has asked the server for everything only after the first run.
            if run:
                took.append(time.perf_counter() - started)
        calls = _calls(storage) - before
    yield _figure(f"S3, first plan: {name}; {calls} calls", count, took, target)


def _budget_figure(storage: Storage, name: str, count: int) -> Figure:
    """Plans of a service that has read nothing, asked again until one is complete."""
    request, took, is_complete = PlanRequest(filter="id = 5", budget_ms=_BUDGET_MS), [], False
    with _service(storage, name) as service:
        service.tables.databases(WAREHOUSE)
        while not is_complete:
            started = time.perf_counter()
            is_complete = service.plan(EVENTS, request).summary.complete
            took.append(time.perf_counter() - started)
    what = f"S3, plans with budget_ms={_BUDGET_MS} until one is complete: {name}"
    return _figure(what, count, took, Target(600))


@contextmanager
def _service(storage: Storage, name: str) -> Iterator[IndexService]:
    environment = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": storage.endpoint,
        "PAIMON_INDEX_DEADLINE_SECONDS": "600",
    }
    with patch.dict(os.environ, environment):
        settings = Settings.load(warehouses={WAREHOUSE: f"s3://{BUCKET}/{name}"})
        with closing(create_service(settings)) as service:
            yield service


def _calls(storage: Storage) -> int:
    return int(httpx.get(storage.endpoint + COUNTS).json().get("requests", 0))


def _figure(name: str, size: int, took: list[float], target: Target) -> Figure:
    slowest = percentile(sorted(took), 0.99) * 1e3
    return Figure(name, size, Unit.MILLISECONDS, median(took) * 1e3, slowest, runs=len(took), target=target)

"""First plans of new processes on an object store, alone and with what others have decoded in a shared cache.

They run only where ``--only`` names them. A call takes as long as in :mod:`benchmarks.stores`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import httpx

from app.opening import create_service
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.service import IndexService
from app.settings import Settings
from app.work.memory import prepare_process
from benchmarks.events import Layout
from benchmarks.plans import FIRST
from benchmarks.questions import one_day, sql
from benchmarks.runner import percentile
from benchmarks.served_directory import ALL, BUCKET, COUNTS, Trouble, serve
from benchmarks.services import (
    EVENTS,
    KEYS,
    KEYS_BESIDE,
    NO_INDEX,
    WAREHOUSE,
    open_service,
    prepare,
    warehouse_of,
)
from benchmarks.stores import DELAY_SECONDS
from benchmarks.synthetic import write_table
from benchmarks.workload import Figure, Suite, Target, Unit

_RUNS: Final = 3
_PODS: Final = 10
_TABLE: Final = "table"
_SHARED: Final = "shared"
_KEY: Final = "no secret, since nothing is"


@dataclass(frozen=True, slots=True)
class _Question:
    """A filter of a table, and in how many milliseconds a new process should have planned it."""

    title: str
    layout: Layout
    files: int
    manifests: int
    filter: str | None
    target: Target


_BESIDE: Final = _Question("bloom filters in side files", KEYS_BESIDE, 10_000, 100, "id = 5", Target(500))
_QUESTIONS: Final = (
    _BESIDE,
    _Question("embedded bloom filters", KEYS, 100_000, 10, "id = 5", Target(800)),
    _Question(
        "one day and one column", NO_INDEX, 1_000_000, 100, sql(one_day(Random(1), 1_000_000)), Target(500)
    ),
)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a first plan took: seconds, seconds of processors, and calls of the table's files and of all."""

    seconds: float
    processors: float
    of_table: int
    calls: int


def suites() -> Iterator[Suite]:
    """One of each question, and one of stores that fail."""
    for question in _QUESTIONS:
        yield Suite(f"new pod, {question.title}", partial(_alone, question), partial(_write, question))
    yield Suite("new pod, shared cache in trouble", _in_trouble, partial(_write, _BESIDE))


def _write(question: _Question, directory: Path) -> None:
    prepare(question.layout, FIRST, directory)
    warehouse = _bucket(question, directory) / _TABLE
    if not warehouse.exists():
        write_table(warehouse, question.layout, question.files, question.manifests)


def _alone(question: _Question, directory: Path) -> Iterator[Figure]:
    taken: dict[str, list[_Taken]] = {"nothing shared": [], "shared cache": []}
    with serve(_bucket(question, directory), DELAY_SECONDS) as endpoint:
        first = _in_new_process(question, directory, endpoint, _SHARED)
        for _ in range(_RUNS):
            for (_, runs), shared in zip(taken.items(), ("", _SHARED), strict=True):
                runs.append(_in_new_process(question, directory, endpoint, shared))
    for name, runs in taken.items():
        seconds, calls = sorted(each.seconds for each in runs), runs[-1].calls
        yield Figure(
            f"new pod, S3, {name}: {question.title}; {calls} calls",
            question.files,
            Unit.MILLISECONDS,
            median(seconds) * 1e3,
            percentile(seconds, 0.99) * 1e3,
            runs=_RUNS,
            target=question.target if name == "shared cache" else None,
        )
        yield Figure(
            f"new pod, S3, {name}, processor time: {question.title}",
            question.files,
            Unit.MILLISECONDS,
            median(each.processors for each in runs) * 1e3,
            runs=_RUNS,
        )
    yield Figure(
        f"new pod, S3, first to fill the shared cache, processor time: {question.title}; {first.calls} calls",
        question.files,
        Unit.MILLISECONDS,
        first.processors * 1e3,
        target=Target(1_500) if question is _BESIDE else None,
    )


def _in_trouble(directory: Path) -> Iterator[Figure]:
    """Yield what a shared cache costs that is of no use, beside none; and the one who fills it."""
    with serve(_bucket(_BESIDE, directory), DELAY_SECONDS) as endpoint:
        _in_new_process(_BESIDE, directory, endpoint, _SHARED)
        for place in ("empty", *Trouble):
            taken: dict[bool, list[_Taken]] = {False: [], True: []}
            for run in range(_RUNS):
                for is_shared, runs in taken.items():
                    # Each finds a place that nobody has filled.
                    shared = place if place is Trouble.DAMAGED else f"{place}/{run}"
                    runs.append(_in_new_process(_BESIDE, directory, endpoint, shared if is_shared else ""))
            for unit, value in (("time", _seconds), ("processor time", _processors)):
                alone, shared_too = (median(map(value, runs)) for runs in taken.values())
                yield Figure(
                    f"new pod, S3, shared cache is {place}: {unit} / without one",
                    _BESIDE.files,
                    Unit.TIMES,
                    shared_too / alone,
                    runs=_RUNS,
                    target=Target(1.1),
                )


def _seconds(taken: _Taken) -> float:
    return taken.seconds


def _processors(taken: _Taken) -> float:
    return taken.processors


def _in_new_process(question: _Question, directory: Path, endpoint: str, shared: str) -> _Taken:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(_begin, question, directory, endpoint, shared).result()
        return pool.submit(_first_plan, question, endpoint).result()


_services: Final[list[IndexService]] = []
"""That of this process, which has planned nothing of the table."""


def _begin(question: _Question, directory: Path, endpoint: str, shared: str) -> None:
    """Open the table; what is imported and set up once in a process is done."""
    prepare_process()
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }
    small = open_service(warehouse_of(directory, question.layout, FIRST))
    small.plan(EVENTS, PlanRequest(filter=question.filter, selection=SelectionForm.NONE))
    small.close()
    sharing = {"shared_cache": f"s3://{BUCKET}/{shared}", "shared_cache_key": _KEY} if shared else {}
    settings = Settings.load(
        warehouses={WAREHOUSE: f"s3://{BUCKET}/{_TABLE}"}, deadline_seconds=600, **sharing
    )
    service = create_service(settings)
    service.tables.databases(WAREHOUSE)
    while service.caches.is_opening:
        # Before, nobody asks a pod.
        time.sleep(0.01)
    _services.append(service)


def _first_plan(question: _Question, endpoint: str) -> _Taken:
    """Return the first plan of the table; what is written to the shared cache is written when it returns."""
    of_table, calls = _calls(endpoint, _TABLE), _calls(endpoint)
    started, processors = time.perf_counter(), time.process_time()
    _services[-1].plan(EVENTS, PlanRequest(filter=question.filter, selection=SelectionForm.NONE))
    seconds, processors = time.perf_counter() - started, time.process_time() - processors
    taken = _Taken(seconds, processors, _calls(endpoint, _TABLE) - of_table, seen := _calls(endpoint) - calls)
    while (now := _calls(endpoint) - calls) != seen:
        seen = now
        time.sleep(1)
    return taken


def _bucket(question: _Question, directory: Path) -> Path:
    return directory / f"new-pod-{question.title.replace(' ', '-')}"


def _calls(endpoint: str, below: str = ALL) -> int:
    """Return the calls that the store has had, of all or of what lies below a directory."""
    return int(httpx.get(endpoint + COUNTS).json().get(below, 0))

"""Memory: what decoded indexes take, and whether caches keep to their capacity."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from app.planning.request.limits import CacheBytes
from app.planning.service import IndexService
from app.work.memory import give_memory_back
from benchmarks.events import Layout
from benchmarks.index_bodies import write_bodies
from benchmarks.questions import questions
from benchmarks.runner import resident_bytes
from benchmarks.services import (
    KEYS,
    KEYS_BESIDE,
    NO_INDEX,
    VALUES,
    VALUES_BESIDE,
    ask,
    open_service,
    prepare,
    warehouse_of,
)
from benchmarks.workload import Figure, Note, Suite, Target, Unit

_RESIDENT: Final = Target(1.5)
_WITHIN_CAPACITY: Final = Target(1)
_CAPACITY: Final = CacheBytes(file_indexes=96 << 20, manifests=32 << 20, plans=0)
_SAMPLE_SECONDS: Final = 0.001


def suites(files: int) -> Iterator[Suite]:
    """Resident memory of each layout's indexes, and caches under more than they can hold."""
    for layout in (KEYS, KEYS_BESIDE, VALUES, VALUES_BESIDE):
        yield Suite(
            f"memory, {layout.title}",
            partial(_resident, layout, files),
            partial(_prepare, layout, files),
        )
    for layout in (KEYS, KEYS_BESIDE):
        yield Suite(
            f"cache capacity, {layout.title}",
            partial(_capacity, layout, files),
            partial(_prepare, layout, files),
        )


def _prepare(layout: Layout, files: int, directory: Path) -> None:
    prepare(NO_INDEX, files, directory)
    prepare(layout, files, directory)


def _resident(layout: Layout, files: int, directory: Path) -> Iterator[Figure | Note]:
    """Yield what the process grows by with the indexes, beyond its growth with the same table without any."""
    if not resident_bytes():
        yield Note("memory of decoded indexes: this system does not tell the resident size of a process")
        return
    bodies = [path.stat().st_size for path in write_bodies(directory / "indexes", layout, layout.bodies)]
    index_bytes = sum(bodies[number % len(bodies)] for number in range(files))
    with ExitStack() as opened:
        grown = []
        for each in (replace(NO_INDEX, numbers=layout.numbers), layout):
            gc.collect()
            give_memory_back()
            before = resident_bytes()
            service = opened.enter_context(closing(open_service(warehouse_of(directory, each, files))))
            _ask_everything(service, layout, files)
            gc.collect()
            give_memory_back()
            grown.append(resident_bytes() - before)
    without, with_indexes = grown
    yield Figure(
        f"resident memory / bytes of indexes, {layout.title}",
        files,
        Unit.TIMES,
        max(0, with_indexes - without) / index_bytes,
        peak_bytes=with_indexes,
        target=_RESIDENT,
    )


def _capacity(layout: Layout, files: int, directory: Path) -> Iterator[Figure]:
    """Yield the fullest that any cache was seen, of a service whose caches are too small for the table."""
    with closing(open_service(warehouse_of(directory, layout, files), _CAPACITY)) as service:
        with _watched(service) as fullest:
            _ask_everything(service, layout, files)
        yield Figure(
            f"kept and in flight / capacity of caches, {layout.title}",
            files,
            Unit.TIMES,
            max(fullest),
            runs=len(fullest),
            target=_WITHIN_CAPACITY,
        )


def _ask_everything(service: IndexService, layout: Layout, files: int) -> None:
    random = Random(files)
    for question in questions(layout, files):
        ask(service, question, random)


@contextmanager
def _watched(service: IndexService) -> Iterator[list[float]]:
    """Return samples of how full the fullest cache is, taken until the end of the block."""
    samples: list[float] = []
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_SECONDS):
            caches = service.caches.statistics().values()
            samples.append(
                max(
                    (each["bytes"] + each.get("in_flight", 0)) / each["capacity"]
                    for each in caches
                    if each["capacity"]
                )
            )

    watcher = threading.Thread(target=sample)
    watcher.start()
    try:
        yield samples
    finally:
        is_over.set()
        watcher.join()

"""Processes that start while the disk cache has what they need, and the memory that they share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.service import IndexService
from app.storage.disk.disk_tier import DiskTier
from app.work.memory import give_memory_back, prepare_process
from benchmarks.events import Layout
from benchmarks.plans import FIRST, LARGEST
from benchmarks.runner import in_process, measured, resident_bytes
from benchmarks.services import EVENTS, KEYS, NO_INDEX, VALUES_BESIDE, open_service, prepare, warehouse_of
from benchmarks.synthetic import write_table
from benchmarks.workload import Figure, Measured, Note, Suite, Target, Unit, Workload

HUGE: Final = 1_000_000
"""Files of the table that does not fit into memory decoded."""

_INDEX_FILES: Final = 20_000
_MANIFESTS: Final = 100
_DISK_BYTES: Final = 16 << 30
_COLUMN: Final = {NO_INDEX: "c0", KEYS: "id", VALUES_BESIDE: "cat"}
_FIRST_PLAN: Final[dict[tuple[Layout, int], Target | None]] = {
    (NO_INDEX, LARGEST): Target(50),
    (KEYS, LARGEST): Target(150),
    (VALUES_BESIDE, _INDEX_FILES): None,
    (NO_INDEX, HUGE): Target(300),
}
_WARM_PLAN: Final = Target(60)
_RESIDENT: Final = Target(400)
_WORKERS: Final = 4
_TOGETHER: Final = Target(1.3)
_RUNS: Final = 5


def suites(*, with_huge: bool) -> Iterator[Suite]:
    """First plans of processes; of a huge table as well, which takes minutes to prepare."""
    for (layout, files), target in _FIRST_PLAN.items():
        if files == HUGE and not with_huge:
            continue
        yield Suite(
            f"restart, {layout.title}, {files} files",
            partial(_items, layout, files, target),
            partial(_prepare, layout, files),
        )


def first_plan_name(layout: Layout) -> str:
    """Return what results call the first plan of a process that has a disk cache."""
    return f"first plan after a restart, {layout.title}"


def _prepare(layout: Layout, files: int, directory: Path) -> None:
    """Write the tables, and have a process fill the disk cache."""
    prepare(layout, FIRST, directory)
    warehouse = _warehouse(directory, layout, files)
    if not warehouse.exists():
        write_table(warehouse, layout, files, _MANIFESTS)
    for size in (FIRST, files):
        in_process(_plan, layout, size, directory, 0)


def _items(
    layout: Layout, files: int, target: Target | None, directory: Path
) -> Iterator[Workload | Figure | Note]:
    first = partial(in_process, partial(_first_plan, layout, files, directory))
    yield Workload(first_plan_name(layout), files, first, is_cold=True, runs=_RUNS, target=target)
    # Before this process maps the same files, which would make it one of those that share them.
    each, together = _kept_bytes(layout, files, directory)
    if each:
        yield Figure(
            f"memory of {_WORKERS} processes / of one, {layout.title}",
            files,
            Unit.TIMES,
            together / each,
            peak_bytes=together,
            target=_TOGETHER,
        )
    else:
        yield Note("memory of processes that share mapped files: this system does not tell")
    if files == HUGE:
        with closing(_open(directory, layout, files)) as service:
            literals = count()
            yield Workload(
                "warm plan of mapped manifests",
                files,
                lambda: _ask(service, layout, next(literals)),
                target=_WARM_PLAN,
            )
            yield Figure(
                "resident memory of a process / files",
                files,
                Unit.BYTES_EACH,
                resident_bytes() / files,
                target=_RESIDENT,
            )


def _kept_bytes(layout: Layout, files: int, directory: Path) -> tuple[int, int]:
    """Return what each of some processes that planned the table keeps of it, and what all keep together."""
    with ExitStack() as opened:
        pools = [
            opened.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            for _ in range(_WORKERS)
        ]
        taken = []
        for size in (FIRST, files):
            for pool in pools:
                pool.submit(_keep, layout, size, directory).result()
            told = [pool.submit(_own_bytes).result() for pool in pools]
            taken.append((sum(each for each, _ in told) // _WORKERS, sum(share for _, share in told)))
    (each_before, together_before), (each, together) = taken
    return each - each_before, together - together_before


_kept: Final[list[object]] = []


def _keep(layout: Layout, files: int, directory: Path) -> None:
    """Have this process plan a table as a worker of the server does, and keep what it has."""
    prepare_process()
    service = _open(directory, layout, files)
    for number in range(2):
        _ask(service, layout, number)
    _kept.append(service)


def _own_bytes() -> tuple[int, int]:
    """Return this process's memory, with all or its part of shared memory. 0 means unknown."""
    # The server returns what was freed, too, within seconds (app/work/ledger.py).
    give_memory_back()
    try:
        told = Path(f"/proc/{os.getpid()}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in told if line.endswith("kB")}
    return found["Rss"], found["Pss"]


def _first_plan(layout: Layout, files: int, directory: Path) -> Measured:
    """Return the first plan of a table; what is imported and set up once in a process is no part of it."""
    prepare_process()
    _plan(layout, FIRST, directory, files)
    with closing(_open(directory, layout, files)) as service:
        # Mapped files need next to no memory of the process's own.
        return measured(partial(_ask, service, layout, os.getpid()), FIRST)


def _plan(layout: Layout, files: int, directory: Path, literal: int) -> None:
    with closing(_open(directory, layout, files)) as service:
        _ask(service, layout, literal)


def _open(directory: Path, layout: Layout, files: int) -> IndexService:
    disk = DiskTier(directory / "disk-cache", _DISK_BYTES)
    return open_service(_warehouse(directory, layout, files), CacheBytes(plans=0), disk=disk)


def _warehouse(directory: Path, layout: Layout, files: int) -> Path:
    if files == FIRST:
        return warehouse_of(directory, layout, files)
    where = "embedded" if layout.is_embedded else "beside"
    return directory / f"restart-{layout.indexed.name.lower()}-{where}-{files}"


def _ask(service: IndexService, layout: Layout, literal: int) -> int:
    """Plan every file by one column; return how many are kept."""
    request = PlanRequest(filter=f"{_COLUMN[layout]} = {literal}", selection=SelectionForm.NONE)
    return service.plan(EVENTS, request).summary.files_kept

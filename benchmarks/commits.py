"""What a commit costs that adds one manifest to a table that was planned before.

The manifests that were there before are deleted once they were planned, so a plan of a later snapshot proves
that it decodes no more than the one that is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.service import IndexService
from benchmarks.questions import one_day, sql
from benchmarks.services import EVENTS, NO_INDEX, open_service
from benchmarks.synthetic import table_directory, write_manifest, write_snapshot, write_table
from benchmarks.workload import Suite, Workload

FILES_PER_MANIFEST: Final = 100
MANIFESTS: Final = (100, 1_000)
_COMMITS: Final = 12
_PROFILED: Final = 20
_ADDED: Final = range(2, 2 + _COMMITS + _PROFILED)
"""Snapshots that add a manifest each; a plan is the first of its snapshot only once."""


def suites() -> Iterator[Suite]:
    """One added manifest, to few and to many."""
    for manifests in MANIFESTS:
        yield Suite(
            f"one added manifest, {manifests} manifests",
            partial(_workloads, manifests),
            partial(_prepare, manifests),
        )


def added_name(manifests: int) -> str:
    """Return what results call the first plan after a commit."""
    return f"plan of a new snapshot that adds 1 manifest to {manifests:,}"


def warm_name(manifests: int) -> str:
    """Return what results call a plan of a snapshot that was planned before."""
    return f"plan of the same snapshot of {manifests:,} manifests again"


def _warehouse(directory: Path, manifests: int) -> Path:
    return directory / f"commits-{manifests}"


def _prepare(manifests: int, directory: Path) -> None:
    """Write a table of which every further snapshot adds a manifest to the one before."""
    warehouse = _warehouse(directory, manifests)
    files = manifests * FILES_PER_MANIFEST
    there = write_table(warehouse, NO_INDEX, files, manifests)
    for number in _ADDED:
        start = files + number * FILES_PER_MANIFEST
        added = write_manifest(warehouse, NO_INDEX, start, start + FILES_PER_MANIFEST)
        rows = (start + FILES_PER_MANIFEST) * NO_INDEX.rows
        write_snapshot(table_directory(warehouse), number, there, [added], rows=rows)
        there.append(added)


def _workloads(manifests: int, directory: Path) -> Iterator[Workload]:
    warehouse = _warehouse(directory, manifests)
    files = manifests * FILES_PER_MANIFEST
    random = Random(files)
    with closing(open_service(warehouse)) as service:
        plan = partial(_plan, service, random, files)
        service.plan(EVENTS, PlanRequest(filter="c0 = 0", snapshot_id=1, selection=SelectionForm.NONE))
        for number in range(manifests):
            (table_directory(warehouse) / "manifest" / f"manifest-{number * FILES_PER_MANIFEST}").unlink()
        yield Workload(warm_name(manifests), files, partial(plan, 1))
        added = partial(_plan_next, plan, iter(_ADDED))
        yield Workload(added_name(manifests), files, added, is_cold=True, runs=_COMMITS, profiled=added)


def _plan_next(plan: Callable[[int], int], snapshots: Iterator[int]) -> int:
    return plan(next(snapshots))


def _plan(service: IndexService, random: Random, files: int, snapshot: int) -> int:
    request = PlanRequest(
        snapshot_id=snapshot,
        filter=sql(one_day(random, files)),
        selection=SelectionForm.NONE,
    )
    return service.plan(EVENTS, request).summary.files_kept

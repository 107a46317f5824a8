"""A table of many million files: how its plans grow, and what a process keeps of it.

The table is partitioned by day, 5,000 files each, and 10,000 files lie in one manifest. ``cat`` has narrow
statistics: a value lies between the bounds of one file in 50,000. A process has the caches that the service
gives one with 8 GiB of memory, and shares a disk cache with those before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from app.api.answers.plan_batches import plan_batches
from app.api.answers.selections import SelectionEncoding
from app.memory_budget import MemoryBudget
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector
from app.planning.service import IndexService
from app.settings import Settings
from app.storage.disk.disk_tier import DiskTier
from app.work.memory import MemoryLimit, prepare_process
from benchmarks.events import CAT, DAY, FIRST_DAY, NUMBERS, Indexed, Layout
from benchmarks.questions import Comparison, Operator, sql
from benchmarks.runner import in_process, measured, resident_bytes
from benchmarks.services import EVENTS, open_service, prepare, read_manifests, warehouse_of
from benchmarks.synthetic import table_directory, write_manifest, write_snapshot, write_table
from benchmarks.workload import Figure, Measured, Suite, Target, Unit, Workload

FILES: Final = 20_000_000

_FILES_PER_MANIFEST: Final = 10_000
_FILES_PER_DAY: Final = 5_000
_LAYOUT: Final = Layout(
    Indexed.NOTHING, numbers=1, files_per_day=_FILES_PER_DAY, number_span=20, has_narrow_cat=True
)
_FIRST: Final = replace(_LAYOUT, files_per_day=10)
_FIRST_FILES: Final = 100
_MEMORY: Final = MemoryLimit(8 << 30, "the benchmark")
_DISK_BYTES: Final = 64 << 30
_DISK_BYTES_OF_FILE: Final = 700
"""With its part of the manifests, once decoded and once as stored."""
_TOUCHED: Final = 1 << 16
"""A process gets so much memory of the machine before a run is timed as it does for so many files."""
_RUNS: Final = 3
_WARM_RUNS: Final = 20
_COMMITS: Final = range(2, 9)
"""Snapshots that add a manifest each."""
_FILES_OF_COMMIT: Final = 100
_KEPT_SHARE: Final = 20
"""One file in so many is kept by the plan that keeps many."""
_NO_ROWS: Final = SelectionEncoding(SelectionForm.NONE, 0)

_AFTER_RESTART: Final = Target(2_000)
_WARM_COLUMN: Final = Target(600)
_WARM_PARTITION: Final = Target(50)
_CHANGES: Final = Target(5)

_COLUMN: Final = "one column"
_PARTITION: Final = "one day and one column"


def suites(files: int) -> Iterator[Suite]:
    """Plans of a table of so many files, which takes minutes to write and to decode."""
    yield Suite(f"scale, {files} files", partial(_items, files), partial(_prepare, files))


def warehouse(directory: Path, files: int) -> Path:
    """Where the table lies."""
    return directory / f"scale-{files}"


def _prepare(files: int, directory: Path) -> None:
    place = warehouse(directory, files)
    if shutil.disk_usage(directory).free < files * _DISK_BYTES_OF_FILE:
        raise OSError(f"{directory} needs {files * _DISK_BYTES_OF_FILE >> 30} GiB")
    prepare(_FIRST, _FIRST_FILES, directory)
    there = write_table(place, _LAYOUT, files, files // _FILES_PER_MANIFEST)
    for number in _COMMITS:
        start = files + (number - _COMMITS.start) * _FILES_OF_COMMIT
        added = write_manifest(place, _LAYOUT, start, start + _FILES_OF_COMMIT)
        rows = (start + _FILES_OF_COMMIT) * _LAYOUT.rows
        write_snapshot(table_directory(place), number, there, [added], rows=rows)
        there.append(added)


def _items(files: int, directory: Path) -> Iterator[Workload | Figure]:
    yield _first(files, directory, "cold plan", _PARTITION, with_disk=False)
    # Once: afterwards the disk has everything.
    yield _first(files, directory, "cold plan that fills the disk cache", _COLUMN, with_disk=True, runs=1)
    for question in (_PARTITION, _COLUMN):
        name = "first plan after a restart"
        yield _first(files, directory, name, question, with_disk=True, target=_AFTER_RESTART)
    random = Random(files)
    with closing(_open(files, directory, with_disk=True)) as service:
        before = resident_bytes()
        for question, target in ((_COLUMN, _WARM_COLUMN), (_PARTITION, _WARM_PARTITION)):
            run = partial(_kept, service, files, question, random)
            yield Workload(f"warm plan, {question}", files, run, target=target, runs=_WARM_RUNS)
        each = (resident_bytes() - before) / files
        yield Figure("resident memory of warm plans, mapped pages included", files, Unit.BYTES_EACH, each)
        yield from _many_kept(service, files)
        snapshots = iter(_COMMITS)
        for name, question, runs in (
            ("first commit that a process sees", _COLUMN, 1),
            ("plan after a commit of one manifest", _COLUMN, 3),
            ("plan after a commit of one manifest", _PARTITION, 3),
        ):
            run = partial(_next, service, files, question, random, snapshots)
            yield Workload(f"{name}, {question}", files, run, is_cold=True, runs=runs)
        run = partial(_changed, service)
        yield Workload("changes of one commit", files, run, target=_CHANGES, runs=_WARM_RUNS)


def _first(
    files: int,
    directory: Path,
    name: str,
    question: str,
    *,
    with_disk: bool,
    target: Target | None = None,
    runs: int = _RUNS,
) -> Workload:
    """Return a first plan of the table; ``with_disk`` by a process that has the disk cache."""
    run = partial(in_process, partial(_first_plan, files, directory, question, with_disk=with_disk))
    return Workload(f"{name}, {question}", files, run, is_cold=True, runs=runs, target=target)


def _first_plan(files: int, directory: Path, question: str, *, with_disk: bool) -> Measured:
    prepare_process()
    random = Random()
    with closing(open_service(warehouse_of(directory, _FIRST, _FIRST_FILES))) as service:
        _kept(service, _FIRST_FILES, question, random)
    if not with_disk:
        read_manifests(warehouse(directory, files))
    with closing(_open(files, directory, with_disk=with_disk)) as service:
        return measured(partial(_kept, service, files, question, random), _TOUCHED)


def _open(files: int, directory: Path, *, with_disk: bool) -> IndexService:
    caches = replace(MemoryBudget.of(Settings(), _MEMORY).caches, plans=0)
    disk = DiskTier(directory / "scale-disk-cache", _DISK_BYTES) if with_disk else None
    return open_service(warehouse(directory, files), caches, disk=disk)


def _many_kept(service: IndexService, files: int) -> Iterator[Workload]:
    """Yield a plan of whole days, and what is written of it."""
    version = service.resolve(EVENTS, SnapshotSelector(snapshot_id=1))
    last = FIRST_DAY + timedelta(days=max(0, files // _KEPT_SHARE // _FILES_PER_DAY - 1))
    days = Comparison(DAY.name, Operator.BETWEEN, (FIRST_DAY, last))
    request = PlanRequest(filter=sql((days,)), selection=SelectionForm.NONE)
    plan = service.plan(version, request)
    many = plan.summary.files_kept

    def ask() -> int:
        return service.plan(version, request).summary.files_kept

    def write() -> None:
        for _ in plan_batches(plan, version.schema.partition_fields, _NO_ROWS, explain=False):
            pass

    yield Workload(f"warm plan that keeps {many:,} files", files, ask, runs=_RUNS)
    yield Workload("that plan written as Arrow", many, write, runs=_RUNS)


def _next(service: IndexService, files: int, question: str, random: Random, snapshots: Iterator[int]) -> int:
    return _kept(service, files, question, random, next(snapshots))


def _changed(service: IndexService) -> int:
    """Ask what the last commit has changed; return how many files came."""
    earlier, later = _COMMITS[-2:]
    before, after = (service.resolve(EVENTS, SnapshotSelector(number)) for number in (earlier, later))
    request = PlanRequest(selection=SelectionForm.NONE)
    return len(service.changes(before, after, request).added.files)


def _kept(service: IndexService, files: int, question: str, random: Random, snapshot: int = 1) -> int:
    """Plan the table with new literals; return how many files are kept."""
    asked: tuple[Comparison, ...] = (Comparison(CAT.name, Operator.EQUAL, (random.randrange(NUMBERS),)),)
    if question == _PARTITION:
        day = FIRST_DAY + timedelta(days=random.randrange(max(1, files // _FILES_PER_DAY)))
        below = Comparison(CAT.name, Operator.LESS_THAN, (random.randrange(1, NUMBERS // 50),))
        asked = (Comparison(DAY.name, Operator.EQUAL, (day,)), below)
    request = PlanRequest(filter=sql(asked), selection=SelectionForm.NONE, snapshot_id=snapshot)
    return service.plan(EVENTS, request).summary.files_kept

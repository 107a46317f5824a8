"""Tables of each layout, and services over them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

from app.planning.plan.answers import Plan
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import PlanRequest, TableRef
from app.planning.service import IndexService
from app.storage import Warehouse
from app.storage.disk.disk_tier import DiskTier
from benchmarks.events import DATABASE, DAY, TABLE, Indexed, Layout
from benchmarks.questions import Question, sql
from benchmarks.synthetic import write_table

WAREHOUSE: Final = "main"
EVENTS: Final = TableRef(WAREHOUSE, DATABASE, TABLE)

NO_INDEX: Final = Layout(Indexed.NOTHING)
KEYS: Final = Layout(Indexed.KEYS)
KEYS_BESIDE: Final = Layout(Indexed.KEYS, is_embedded=False)
VALUES: Final = Layout(Indexed.VALUES, bodies=1_000)
VALUES_BESIDE: Final = Layout(Indexed.VALUES, is_embedded=False, bodies=1_000)
LAYOUTS: Final = (NO_INDEX, KEYS, KEYS_BESIDE, VALUES, VALUES_BESIDE)

_READ_AT_ONCE: Final = 1 << 20

_ROOM: Final = CacheBytes(manifests=8 << 30, file_indexes=8 << 30, plans=0)
"""For everything that is decoded; no plan is remembered, so that each is made."""


def warehouse_of(directory: Path, layout: Layout, files: int) -> Path:
    """Where :func:`prepare` puts the table of one layout and size."""
    where = "embedded" if layout.is_embedded else "beside"
    shape = f"{layout.indexed.name.lower()}-{where}-{layout.numbers}-{layout.distinct}-{layout.bodies}"
    return directory / f"{shape}-{files}"


def prepare(layout: Layout, files: int, directory: Path) -> None:
    """Write the table, unless it is there."""
    warehouse = warehouse_of(directory, layout, files)
    if not warehouse.exists():
        write_table(warehouse, layout, files)


def read_manifests(warehouse: Path) -> None:
    """Have the operating system keep the manifests in memory, so that nobody waits for the disk."""
    buffer = bytearray(_READ_AT_ONCE)
    for path in warehouse.glob("*/*/manifest/*"):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def open_service(
    warehouse: Path, cache_bytes: CacheBytes = _ROOM, *, disk: DiskTier | None = None
) -> IndexService:
    """Return a service over one warehouse that has nothing in its caches, but perhaps on a disk."""
    opened = Warehouse(WAREHOUSE, str(warehouse), disk=disk)
    return IndexService({WAREHOUSE: opened}, cache_bytes=cache_bytes, limits=Limits(), disk=disk)


def warm_up(service: IndexService, question: Question, random: Random) -> None:
    """Have the service read what a question may need in any partition."""
    everywhere = (each for each in question.comparisons(random) if each.column != DAY.name)
    service.plan(EVENTS, PlanRequest(filter=sql(tuple(everywhere)), selection=question.selection))


def ask(service: IndexService, question: Question, random: Random) -> Plan:
    """Return the service's plan for a question, with literals that were not asked for before."""
    request = PlanRequest(filter=sql(question.comparisons(random)), selection=question.selection)
    return service.plan(EVENTS, request)

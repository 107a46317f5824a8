"""Services that are restarted over one disk cache: what never changes need not be there any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.errors import FileMissingError
from app.planning.plan.file_plan import FilePlan
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.service import IndexService
from app.storage import DiskTier
from tests.golden_tables import DATABASE, GoldenWarehouse
from tests.planning.copied_tables import equals, golden_ref, open_service
from tests.storage.mapped_damage import change_in_place, invert

CAPACITY = 1 << 30
_IN_EVERY_HEADER = 24
REQUESTS = {
    "append_dv32": PlanRequest(selection=SelectionForm.BITMAP),
    "dyn_bucket": PlanRequest(filter=equals({"uid": 999_999_967})),
}
KEPT = (b"/manifest/manifest-list-", b"/manifest/index-manifest-", b"/index/index-")


class Restarted:
    """A table of its own, and services that come one after the other."""

    def __init__(self, golden: GoldenWarehouse, table: str, directory: Path) -> None:
        self.cache = directory / "cache"
        self.warehouse = directory / "warehouse"
        self.table = self.warehouse / f"{DATABASE}.db" / table
        self.ref, self.request = golden_ref(table), REQUESTS[table]
        shutil.copytree(golden.table(table), self.table)

    @contextmanager
    def service(self) -> Iterator[IndexService]:
        service = open_service(self.warehouse, disk=DiskTier(self.cache, CAPACITY))
        yield service
        service.close()

    def plan(self, service: IndexService) -> tuple[FilePlan, ...]:
        return tuple(service.plan(self.ref, self.request).files)

    def entries(self) -> list[Path]:
        return [path for path in self.cache.rglob("*") if path.is_file()]

    def lose(self, *directories: str) -> None:
        for directory in directories:
            shutil.rmtree(self.table / directory)


@pytest.fixture(params=REQUESTS)
def restarted(golden: GoldenWarehouse, tmp_path: Path, request: pytest.FixtureRequest) -> Restarted:
    return Restarted(golden, request.param, tmp_path)


def test_a_restarted_service_plans_from_disk(restarted: Restarted) -> None:
    with restarted.service() as service:
        before = restarted.plan(service)
        written = service.cache_statistics()["disk"]
    assert all(any(part in entry.read_bytes() for entry in restarted.entries()) for part in KEPT)
    restarted.lose("manifest", "index")

    with restarted.service() as service:
        assert restarted.plan(service) == before
        found = service.cache_statistics()["disk"]

    assert (found["hits"], found["misses"], found["corrupt"]) == (written["misses"], 0, 0)
    assert found["entries"] == written["entries"] == len(restarted.entries())


def test_damaged_entries_are_read_again(restarted: Restarted) -> None:
    with restarted.service() as service:
        before = restarted.plan(service)
    at = _IN_EVERY_HEADER
    change_in_place(
        restarted.entries(), lambda content: content[:at] + invert(content[at : at + 1]) + content[at + 1 :]
    )

    with restarted.service() as service:
        assert restarted.plan(service) == before
        found = service.cache_statistics()["disk"]
    assert found["corrupt"] == found["misses"] == found["entries"] > 0

    restarted.lose("manifest", "index")
    with restarted.service() as service:
        assert restarted.plan(service) == before


def test_what_can_change_is_never_kept(restarted: Restarted) -> None:
    with restarted.service() as service:
        restarted.plan(service)
    kept = [entry.read_bytes() for entry in restarted.entries()]
    assert kept
    assert not [entry for entry in kept if b"/snapshot/" in entry or b"/schema/" in entry]

    restarted.lose("schema")
    with restarted.service() as service, pytest.raises(FileMissingError):
        restarted.plan(service)


def test_what_is_in_memory_only_is_lost_with_its_files(restarted: Restarted) -> None:
    with restarted.service() as service:
        restarted.plan(service)
    shutil.rmtree(restarted.cache)
    restarted.lose("manifest", "index")
    with restarted.service() as service, pytest.raises(FileMissingError):
        restarted.plan(service)

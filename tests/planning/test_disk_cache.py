"""Services that are restarted over one disk cache: what never changes need not be there any more."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from app.errors import FileMissingError
from app.file_index import container
from app.file_index.bloom_filter import bloom_filter
from app.planning.plan.file_plan import FilePlan
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector
from app.planning.service import IndexService
from app.storage.disk.disk_tier import DiskTier
from benchmarks.events import ID
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.key_columns import key_column
from tests.storage.disk.damaged_entries import invert, replace_entries
from tests.tables import MadeTable, entry, equals, golden_ref, names_of, no_statistics, open_service

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
        written = service.caches.statistics()["disk"]
    assert all(any(part in entry.read_bytes() for entry in restarted.entries()) for part in KEPT)
    restarted.lose("manifest", "index")

    with restarted.service() as service:
        assert restarted.plan(service) == before
        found = service.caches.statistics()["disk"]

    assert (found["hits"], found["misses"], found["corrupt"]) == (written["misses"], 0, 0)
    assert found["entries"] == written["entries"] == len(restarted.entries())


def test_damaged_entries_are_read_again(restarted: Restarted) -> None:
    with restarted.service() as service:
        before = restarted.plan(service)
    at = _IN_EVERY_HEADER
    replace_entries(
        restarted.cache, lambda content: content[:at] + invert(content[at : at + 1]) + content[at + 1 :]
    )

    with restarted.service() as service:
        assert restarted.plan(service) == before
        found = service.caches.statistics()["disk"]
    assert found["corrupt"] == found["misses"] == found["entries"] > 0

    restarted.lose("manifest", "index")
    with restarted.service() as service:
        assert restarted.plan(service) == before


def test_what_another_release_has_judged_is_judged_again(
    golden: GoldenWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Restarted(golden, "append_dv32", tmp_path).service() as service:
        version = service.resolve(golden_ref("append_dv32"), SnapshotSelector())
        file = version.manifest_files()[0]

        def judged(number: int) -> int:
            make = partial(np.full, 1, number)
            return int(version.table.metadata.derived_from_manifest(file, "a judgement", make)[0])

        assert (judged(1), judged(2)) == (1, 1)
        monkeypatch.setattr("app.table.metadata.__version__", "another release")
        assert judged(3) == 3


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


FILES = 20
WANTED = 7
FILTER = f"id = {WANTED}"
EXPECTED = [f"f{WANTED}"]


class Trial:
    """A table of files that hold one number each, and bloom filters of it in its manifest."""

    def __init__(self, directory: Path, items: int = 20) -> None:
        self.warehouse, self.cache = directory / "warehouse", directory / "cache"
        self.made = MadeTable.make(self.warehouse, [ID])
        filters = [
            bloom_filter.write(key_column([number], ID.type, ID.name), items) for number in range(FILES)
        ]
        self.bits = len(filters[0]) - 4
        self.indexes = [container.write({ID.name: [("bloom-filter", each)]}) for each in filters]
        files = [
            entry(file_name=f"f{number}", embedded_index=index, **no_statistics())
            for number, index in enumerate(self.indexes)
        ]
        self.made.commit(files)

    def service(self, disk: DiskTier | None = None) -> IndexService:
        disk = DiskTier(self.cache, CAPACITY) if disk is None else disk
        return open_service(self.warehouse, disk=disk, cache_bytes=CacheBytes(plans=0))

    def plan(self, service: IndexService) -> list[str]:
        return names_of(self.made.plan(service, FILTER).files)

    def without_indexes(self, content: bytes) -> bytes:
        """Make one where no bloom filter holds anything, so that each says that its file can be skipped."""
        for index in self.indexes:
            content = content.replace(index, index[: -self.bits] + bytes(self.bits))
        return content


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def corrupt(service: IndexService) -> int:
    return service.caches.statistics()["disk"]["corrupt"]


@pytest.mark.parametrize("items", [20, 200_000], ids=["small indexes", "large indexes"])
@pytest.mark.parametrize("damage", ["skips all", "inverted", "cut", "empty"])
def test_a_later_process_loses_no_file(tmp_path: Path, items: int, damage: str) -> None:
    trial = Trial(tmp_path, items)
    for _ in range(2):
        with closing(trial.service()) as service:
            assert trial.plan(service) == EXPECTED
    damages = {
        "skips all": trial.without_indexes,
        "inverted": invert,
        "cut": lambda content: content[: len(content) // 2],
        "empty": lambda _: b"",
    }
    replace_entries(trial.cache, damages[damage])

    with closing(trial.service()) as service:
        assert trial.plan(service) == EXPECTED
        assert corrupt(service) > 0
    with closing(trial.service()) as service:
        assert trial.plan(service) == EXPECTED
        assert corrupt(service) == 0


def test_who_has_entries_mapped_keeps_them_whatever_takes_their_names(trial: Trial) -> None:
    with closing(trial.service()) as service:
        assert trial.plan(service) == EXPECTED
        replace_entries(trial.cache, invert)
        assert trial.plan(service) == EXPECTED
        shutil.rmtree(trial.cache)
        assert trial.plan(service) == EXPECTED

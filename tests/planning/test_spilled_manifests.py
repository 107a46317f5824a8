"""What plans hold in memory: manifests that take too much are mapped, and nothing stays after the request.

A plan of 100,000 files is 8 MB. Exceptions that are kept hold frames, and these what all callers have found.
"""

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.errors import LimitExceededError
from app.planning.plan.planned_files import PlannedFiles
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest, SelectionForm, TableRef
from app.planning.service import IndexService
from app.storage.disk.disk_tier import DiskTier
from app.types import DataField, parse_type
from benchmarks.events import DATABASE, TABLE, Indexed, Layout
from benchmarks.synthetic import write_snapshot, write_table
from tests import golden_cases
from tests.examples import share
from tests.golden_cases import GoldenWarehouse
from tests.planning.tables_beside import Reads, counted_service
from tests.tables import MadeTable, entry, equals, golden_ref, open_service

MANIFESTS = 5
FILES = 400
EVENTS = TableRef("golden", DATABASE, TABLE)


@pytest.fixture(scope="module")
def small(golden: GoldenWarehouse) -> Iterator[IndexService]:
    """Know all golden tables, and have no room for any manifest, which are all mapped."""
    rooms = CacheBytes(manifests=1, plans=0)
    opened = open_service(golden.root, golden.allow_external(), cache_bytes=rooms, engine_writes_only=True)
    with closing(opened) as service:
        yield service


@pytest.mark.parametrize("table", share(golden_cases.tables(), 5))
def test_the_plans_are_the_same(service: IndexService, small: IndexService, table: str) -> None:
    queries = [query["filter_sql"] for query in golden_cases.expected(table).get("queries", ())]

    for written in (None, *queries[:: max(1, len(queries) // 2)]):
        request = PlanRequest(filter=written, selection=SelectionForm.RANGES, explain=True)
        found, expected = small.plan(golden_ref(table), request), service.plan(golden_ref(table), request)

        assert [*found.files] == [*expected.files]
        assert [*found.skipped_files] == [*expected.skipped_files]
        assert found.summary == expected.summary
        assert [*found.warnings] == [*expected.warnings]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table with a bloom filter in its manifests for each file."""
    root = tmp_path_factory.mktemp("events")
    write_table(root, Layout(Indexed.KEYS), FILES, MANIFESTS)
    return root


def test_manifests_beyond_a_quarter_of_the_cache_are_mapped_once(warehouse: Path) -> None:
    stored = sum(each.stat().st_size for each in warehouse.glob("*/*/manifest/manifest-[0-9]*"))
    request = PlanRequest(filter="id = 12345")
    with closing(open_service(warehouse)) as service:
        roomy = service.plan(EVENTS, request)
    with closing(open_service(warehouse, cache_bytes=CacheBytes(manifests=stored))) as service:
        found = service.plan(EVENTS, request)
        decoded = service.caches.statistics()["manifests"]["misses"]
        service.plan(EVENTS, PlanRequest(filter="id = 54321"))
        after = service.caches.statistics()["manifests"]

    assert [*found.files] == [*roomy.files]
    assert found.summary.skipped_by == roomy.summary.skipped_by
    assert not found.warnings
    assert decoded > MANIFESTS
    assert after["misses"] == decoded
    assert after["bytes"] < stored // 2


def test_what_is_mapped_stays_though_its_stacks_do_not_fit(tmp_path: Path) -> None:
    """A repeated plan opens indexes again, and reads no manifest."""
    write_table(tmp_path, Layout(Indexed.VALUES, bodies=20), FILES, MANIFESTS)
    filters = ("cat = 1000 AND score = 5", "cat = 1001 AND score = 6", "cat = 1002 AND score = 7")
    with closing(open_service(tmp_path, cache_bytes=CacheBytes(manifests=400_000, plans=0))) as service:
        service.plan(EVENTS, PlanRequest(filter=filters[0]))
        before = service.caches.statistics()["manifests"]
        for written in filters[1:]:
            service.plan(EVENTS, PlanRequest(filter=written))
        after = service.caches.statistics()["manifests"]

    # What the version has may be gathered again.
    assert after["misses"] - before["misses"] < MANIFESTS
    assert after["evictions"] == before["evictions"]
    assert after["bytes"] <= 400_000


def test_where_nothing_can_be_written_the_setting_is_named(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a temporary directory as in a container whose root cannot be written to."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    with (
        closing(open_service(warehouse, cache_bytes=CacheBytes(manifests=1, plans=0))) as service,
        pytest.raises(LimitExceededError, match=r"none cannot be written to.*PAIMON_INDEX_DISK_CACHE"),
    ):
        service.plan(EVENTS, PlanRequest())


def test_what_is_mapped_from_the_disk_cache_is_not_written_again(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    disk = DiskTier(tmp_path / "disk", 1 << 30)
    for _ in range(2):
        caches = CacheBytes(manifests=1, plans=0)
        with closing(open_service(warehouse, disk=disk, cache_bytes=caches)) as service:
            assert service.plan(EVENTS, PlanRequest(filter="id = 12345")).files


COLUMN = DataField(0, "id", parse_type("INT"))
EMBEDDED = bytes(100_000)


@pytest.mark.parametrize("is_warm", [False, True])
def test_what_commits_add_to_a_version_without_room_is_mapped_as_well(tmp_path: Path, is_warm: bool) -> None:
    table = MadeTable.make(tmp_path, [COLUMN])
    manifests = [
        table._write_manifest(  # noqa: SLF001
            f"manifest-{at}", [entry(file_name=str(at), row_count=1, embedded_index=EMBEDDED)]
        )
        for at in range(24)
    ]
    capacity = 12 * len(EMBEDDED)
    with closing(open_service(tmp_path, cache_bytes=CacheBytes(manifests=capacity, plans=0))) as service:
        for count in range(18, 24):
            write_snapshot(table.directory, count, manifests[:count], [], rows=count)
            if is_warm:
                service.caches.warm(table.version(service))
            assert len(table.plan(service).files) == count
        assert service.caches.statistics()["manifests"]["bytes"] < capacity // 2


NO_PLANS = CacheBytes(plans=0)
REQUESTS = {
    "append_sidecar": PlanRequest(filter=equals({"grade": 2667}), explain=True),
    "append_dv32": PlanRequest(),
    "dyn_bucket": PlanRequest(filter=equals({"uid": 999_999_967})),
}


@pytest.fixture(params=["local", "fsspec"])
def forgetful(golden: GoldenWarehouse, request: pytest.FixtureRequest) -> Iterator[IndexService]:
    opened = {
        "local": lambda: open_service(golden.root, cache_bytes=NO_PLANS),
        "fsspec": lambda: counted_service(golden.root, Reads(), NO_PLANS),
    }
    with closing(opened[request.param]()) as service:
        yield service


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def plans_in_memory() -> int:
    return sum(isinstance(each, PlannedFiles) for each in gc.get_objects())


@pytest.mark.parametrize("table", REQUESTS)
def test_of_a_plan_nothing_stays(forgetful: IndexService, table: str) -> None:
    def plan() -> int:
        return len(forgetful.plan(golden_ref(table), REQUESTS[table]).files)

    with no_collector():
        before = plans_in_memory()
        # The first one reads everything, the second what may have changed.
        assert plan() == plan() > 0
        assert plans_in_memory() == before

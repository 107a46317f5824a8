"""What plans hold in memory: manifests too large for the cache one at a time, and nothing after the request.

A plan of 100,000 files is 8 MB. Exceptions that are kept hold frames, and these what all callers have found.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.planning.plan.answers import Plan
from app.planning.plan.planned_files import PlannedFiles
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.table.manifests.manifest import Manifest
from benchmarks.events import DATABASE, TABLE, Indexed, Layout
from benchmarks.synthetic import write_table
from tests import golden_tables
from tests.golden_tables import GoldenWarehouse
from tests.planning.copied_tables import equals, golden_ref, open_service
from tests.planning.counted_reads import Reads, counted_service

MANIFESTS = 5
FILES = 400
EVENTS = TableRef("golden", DATABASE, TABLE)
READ_AGAIN = "are read again for each plan"


@pytest.fixture(scope="module")
def small(golden: GoldenWarehouse) -> Iterator[IndexService]:
    """Knows all golden tables, and keeps no manifest."""
    rooms = CacheBytes(manifests=1, plans=0)
    opened = open_service(golden.root, golden.allow_external(), cache_bytes=rooms, engine_writes_only=True)
    with closing(opened) as service:
        yield service


@pytest.mark.parametrize("table", golden_tables.tables())
def test_the_plans_are_the_same(service: IndexService, small: IndexService, table: str) -> None:
    queries = [query["filter_sql"] for query in golden_tables.expected(table).get("queries", ())]

    for written in (None, *queries[:: max(1, len(queries) // 2)]):
        request = PlanRequest(filter=written, selection=SelectionForm.RANGES, explain=True)
        found, expected = small.plan(golden_ref(table), request), service.plan(golden_ref(table), request)

        assert [*found.files] == [*expected.files]
        assert [*found.skipped_files] == [*expected.skipped_files]
        assert found.summary == expected.summary
        assert [each for each in found.warnings if READ_AGAIN not in each] == [*expected.warnings]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table with a bloom filter in its manifests for each file."""
    root = tmp_path_factory.mktemp("events")
    write_table(root, Layout(Indexed.KEYS), FILES, MANIFESTS)
    return root


def plan(warehouse: Path, manifests: int) -> tuple[Plan, int]:
    """A plan that asks every bloom filter, and the bytes of manifests that are kept after it."""
    with closing(open_service(warehouse, cache_bytes=CacheBytes(manifests=manifests))) as service:
        service.warm(service.resolve(EVENTS, SnapshotSelector()))
        found = service.plan(EVENTS, PlanRequest(filter="id = 12345"))
        return found, service.cache_statistics()["manifests"]["bytes"]


def test_a_plan_says_that_indexes_are_read_again(warehouse: Path) -> None:
    stored = sum(each.stat().st_size for each in warehouse.glob("*/*/manifest/manifest-[0-9]*"))
    found, kept = plan(warehouse, stored)
    roomy, kept_by_roomy = plan(warehouse, 4 * stored)

    assert [*found.files] == [*roomy.files]
    assert found.summary.skipped_by == roomy.summary.skipped_by
    (warning,) = found.warnings
    assert f"embedded in {MANIFESTS} manifests {READ_AGAIN}" in warning
    assert not roomy.warnings
    # What is left of manifests stays, and of their indexes what there is room for.
    assert 0 < kept <= stored < kept_by_roomy


def test_a_version_that_does_not_fit_is_planned_a_few_manifests_at_a_time(warehouse: Path) -> None:
    request = PlanRequest(filter="c0 < 500")
    with closing(open_service(warehouse, cache_bytes=CacheBytes(manifests=1, plans=0))) as service:
        before = _alive()
        version = service.resolve(EVENTS, SnapshotSelector())
        found = service.plan(version, request)
        held = _alive() - before
    with closing(open_service(warehouse)) as service:
        roomy = service.plan(EVENTS, request)

    assert [*found.files] == [*roomy.files]
    assert 0 < found.summary.files_kept < found.summary.files_total == FILES
    assert any("PAIMON_INDEX_MEMORY_BYTES" in each for each in found.warnings)
    # Of MANIFESTS.
    assert held == 1


def _alive() -> int:
    gc.collect()
    return sum(isinstance(each, Manifest) for each in gc.get_objects())


NO_PLANS = CacheBytes(plans=0)
REQUESTS = {
    "append_sidecar": PlanRequest(filter=equals({"grade": 2667}), explain=True),
    "append_dv32": PlanRequest(),
    "dyn_bucket": PlanRequest(filter=equals({"uid": 999_999_967})),
}


@pytest.fixture(params=["local", "fsspec"])
def forgetful(golden: GoldenWarehouse, request: pytest.FixtureRequest) -> Iterator[IndexService]:
    """Remembers no plan."""
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

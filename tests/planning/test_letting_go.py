"""What a request found is let go of when it ends, not when the collector looks for garbage some time later.

A plan of 100,000 files is 8 MB. Exceptions that are kept hold frames, and these what all callers have found.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from app.planning.plan.planned_files import PlannedFiles
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest
from app.planning.service import IndexService
from tests.golden_tables import GoldenWarehouse
from tests.planning.copied_tables import equals, golden_ref, open_service
from tests.planning.counted_reads import Reads, counted_service

NO_PLANS = CacheBytes(plans=0)
REQUESTS = {
    "append_sidecar": PlanRequest(filter=equals({"grade": 2667}), explain=True),
    "append_dv32": PlanRequest(),
    "dyn_bucket": PlanRequest(filter=equals({"uid": 999_999_967})),
}


@pytest.fixture(params=["local", "fsspec"])
def service(golden: GoldenWarehouse, request: pytest.FixtureRequest) -> Iterator[IndexService]:
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
def test_of_a_plan_nothing_stays(service: IndexService, table: str) -> None:
    def plan() -> int:
        return len(service.plan(golden_ref(table), REQUESTS[table]).files)

    with no_collector():
        before = plans_in_memory()
        # The first one reads everything, the second what may have changed.
        assert plan() == plan() > 0
        assert plans_in_memory() == before

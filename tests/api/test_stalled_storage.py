"""A storage that hangs holds up no other warehouse, and what passes in a moment is not told to callers."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

import httpx
import pytest

from app.main import create_app
from app.memory_budget import MemoryBudget
from app.planning.service import IndexService
from app.settings import Settings
from app.storage import RetryPolicy, Warehouse
from app.storage.shared_tier import SharedTier
from tests.api.conftest import listening
from tests.examples import share
from tests.faulty_store import BUCKET, Fault, Store
from tests.golden_cases import DATABASE, GoldenWarehouse

TABLE = f"databases/{DATABASE}/tables/append_sidecar"
ASKERS = 40
NUMBERS = range(4956 - ASKERS, 4956)
"""That statistics do not rule out in every file."""
PATIENT_SECONDS = 30


@contextmanager
def both(
    golden: GoldenWarehouse,
    store: Store,
    *,
    stall_seconds: float = 3.0,
    bodies_bytes: int = 256 << 20,
    **given: object,
) -> Iterator[httpx.Client]:
    """Yield a server with the same tables twice: ``local`` on the disk, ``remote`` in the store."""
    settings = Settings.load(warehouses={"local": str(golden.root), "remote": f"s3://{BUCKET}"}, **given)
    with store.serving() as options:
        warehouses = {
            "local": Warehouse("local", settings.warehouses["local"]),
            "remote": Warehouse(
                "remote",
                settings.warehouses["remote"],
                options=options,
                retry=RetryPolicy(first_wait_seconds=0),
                stall_seconds=stall_seconds,
            ),
        }
        service = IndexService(
            warehouses, cache_bytes=MemoryBudget.of(settings).caches, limits=settings.limits
        )
        application = create_app(settings, service)
        with listening(application, lifespan="on") as client:
            runtime = application.state.runtime
            budget = replace(runtime.budget, bodies=bodies_bytes)
            application.state.runtime = replace(runtime, budget=budget)
            yield client
            store.ends.set()


def plan(client: httpx.Client, warehouse: str, number: int = 4956) -> httpx.Response:
    return client.post(f"/v1/{warehouse}/{TABLE}/plan", json={"filter": f"rank_no = {number}"})


@pytest.mark.parametrize("hangs", share(["", "/manifest/", ".index"], 2))
def test_plans_that_hang_in_one_storage_hold_up_no_other_table(golden: GoldenWarehouse, hangs: str) -> None:
    store = Store.of(golden.root, lambda key: Fault.HANG if hangs in key else None)
    with (
        both(golden, store, stall_seconds=PATIENT_SECONDS, concurrency=ASKERS) as client,
        ThreadPoolExecutor(ASKERS) as askers,
    ):
        remote = [askers.submit(plan, client, "remote", number) for number in NUMBERS]
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging, PATIENT_SECONDS)
        statuses = [plan(client, "local", number).status_code for number in NUMBERS[:5]]
        hung = sum(not each.done() for each in remote)
        store.ends.set()

    assert statuses == [200] * 5
    assert hung == ASKERS


def test_large_bodies_for_a_storage_that_hangs_are_not_kept(golden: GoldenWarehouse) -> None:
    store = Store.of(golden.root, lambda _: Fault.HANG)
    body = b'{"filter": "rank_no = 1"' + b" " * 100_000 + b"}"
    with (
        both(golden, store, stall_seconds=PATIENT_SECONDS, threads=1, bodies_bytes=300_000) as client,
        ThreadPoolExecutor(ASKERS) as askers,
    ):
        for _ in range(5):
            askers.submit(client.post, f"/v1/remote/{TABLE}/plan", content=body)
        with store.hangs:
            # The first call is that which looks whether the warehouse can be listed.
            assert store.hangs.wait_for(lambda: store.hanging > 1, PATIENT_SECONDS)
        give_up, status = time.monotonic() + PATIENT_SECONDS / 2, 0
        # Bodies that are still being received count until they were read.
        while status != 200 and time.monotonic() < give_up:
            status = client.post(f"/v1/local/{TABLE}/plan", content=body).status_code
        store.ends.set()

    assert status == 200


def test_a_watched_table_waits_for_no_other_storage(golden: GoldenWarehouse) -> None:
    store = Store.of(golden.root, lambda _: Fault.HANG)
    watch = tuple(f"{warehouse}.{DATABASE}.append_sidecar" for warehouse in ("remote", "local"))
    with both(golden, store, stall_seconds=PATIENT_SECONDS, watch=watch) as client:
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging, PATIENT_SECONDS)
        give_up = time.monotonic() + PATIENT_SECONDS / 2
        followed: dict[str, int | None] = {}
        while not followed.get("local") and time.monotonic() < give_up:
            told = client.get("/v1/config").json()["watch"]
            followed = {each["warehouse"]: each["snapshot_id"] for each in told}
        store.ends.set()

    assert followed == {"local": 3, "remote": None}


def test_requests_are_sent_once_watched_tables_were_read(golden: GoldenWarehouse) -> None:
    store = Store.of(
        golden.root, lambda key: Fault.HANG if "/manifest/" in key and not store.ends.is_set() else None
    )
    with both(golden, store, watch=(f"remote.{DATABASE}.append_sidecar",)) as client:
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging, PATIENT_SECONDS)
        refused, meanwhile = client.get("/health/ready"), plan(client, "local")
        store.ends.set()
        give_up = time.monotonic() + PATIENT_SECONDS / 2
        while client.get("/health/ready").status_code != 200 and time.monotonic() < give_up:
            pass
        read = sum(count for key, count in store.asked.items() if "/manifest/" in key)
        answer = plan(client, "remote")

    assert (refused.status_code, refused.json()["type"]) == (503, "urn:paimon-index:error:not-ready")
    assert (meanwhile.status_code, answer.status_code) == (200, 200)
    assert sum(count for key, count in store.asked.items() if "/manifest/" in key) == read


def test_what_is_read_when_callers_have_gone_waits_for_no_other_storage(golden: GoldenWarehouse) -> None:
    store = Store.of(golden.root, lambda key: Fault.HANG if ".index" in key else None)
    hasty = {"filter": "rank_no = 4956", "budget_ms": 0}
    with both(golden, store, stall_seconds=PATIENT_SECONDS) as client:
        client.post(f"/v1/remote/{TABLE}/plan", json=hasty).raise_for_status()
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging, PATIENT_SECONDS)
        give_up, is_complete = time.monotonic() + PATIENT_SECONDS / 2, False
        while not is_complete and time.monotonic() < give_up:
            is_complete = client.post(f"/v1/local/{TABLE}/plan", json=hasty).json()["summary"]["complete"]
        store.ends.set()

    assert is_complete


def test_connections_that_break_now_and_then_are_no_errors_to_callers(golden: GoldenWarehouse) -> None:
    draw = Random(6)  # noqa: S311 - no secret
    in_a_row: Counter[str] = Counter()

    def now_and_then(key: str) -> Fault | None:
        # Twice in a row at most: chance alone would break a call more often than calls are made again.
        breaks = draw.random() < 0.2 and in_a_row[key] < 2
        in_a_row[key] = in_a_row[key] + 1 if breaks else 0
        return Fault.RESET if breaks else None

    store = Store.of(golden.root, now_and_then)
    with both(golden, store) as client:
        statuses = [plan(client, "remote", number).status_code for number in range(40)]

    assert statuses == [200] * 40


def test_a_call_that_hangs_is_answered_by_another(golden: GoldenWarehouse) -> None:
    faults = [Fault.HANG]
    store = Store.of(golden.root, lambda key: faults.pop() if faults and "LATEST" in key else None)
    with both(golden, store, stall_seconds=0.5) as client:
        began = time.monotonic()
        answer = plan(client, "remote")
        seconds = time.monotonic() - began
        store.ends.set()

    assert answer.status_code == 200
    # It would hang for as long as the store is there.
    assert 0.5 <= seconds < PATIENT_SECONDS


def test_a_process_is_ready_once_its_shared_cache_has_answered(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    settings = Settings.load(warehouses={"local": str(golden.root)})
    may_answer = Event()

    def hold_up(_: str) -> None:
        assert may_answer.wait(PATIENT_SECONDS)

    with Store.of(tmp_path, hold_up).serving() as options:
        store = Warehouse("shared", f"s3://{BUCKET}", options=options)
        shared = SharedTier(store, b"", wait_seconds=PATIENT_SECONDS)
        service = IndexService(
            {"local": Warehouse("local", settings.warehouses["local"])},
            cache_bytes=MemoryBudget.of(settings).caches,
            limits=settings.limits,
            shared=shared,
        )
        with listening(create_app(settings, service), lifespan="on") as client:
            refused = client.get("/health/ready")
            may_answer.set()
            shared.flush()
            answered = client.get("/health/ready")

    assert (refused.status_code, answered.status_code) == (503, 200)
    assert "shared cache" in refused.json()["detail"]

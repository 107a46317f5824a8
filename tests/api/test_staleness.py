"""The latest snapshot: of a moment ago for callers who allow it, and decoded before anybody asks for it."""

import time
from typing import Any

import httpx

from tests.api.conftest import Serve
from tests.copied_tables import FIRST_SNAPSHOT, GROWING, GrowingTable

PLAN = f"/v1/main/databases/golden/tables/{GROWING}/plan"
HOUR = 3_600_000


def test_a_caller_says_how_old_an_answer_may_be(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        first = client.post(PLAN, json={})
        growing.commit(FIRST_SNAPSHOT + 1)
        older = client.post(PLAN, json={"max_staleness_ms": HOUR})
        newer = client.post(PLAN, json={"max_staleness_ms": 0})

    assert [answer.json()["snapshot_id"] for answer in (first, older, newer)] == [
        FIRST_SNAPSHOT,
        FIRST_SNAPSHOT,
        FIRST_SNAPSHOT + 1,
    ]
    # How old it may be is no part of the question: the answer is the same.
    assert older.headers["ETag"] == first.headers["ETag"]
    assert all(0 <= int(answer.headers["X-Snapshot-Age-Ms"]) < HOUR for answer in (first, older, newer))


def test_the_operator_says_it_for_those_who_do_not(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}, max_staleness_ms=HOUR) as client:
        client.post(PLAN, json={})
        growing.commit(FIRST_SNAPSHOT + 1)

        assert client.post(PLAN, json={}).json()["snapshot_id"] == FIRST_SNAPSHOT
        assert client.post(PLAN, json={"max_staleness_ms": 0}).json()["snapshot_id"] == FIRST_SNAPSHOT + 1


PATIENCE_SECONDS = 20


def wait_until_decoded(client: httpx.Client, snapshot_id: int) -> dict[str, Any]:
    """Return what is told of the only watched table, once this snapshot of it is decoded."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        (watched,) = client.get("/v1/config").json()["watch"]
        if watched["snapshot_id"] == snapshot_id:
            return dict(watched)
        assert time.monotonic() < give_up, watched


def misses(client: httpx.Client) -> dict[str, int]:
    caches = client.get("/v1/cache").json()
    return {name: caches[name]["misses"] for name in ("metadata", "manifests")}


def test_the_first_plan_after_a_commit_finds_it_decoded(serve: Serve, growing: GrowingTable) -> None:
    asked = {"warehouses": {"main": str(growing.warehouse)}, "watch": (f"main.golden.{GROWING}",)}
    with serve(**asked, watch_seconds=0.05) as client:
        watched = wait_until_decoded(client, FIRST_SNAPSHOT)
        growing.commit(FIRST_SNAPSHOT + 1)
        wait_until_decoded(client, FIRST_SNAPSHOT + 1)
        decoded = misses(client)
        plan = client.post(PLAN, json={}).json()

        assert misses(client) == decoded
        assert decoded["manifests"] > 0
        assert plan["snapshot_id"] == FIRST_SNAPSHOT + 1
        assert watched == {
            "warehouse": "main",
            "database": "golden",
            "table": GROWING,
            "snapshot_id": FIRST_SNAPSHOT,
            "failures": 0,
        }


def test_nothing_is_watched_unless_it_was_asked_for(client: httpx.Client) -> None:
    assert client.get("/v1/config").json()["watch"] == []

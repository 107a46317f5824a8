"""Answers about the snapshot that was the latest a moment ago, for callers who allow it."""

from __future__ import annotations

from tests.api.conftest import Serve
from tests.growing_tables import FIRST, TABLE, GrowingTable

PLAN = f"/v1/main/databases/golden/tables/{TABLE}/plan"
HOUR = 3_600_000


def test_a_caller_says_how_old_an_answer_may_be(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        first = client.post(PLAN, json={})
        growing.commit(FIRST + 1)
        older = client.post(PLAN, json={"max_staleness_ms": HOUR})
        newer = client.post(PLAN, json={"max_staleness_ms": 0})

    assert [answer.json()["snapshot_id"] for answer in (first, older, newer)] == [FIRST, FIRST, FIRST + 1]
    # How old it may be is no part of the question: the answer is the same.
    assert older.headers["ETag"] == first.headers["ETag"]
    assert all(0 <= int(answer.headers["X-Snapshot-Age-Ms"]) < HOUR for answer in (first, older, newer))


def test_the_operator_says_it_for_those_who_do_not(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}, max_staleness_ms=HOUR) as client:
        client.post(PLAN, json={})
        growing.commit(FIRST + 1)

        assert client.post(PLAN, json={}).json()["snapshot_id"] == FIRST
        assert client.post(PLAN, json={"max_staleness_ms": 0}).json()["snapshot_id"] == FIRST + 1

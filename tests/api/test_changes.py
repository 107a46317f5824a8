"""Changes between two versions over HTTP, and waiting for some."""

import asyncio
import threading
import time
from pathlib import Path

import httpx

from tests.api.conftest import Serve
from tests.golden_tables import GoldenWarehouse
from tests.growing_tables import GrowingTable

VERSIONS = "/v1/main/databases/golden/tables/versions"


def test_files_that_came_and_went(serve: Serve) -> None:
    with serve() as client:
        ids = [each["id"] for each in client.get(f"{VERSIONS}/snapshots").json()["snapshots"]]
        bodies = [{"snapshot_id": ids[0]}, {"snapshot_id": ids[-1]}]
        plans = [client.post(f"{VERSIONS}/plan", json=body).json() for body in bodies]
        answer = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": ids[0], "snapshot_id": ids[-1]})

    before, after = ({file["file_name"] for file in plan["files"]} for plan in plans)
    found = answer.json()
    assert (found["from_snapshot_id"], found["snapshot_id"]) == (ids[0], ids[-1])
    assert {file["file_name"] for file in found["added"]} >= after - before
    assert {file["file_name"] for file in found["removed"]} >= before - after
    both = {file["file_name"] for file in found["added"]} & {file["file_name"] for file in found["removed"]}
    assert both <= before & after


def test_what_cannot_be_compared_is_told(serve: Serve) -> None:
    with serve() as client:
        gone = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 10**6})
        absent = client.post(f"{VERSIONS}/changes", json={})

    assert (gone.status_code, absent.status_code) == (404, 400)
    assert "from_snapshot_id" in absent.json()["detail"]


def test_many_who_wait_are_all_answered(golden: GoldenWarehouse, serve: Serve, tmp_path: Path) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    place = f"/v1/main/databases/{table.directory.parent.stem}/tables/{table.directory.name}"
    body = {"from_snapshot_id": 3, "wait_seconds": 60}
    # Far more callers than requests that may be worked on.
    with serve(warehouses={"main": str(tmp_path)}, threads=2, concurrency=4) as client:

        async def wait_together() -> list[httpx.Response]:
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(base_url=client.base_url, timeout=90, limits=limits) as asking:
                waiting = [asyncio.create_task(asking.post(f"{place}/changes", json=body)) for _ in range(40)]
                await asyncio.sleep(0)
                table.commit(4)
                return await asyncio.gather(*waiting)

        answers = asyncio.run(wait_together())

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["snapshot_id"] for answer in answers} == {4}


def test_waiting_ends_with_the_next_commit(golden: GoldenWarehouse, serve: Serve, tmp_path: Path) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    place = f"/v1/main/databases/{table.directory.parent.stem}/tables/{table.directory.name}"
    answers: list[httpx.Response] = []
    with serve(warehouses={"main": str(tmp_path)}) as client:
        nothing = client.post(f"{place}/changes", json={"from_snapshot_id": 3, "wait_seconds": 0.1}).json()

        def wait() -> None:
            body = {"from_snapshot_id": 3, "wait_seconds": 60}
            answers.append(client.post(f"{place}/changes", json=body, timeout=90))

        began = time.monotonic()
        waiting = threading.Thread(target=wait)
        waiting.start()
        table.commit(4)
        waiting.join()

    assert (nothing["added"], nothing["removed"], nothing["snapshot_id"]) == ([], [], 3)
    assert answers[0].json()["snapshot_id"] == 4
    assert answers[0].json()["added"]
    assert time.monotonic() - began < 60

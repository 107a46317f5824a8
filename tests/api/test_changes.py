"""Changes between two versions over HTTP, and waiting for some."""

import asyncio
import json
import threading
import time
from typing import Any

import httpx

from tests.api.conftest import Serve
from tests.copied_tables import GROWING, GrowingTable

TABLES = "/v1/main/databases/golden/tables"
VERSIONS = f"{TABLES}/versions"


def changes(client: httpx.Client, table: str = GROWING, **body: Any) -> Any:
    return client.post(f"{TABLES}/{table}/changes", json=body).json()


def test_what_cannot_be_compared_is_told(client: httpx.Client) -> None:
    gone = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 10**6, "snapshot_id": 1})
    both = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 1, "from_token": "x"})
    endless = client.post(f"{VERSIONS}/changes", json={"wait_seconds": 5})

    assert (gone.status_code, both.status_code, endless.status_code) == (404, 400, 400)
    assert "from_token" in both.json()["detail"]
    assert "next_from_token" in endless.json()["detail"]


def test_a_number_alone_tells_no_snapshot_to_go_on_from(client: httpx.Client) -> None:
    alone = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 1})

    assert alone.status_code == 400
    assert "next_from_token" in alone.json()["detail"]


def test_tokens_follow_a_table(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        begun = changes(client)
        growing.commit(4)
        first = changes(client, from_token=begun["next_from_token"])
        again = changes(client, from_token=first["next_from_token"], filter="TRUE")
        by_number = changes(client, from_snapshot_id=3, snapshot_id=4)

    nothing: dict[str, Any] = {"from_snapshot_id": 3, "snapshot_id": 3, "added": [], "removed": []}
    assert begun | nothing == begun
    assert (first["from_snapshot_id"], first["snapshot_id"]) == (3, 4)
    assert (again["from_snapshot_id"], again["added"], again["removed"]) == (4, [], [])
    assert first["added"]
    assert first == by_number


def test_an_option_that_is_altered_between_commits_is_a_change(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        begun = changes(client)
        growing.alter(options={"deletion-vectors.enabled": "false"})
        token = {"from_token": begun["next_from_token"]}
        altered = changes(client, **token)
        filtered = changes(client, **token, filter="score > -1e300 OR TRUE")
        planned = client.post(f"{TABLES}/{GROWING}/plan", json={"snapshot_id": 3}).json()

    assert (begun["schema_id"], altered["schema_id"], altered["snapshot_id"]) == (0, 1, 3)
    assert altered["added"]
    assert {each["file_name"] for each in altered["removed"]} == {
        each["file_name"] for each in altered["added"]
    }
    assert filtered["added"]
    # What a plan of the snapshot tells is what is followed.
    assert not any(each.get("deletion") for each in (*planned["files"], *altered["added"]))


def test_a_filter_on_a_name_that_another_column_has_now_begins_anew(
    serve: Serve, growing: GrowingTable
) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        begun = changes(client)
        growing.alter(fields=[{**growing.schema()["fields"][0], "id": 99}])
        token = {"from_token": begun["next_from_token"]}
        refused = client.post(f"{TABLES}/{GROWING}/changes", json={**token, "filter": "session_no IS NULL"})
        unfiltered = client.post(f"{TABLES}/{GROWING}/changes", json=token)

    assert (refused.status_code, refused.json()["type"]) == (409, "urn:paimon-index:error:snapshot-expired")
    assert "'session_no' is another column" in refused.json()["detail"]
    assert unfiltered.json()["added"] == []


def test_a_token_of_a_snapshot_that_another_one_took_the_place_of_is_refused(
    serve: Serve, growing: GrowingTable
) -> None:
    latest = growing.directory / "snapshot" / "snapshot-3"
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        begun = changes(client)
        rolled_back = {**json.loads((growing.directory / "snapshot" / "snapshot-2").read_text()), "id": 3}
        latest.write_text(json.dumps(rolled_back))
        growing.commit(4)
        refused = client.post(f"{TABLES}/{GROWING}/changes", json={"from_token": begun["next_from_token"]})

    assert (refused.status_code, refused.json()["type"]) == (409, "urn:paimon-index:error:snapshot-expired")
    assert "plan the table again" in refused.json()["detail"]


def test_a_token_is_good_for_its_table_alone(client: httpx.Client) -> None:
    other = VERSIONS.replace("versions", "append_dv32")
    token = client.post(f"{VERSIONS}/changes", json={}).json()["next_from_token"]
    page = client.post(f"{other}/plan", json={"page_size": 1}).json()["next_page_token"]
    answers = [client.post(f"{other}/changes", json={"from_token": each}) for each in (token, page, "x")]

    assert [each.status_code for each in answers] == [400, 400, 400]
    assert all("next_from_token" in each.json()["detail"] for each in answers)


def test_a_table_without_snapshots_has_no_token_yet(client: httpx.Client) -> None:
    answer = changes(client, "empty")

    assert {answer[each] for each in ("from_snapshot_id", "snapshot_id", "next_from_token")} == {None}


def test_many_who_wait_are_all_answered(serve: Serve, growing: GrowingTable) -> None:
    # Far more callers than requests that may be worked on.
    with serve(warehouses={"main": str(growing.warehouse)}, threads=2, concurrency=4) as client:
        begun = changes(client)
        body = {"from_token": begun["next_from_token"], "wait_seconds": 60}

        async def wait_together() -> list[httpx.Response]:
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(base_url=client.base_url, timeout=90, limits=limits) as asking:
                asked = (asking.post(f"{TABLES}/{GROWING}/changes", json=body) for _ in range(40))
                waiting = list(map(asyncio.create_task, asked))
                await asyncio.sleep(0)
                growing.commit(4)
                return await asyncio.gather(*waiting)

        answers = asyncio.run(wait_together())

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["snapshot_id"] for answer in answers} == {4}


def test_waiting_ends_with_the_next_commit(serve: Serve, growing: GrowingTable) -> None:
    answers: list[httpx.Response] = []
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        begun = changes(client)
        body = {"from_token": begun["next_from_token"], "wait_seconds": 0.1}
        nothing = changes(client, **body)

        def wait() -> None:
            answers.append(
                client.post(f"{TABLES}/{GROWING}/changes", json=body | {"wait_seconds": 60}, timeout=90)
            )

        began = time.monotonic()
        waiting = threading.Thread(target=wait)
        waiting.start()
        growing.commit(4)
        waiting.join()

    assert (nothing["added"], nothing["removed"], nothing["snapshot_id"]) == ([], [], 3)
    assert answers[0].json()["snapshot_id"] == 4
    assert answers[0].json()["added"]
    assert time.monotonic() - began < 60

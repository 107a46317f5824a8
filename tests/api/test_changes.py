"""Changes between two versions over HTTP, and waiting for some."""

import asyncio
import json
import threading
import time
from pathlib import Path

import httpx

from tests.api.conftest import Serve
from tests.copied_tables import GrowingTable
from tests.golden_cases import GoldenWarehouse

VERSIONS = "/v1/main/databases/golden/tables/versions"


def place(table: GrowingTable) -> str:
    return f"/v1/main/databases/{table.directory.parent.stem}/tables/{table.directory.name}"


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
        gone = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 10**6, "snapshot_id": 1})
        both = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 1, "from_token": "x"})
        endless = client.post(f"{VERSIONS}/changes", json={"wait_seconds": 5})

    assert (gone.status_code, both.status_code, endless.status_code) == (404, 400, 400)
    assert "from_token" in both.json()["detail"]
    assert "next_from_token" in endless.json()["detail"]


def test_a_number_alone_tells_no_snapshot_to_go_on_from(serve: Serve) -> None:
    with serve() as client:
        alone = client.post(f"{VERSIONS}/changes", json={"from_snapshot_id": 1})

    assert alone.status_code == 400
    assert "next_from_token" in alone.json()["detail"]


def test_tokens_follow_a_table(golden: GoldenWarehouse, serve: Serve, tmp_path: Path) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    with serve(warehouses={"main": str(tmp_path)}) as client:
        begun = client.post(f"{place(table)}/changes", json={}).json()
        table.commit(4)
        first = client.post(f"{place(table)}/changes", json={"from_token": begun["next_from_token"]}).json()
        again = client.post(
            f"{place(table)}/changes", json={"from_token": first["next_from_token"], "filter": "TRUE"}
        ).json()
        by_number = client.post(
            f"{place(table)}/changes", json={"from_snapshot_id": 3, "snapshot_id": 4}
        ).json()

    assert (begun["from_snapshot_id"], begun["snapshot_id"], begun["added"], begun["removed"]) == (
        3,
        3,
        [],
        [],
    )
    assert (first["from_snapshot_id"], first["snapshot_id"]) == (3, 4)
    assert (again["from_snapshot_id"], again["added"], again["removed"]) == (4, [], [])
    assert first["added"]
    assert first == by_number


def test_an_option_that_is_altered_between_commits_is_a_change(
    golden: GoldenWarehouse, serve: Serve, tmp_path: Path
) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    with serve(warehouses={"main": str(tmp_path)}) as client:
        begun = client.post(f"{place(table)}/changes", json={}).json()
        table.alter(options={"deletion-vectors.enabled": "false"})
        token = {"from_token": begun["next_from_token"]}
        altered = client.post(f"{place(table)}/changes", json=token).json()
        filtered = client.post(
            f"{place(table)}/changes", json={**token, "filter": "score > -1e300 OR TRUE"}
        ).json()
        planned = client.post(f"{place(table)}/plan", json={"snapshot_id": 3}).json()

    assert (begun["schema_id"], altered["schema_id"], altered["snapshot_id"]) == (0, 1, 3)
    assert altered["added"]
    assert {each["file_name"] for each in altered["removed"]} == {
        each["file_name"] for each in altered["added"]
    }
    assert filtered["added"]
    # What a plan of the snapshot tells is what is followed.
    assert not any(each.get("deletion") for each in (*planned["files"], *altered["added"]))


def test_a_filter_on_a_name_that_another_column_has_now_begins_anew(
    golden: GoldenWarehouse, serve: Serve, tmp_path: Path
) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    with serve(warehouses={"main": str(tmp_path)}) as client:
        begun = client.post(f"{place(table)}/changes", json={}).json()
        table.alter(fields=[{**table.schema()["fields"][0], "id": 99}])
        token = {"from_token": begun["next_from_token"]}
        refused = client.post(f"{place(table)}/changes", json={**token, "filter": "session_no IS NULL"})
        unfiltered = client.post(f"{place(table)}/changes", json=token)

    assert (refused.status_code, refused.json()["type"]) == (409, "urn:paimon-index:error:snapshot-expired")
    assert "'session_no' is another column" in refused.json()["detail"]
    assert unfiltered.json()["added"] == []


def test_a_token_of_a_snapshot_that_another_one_took_the_place_of_is_refused(
    golden: GoldenWarehouse, serve: Serve, tmp_path: Path
) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    latest = table.directory / "snapshot" / "snapshot-3"
    with serve(warehouses={"main": str(tmp_path)}) as client:
        begun = client.post(f"{place(table)}/changes", json={}).json()
        rolled_back = {**json.loads((table.directory / "snapshot" / "snapshot-2").read_text()), "id": 3}
        latest.write_text(json.dumps(rolled_back))
        table.commit(4)
        refused = client.post(f"{place(table)}/changes", json={"from_token": begun["next_from_token"]})

    assert (refused.status_code, refused.json()["type"]) == (409, "urn:paimon-index:error:snapshot-expired")
    assert "plan the table again" in refused.json()["detail"]


def test_a_token_is_good_for_its_table_alone(serve: Serve) -> None:
    other = VERSIONS.replace("versions", "append_dv32")
    with serve() as client:
        token = client.post(f"{VERSIONS}/changes", json={}).json()["next_from_token"]
        page = client.post(f"{other}/plan", json={"page_size": 1}).json()["next_page_token"]
        answers = [client.post(f"{other}/changes", json={"from_token": each}) for each in (token, page, "x")]

    assert [each.status_code for each in answers] == [400, 400, 400]
    assert all("next_from_token" in each.json()["detail"] for each in answers)


def test_a_table_without_snapshots_has_no_token_yet(serve: Serve) -> None:
    with serve() as client:
        answer = client.post(VERSIONS.replace("versions", "empty") + "/changes", json={}).json()

    assert (answer["from_snapshot_id"], answer["snapshot_id"], answer["next_from_token"]) == (
        None,
        None,
        None,
    )


def test_many_who_wait_are_all_answered(golden: GoldenWarehouse, serve: Serve, tmp_path: Path) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    # Far more callers than requests that may be worked on.
    with serve(warehouses={"main": str(tmp_path)}, threads=2, concurrency=4) as client:
        begun = client.post(f"{place(table)}/changes", json={}).json()
        body = {"from_token": begun["next_from_token"], "wait_seconds": 60}

        async def wait_together() -> list[httpx.Response]:
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(base_url=client.base_url, timeout=90, limits=limits) as asking:
                asked = (asking.post(f"{place(table)}/changes", json=body) for _ in range(40))
                waiting = list(map(asyncio.create_task, asked))
                await asyncio.sleep(0)
                table.commit(4)
                return await asyncio.gather(*waiting)

        answers = asyncio.run(wait_together())

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["snapshot_id"] for answer in answers} == {4}


def test_waiting_ends_with_the_next_commit(golden: GoldenWarehouse, serve: Serve, tmp_path: Path) -> None:
    table = GrowingTable.copy(golden, tmp_path)
    answers: list[httpx.Response] = []
    with serve(warehouses={"main": str(tmp_path)}) as client:
        begun = client.post(f"{place(table)}/changes", json={}).json()
        body = {"from_token": begun["next_from_token"], "wait_seconds": 0.1}
        nothing = client.post(f"{place(table)}/changes", json=body).json()

        def wait() -> None:
            answers.append(
                client.post(f"{place(table)}/changes", json=body | {"wait_seconds": 60}, timeout=90)
            )

        began = time.monotonic()
        waiting = threading.Thread(target=wait)
        waiting.start()
        table.commit(4)
        waiting.join()

    assert (nothing["added"], nothing["removed"], nothing["snapshot_id"]) == ([], [], 3)
    assert answers[0].json()["snapshot_id"] == 4
    assert answers[0].json()["added"]
    assert time.monotonic() - began < 60

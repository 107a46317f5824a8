"""Plans of callers who cannot wait: answers that keep more files, and never pass for complete ones."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.conftest import Serve
from tests.examples import share

PLAN = "/v1/main/databases/golden/tables/append_sidecar/plan"
ASKED: dict[str, Any] = {"filter": "fee = 58.43"}
"""Indexes beside the data leave out seven files of ten."""
NOW = ASKED | {"budget_ms": 0}


@pytest.fixture
def cold(serve: Serve) -> Iterator[httpx.Client]:
    with serve() as client:
        yield client


def wait_for_indexes(client: httpx.Client) -> None:
    never = threading.Event()
    while not client.post(PLAN, json=NOW).json()["summary"]["complete"]:
        assert not never.wait(0.001)


def test_an_answer_in_time_keeps_what_is_not_decided(cold: httpx.Client) -> None:
    answer = cold.post(PLAN, json=NOW)

    found = answer.json()
    assert len(found["files"]) == found["summary"]["files_total"] == 10
    assert {file["decision_reason"] for file in found["files"]} == {"not_loaded"}
    assert all(file["residual"] and file["selection"] is None for file in found["files"])
    assert found["summary"]["complete"] is False
    assert "10 files are kept without evaluating their indexes" in found["warnings"][0]
    assert "ETag" not in answer.headers

    wait_for_indexes(cold)
    later = cold.post(PLAN, json=NOW)
    assert len(later.json()["files"]) == 3
    assert "ETag" in later.headers


@pytest.mark.parametrize("accept", ["application/x-ndjson", "application/vnd.apache.arrow.stream"])
def test_streams_say_it_as_well(cold: httpx.Client, accept: str) -> None:
    answer = cold.post(PLAN, json=NOW, headers={"Accept": accept})
    assert "ETag" not in answer.headers
    assert b'"complete":false' in answer.content

    wait_for_indexes(cold)
    later = cold.post(PLAN, json=NOW, headers={"Accept": accept})
    assert "ETag" in later.headers
    assert b'"complete":true' in later.content


def test_the_operator_says_how_long_plans_wait(serve: Serve) -> None:
    with serve(budget_ms=0) as client:
        assert client.post(PLAN, json=ASKED).json()["summary"]["complete"] is False
    with serve(budget_ms=0) as client:
        assert client.post(PLAN, json=ASKED | {"budget_ms": 60_000}).json()["summary"]["complete"] is True


def test_a_tag_of_a_complete_plan_is_good_whatever_the_budget(cold: httpx.Client) -> None:
    tag = cold.post(PLAN, json=ASKED).headers["ETag"]
    cold.post("/v1/cache/clear")
    assert cold.post(PLAN, json=NOW, headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize("first_budget", [0, None])
@pytest.mark.parametrize("page_size", share([1, 2, 3, 7], 2))
def test_pages_of_different_plans_together_hold_every_file_that_is_needed(
    serve: Serve, page_size: int, first_budget: int | None
) -> None:
    """One replica has loaded the indexes, another has not; each is asked for every other page."""
    with serve() as loaded, serve(budget_ms=0) as cold:
        needed = {file["file_name"] for file in loaded.post(PLAN, json=ASKED).json()["files"]}
        found: list[str] = []
        token, replicas = None, [cold, loaded] if first_budget == 0 else [loaded, cold]
        while True:
            cold.post("/v1/cache/clear")
            page = replicas[0].post(PLAN, json=ASKED | {"page_size": page_size, "page_token": token}).json()
            found += [file["file_name"] for file in page["files"]]
            replicas.reverse()
            if (token := page["next_page_token"]) is None:
                break
    assert needed <= set(found)
    assert len(found) == len(set(found))

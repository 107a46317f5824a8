"""The session's time zone is a part of every question that may depend on it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.conftest import Serve

TABLE = "/v1/main/databases/golden/tables/append_dv64"
SEEN = "2023-09-12 13:46:43.787169"
"""A value of the column ``seen_at``, in UTC."""


@pytest.fixture(scope="module")
def zoneless(serve: Serve) -> Iterator[httpx.Client]:
    with serve(time_zone=None) as client:
        yield client


def plan(client: httpx.Client, **body: Any) -> Any:
    response = client.post(f"{TABLE}/plan", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def selected(answer: Any) -> int:
    return sum(file["selected_rows"] for file in answer["files"])


def test_a_literal_is_a_clock_of_the_zone(zoneless: httpx.Client) -> None:
    in_utc = plan(zoneless, filter=f"seen_at = '{SEEN}'", time_zone="UTC")
    in_kolkata = plan(zoneless, filter="seen_at = '2023-09-12 19:16:43.787169'", time_zone="Asia/Kolkata")

    assert selected(in_utc) > 0
    assert in_utc["files"] == in_kolkata["files"]
    assert in_utc["warnings"] == in_kolkata["warnings"] == []


def test_without_a_zone_everything_is_kept_that_could_be_meant(zoneless: httpx.Client) -> None:
    open_answer = plan(zoneless, filter=f"seen_at = '{SEEN}'")
    exact = plan(zoneless, filter=f"seen_at = '{SEEN}'", time_zone="UTC")

    assert selected(open_answer) >= selected(exact)
    assert {file["file_name"] for file in open_answer["files"]} >= {f["file_name"] for f in exact["files"]}
    assert all(file["residual"] for file in open_answer["files"])
    assert [("time_zone" in warning) for warning in open_answer["warnings"]] == [True]


@pytest.mark.parametrize("text", [f"{SEEN}Z", f"{SEEN} UTC", "2023-09-12 09:46:43.787169 America/New_York"])
def test_text_with_a_zone_needs_no_other(zoneless: httpx.Client, text: str) -> None:
    answer = plan(zoneless, filter=f"seen_at = '{text}'", time_zone="Asia/Tokyo")

    assert answer["files"] == plan(zoneless, filter=f"seen_at = '{SEEN}'", time_zone="UTC")["files"]
    assert plan(zoneless, filter=f"seen_at = '{text}'")["warnings"] == []


def test_the_operator_may_set_a_default(serve: Serve, zoneless: httpx.Client) -> None:
    with serve(time_zone="Asia/Kolkata") as client:
        found = plan(client, filter="seen_at = '2023-09-12 19:16:43.787169'")
        assert client.get("/v1/config").json()["time_zone"] == "Asia/Kolkata"

    assert found["files"] == plan(zoneless, filter=f"seen_at = '{SEEN}'", time_zone="UTC")["files"]


def test_tags_and_page_tokens_know_the_zone(serve: Serve, client: httpx.Client) -> None:
    body = {"filter": f"seen_at <> '{SEEN}'", "page_size": 1}
    in_utc = client.post(f"{TABLE}/plan", json=body)
    elsewhere = client.post(f"{TABLE}/plan", json=body | {"time_zone": "Asia/Tokyo"})
    named = client.post(f"{TABLE}/plan", json=body | {"time_zone": "UTC"})

    assert in_utc.headers["ETag"] == named.headers["ETag"] != elsewhere.headers["ETag"]
    token = in_utc.json()["next_page_token"]
    assert token is not None
    with serve(time_zone="Asia/Tokyo") as replica:
        refused = replica.post(f"{TABLE}/plan", json=body | {"page_token": token})
        answered = replica.post(f"{TABLE}/plan", json=body | {"page_token": token, "time_zone": "UTC"})
    assert (refused.status_code, answered.status_code) == (400, 200)


@pytest.mark.parametrize("name", ["Mars/Phobos", "+19:00", "", "../UTC"])
def test_a_zone_that_does_not_exist_is_refused(client: httpx.Client, name: str) -> None:
    response = client.post(f"{TABLE}/plan", json={"time_zone": name})

    assert response.status_code == 400
    assert "time_zone" in response.json()["detail"]

"""Advice about a table's indexes, and what others would do, asked over HTTP."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import Serve

TABLES = "/v1/main/databases/golden/tables"
SIDECAR = f"{TABLES}/append_sidecar"


def advice(client: httpx.Client, table: str = SIDECAR, **query: Any) -> dict[str, Any]:
    answer = client.get(f"{table}/advice", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_advice_of_a_table(serve: Serve) -> None:
    with serve() as client:
        found = advice(client)

    assert (found["files"], found["files_examined"], found["files_without_index"]) == (10, 10, 0)
    assert {(each["column"], each["index"]) for each in found["indexes"]} >= {
        ("fee", "bsi"),
        ("channel", "bitmap"),
    }
    assert all(each["files"] == 10 and each["bytes"] > 0 for each in found["indexes"])
    assert "range-bitmap-for-bsi" in {each["subject"] for each in found["advice"]}
    assert found["savings"] == {"plans": 0, "files": 0, "bytes": 0, "calls": 0, "money": None}


def test_a_table_without_snapshots_needs_no_advice(client: httpx.Client) -> None:
    found = advice(client, f"{TABLES}/empty")

    assert (found["files"], found["index_bytes"], found["files_examined"]) == (0, 0, 0)


def test_plans_are_counted_once_whatever_their_pages(serve: Serve) -> None:
    with serve(price_per_1000_calls=0.5, price_per_terabyte=0.0) as client:
        body = {"filter": "fee = 58.43", "page_size": 1}
        first = client.post(f"{SIDECAR}/plan", json=body).json()
        client.post(f"{SIDECAR}/plan", json=body | {"page_token": first["next_page_token"]})
        found = advice(client)
        metrics = client.get("/metrics").text

    skipped = first["summary"]["skipped_by"]["file_index"]
    savings = found["savings"]
    assert (savings["plans"], savings["files"], savings["calls"]) == (1, skipped, 2 * skipped)
    assert savings["money"] == skipped / 1_000
    assert found["shapes"] == [{"filter": "`fee` = ?", "plans": 1}]
    assert f"paimon_index_plan_files_spared_total {skipped}.0" in metrics
    assert f"paimon_index_plan_bytes_spared_total {savings['bytes']}.0" in metrics


def test_shapes_are_kept_only_where_wanted(serve: Serve) -> None:
    with serve(filter_shapes=False) as client:
        client.post(f"{SIDECAR}/plan", json={"filter": "fee = 58.43"})
        found = advice(client)

    assert (found["shapes"], found["savings"]["plans"]) == ([], 1)


def test_what_if_tells_what_was_tried(client: httpx.Client) -> None:
    body = {"indexes": [{"column": "memo", "index": "bloom-filter"}], "filters": ["fee > 0"]}
    answer = client.post(f"{SIDECAR}/what-if", json=body)

    assert answer.status_code == 200, answer.text
    found = answer.json()
    [effect] = found["filters"]
    assert {each["column"] for each in effect["effects"]} == {"memo", None}
    assert 0 < found["files_read"] == effect["files_tried"] == found["indexes"][0]["files"]


def test_what_cannot_be_tried_is_refused(client: httpx.Client) -> None:
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"indexes": []}, 400, "indexes"),
        ({"indexes": [{"column": "fee", "index": "bsi"}]}, 400, "filters"),
        (
            {"indexes": [{"column": "fee", "index": "bsi"}], "filters": ["fee = ?"]},
            422,
            "values of your data",
        ),
        ({"indexes": [{"column": "fee", "index": "btree"}], "filters": ["fee = 1"]}, 400, "btree"),
        ({"indexes": [{"column": "fe", "index": "bsi"}], "filters": ["fee = 1"]}, 400, "'fe'"),
        ({"indexes": [{"column": "fee", "index": "bitmap"}], "filters": ["fee = 1"]}, 400, "range-bitmap"),
        ({"indexes": [{"column": "fee", "index": "bsi"}], "filters": ["fe = 1"]}, 422, "'fe'"),
    ]
    for body, status, named in cases:
        answer = client.post(f"{SIDECAR}/what-if", json=body)
        assert (answer.status_code, named in answer.text) == (status, True), answer.text


@pytest.mark.parametrize("literal", ["1" + "0" * 30, "1e400"])
def test_a_json_filter_may_have_numbers_that_few_readers_take(client: httpx.Client, literal: str) -> None:
    field = '{"name": "FIELD_REF", "fieldRef": {"name": "rank_no", "type": "INT"}}'
    leaf = f'{{"kind": "LEAF", "transform": {field}, "function": "EQUAL", "literals": [{literal}]}}'
    body = f'{{"indexes": [{{"column": "fee", "index": "bsi"}}], "filters": [{leaf}]}}'

    answer = client.post(f"{SIDECAR}/what-if", content=body)

    assert answer.status_code == 200, answer.text


def test_bytes_are_bounded_but_for_the_first_file(client: httpx.Client) -> None:
    answer = client.post(
        f"{TABLES}/append_sidecar/what-if",
        json={"indexes": [{"column": "fee", "index": "bsi"}], "filters": ["fee > 0"], "bytes": 1},
    )

    assert answer.status_code == 200
    assert answer.json()["files_read"] == 1
    assert answer.json()["warnings"]

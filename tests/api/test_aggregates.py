"""Aggregates asked over HTTP: of indexes and statistics alone."""

from typing import Any

import httpx

SIDECAR = "/v1/main/databases/golden/tables/append_sidecar"
PARTITIONED = "/v1/main/databases/golden/tables/append_partitioned"


def aggregate(client: httpx.Client, table: str = SIDECAR, **body: Any) -> dict[str, Any]:
    answer = client.post(f"{table}/aggregate", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_counts_agree_with_plans(client: httpx.Client) -> None:
    found = aggregate(client, filter="fee = 58.43")
    plan = client.post(f"{SIDECAR}/plan", json={"filter": "fee = 58.43"}).json()
    whole = aggregate(client)

    rows = plan["summary"]["rows_selected"]
    [group] = found["groups"]
    assert (found["exact"], found["open_files"], group["key"], group["rows"]) == (True, [], {}, rows)
    bounds = {"value": rows, "lower": rows, "upper": rows, "settled": rows}
    assert group["values"] == [{"function": "count", "column": None, "exact": True, **bounds}]
    assert whole["groups"][0]["rows"] == plan["summary"]["rows_total"]


def test_facets_add_up(client: httpx.Client) -> None:
    found = aggregate(client, group_by=["owner"], top=3)
    every = aggregate(client, group_by=["owner"])
    total = aggregate(client, aggregates=[{"function": "sum", "column": "fee"}])
    rows = aggregate(client)["groups"][0]["rows"]

    assert found["exact"]
    assert len(found["groups"]) == 3 < found["groups_total"] == len(every["groups"])
    counts = [group["rows"] for group in every["groups"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == rows
    assert total["groups"][0]["values"][0]["exact"]


def test_groups_by_partition(client: httpx.Client) -> None:
    described = client.get(PARTITIONED).json()
    keys = described["partition_keys"]
    found = aggregate(client, PARTITIONED, group_by=keys[:1])
    rows = client.post(f"{PARTITIONED}/plan", json={}).json()["summary"]["rows_total"]

    assert {tuple(group["key"]) for group in found["groups"]} == {tuple(keys[:1])}
    assert sum(group["rows"] for group in found["groups"]) == rows


def test_open_files_are_named_and_planned(client: httpx.Client) -> None:
    found = aggregate(client, aggregates=[{"function": "min", "column": "memo"}])
    plan = client.post(f"{SIDECAR}/plan", json={"files": found["open_files"]}).json()

    [value] = found["groups"][0]["values"]
    assert not found["exact"]
    assert not value["exact"]
    assert value["value"] is None
    assert value["lower"] <= value["upper"]
    assert {file["file_name"] for file in plan["files"]} == set(found["open_files"])
    assert sum(file["file_size"] for file in plan["files"]) == found["open_bytes"]


def test_what_has_no_meaning_is_refused(client: httpx.Client) -> None:
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"aggregates": [{"function": "sum", "column": "owner"}]}, 400, "exact sum"),
        ({"aggregates": [{"function": "min"}]}, 400, "takes a column"),
        ({"aggregates": [{"function": "median", "column": "fee"}]}, 422, "count, min, max, sum are"),
        ({"aggregates": [{"function": "count_distinct", "column": "fee"}]}, 422, "groups_total counts them"),
        ({"group_by": ["owner"], "aggregates": [{"function": "min", "column": "fee"}]}, 422, "one column"),
        ({"aggregates": []}, 400, "aggregates"),
        ({"group_by": ["owner", "grade"]}, 422, "ask for one group by a filter"),
        ({"group_by": ["nobody"]}, 422, "nobody"),
        ({"filter": "nobody = 1"}, 422, "nobody"),
    ]
    for body, status, named in cases:
        answer = client.post(f"{SIDECAR}/aggregate", json=body)
        assert (answer.status_code, named in answer.text) == (status, True), answer.text

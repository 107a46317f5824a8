"""Every query of every golden table over HTTP, in both forms of its filter; and what is in the tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from tests.golden_checks import GoldenQuery, KeptFile, check, positions
from tests.golden_tables import DATABASE, expected, tables

if TYPE_CHECKING:
    import httpx

_TABLES = f"/v1/main/databases/{DATABASE}/tables"


def plan_body(query: Mapping[str, Any], written: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The body that asks a golden query."""
    body = {key: query[key] for key in ("snapshot_id", "tag", "branch", "limit") if query[key] is not None}
    if query["topn"] is not None:
        orders = [
            {key: order[key].lower() for key in ("direction", "nulls")} for order in query["topn"]["orders"]
        ]
        for order, recorded in zip(orders, query["topn"]["orders"], strict=True):
            order["column"] = recorded["column"]
        body["top_n"] = {"order_by": orders, "limit": query["topn"]["limit"]}
    return body if written is None else body | {"filter": written}


def kept_files(answer: Mapping[str, Any]) -> dict[str, KeptFile]:
    """The files of a plan as the contract encodes them."""
    return {
        file["file_name"]: KeptFile(
            file["raw_convertible"], file["row_count"], selected(file), file["deletion"]
        )
        for file in answer["files"]
    }


def selected(file: Mapping[str, Any]) -> frozenset[int] | None:
    """The positions of a selection; None for every row."""
    if file["selection"] is None:
        return None
    assert file["selection_format"] == "roaring32"
    rows = frozenset(BitMap.deserialize(base64.b64decode(file["selection"])))
    assert len(rows) == file["selected_rows"]
    return rows


@pytest.mark.parametrize("table", tables())
def test_plans_are_safe_and_as_strong_as_the_engine(client: httpx.Client, table: str) -> None:
    document = expected(table)
    for query in document["queries"]:
        forms = [form for form in (query["filter_sql"], query["predicate"]) if form is not None] or [None]
        answers = []
        for form in forms:
            response = client.post(f"{_TABLES}/{table}/plan", json=plan_body(query, form))
            assert response.status_code == 200, response.text
            answers.append(kept_files(response.json()))
            check(GoldenQuery(table, document, query), answers[-1])
        assert all(answer == answers[0] for answer in answers), "the two forms of the filter differ"


@pytest.mark.parametrize("table", tables())
def test_files_are_what_the_manifests_say(client: httpx.Client, table: str) -> None:
    for version in expected(table)["versions"]:
        at = {key: value for key, value in version["at"].items() if value is not None}

        answer = client.post(f"{_TABLES}/{table}/plan", json={**at, "selection": "none"}).json()

        ours = {file["file_name"]: file for file in answer["files"]}
        visible = {file["file"]: file for file in version["files"] if file["visible"]}
        assert ours.keys() <= visible.keys()
        for name, file in visible.items():
            all_deleted = (
                file["deletion"] is not None and file["deletion"]["cardinality"] == file["row_count"]
            )
            if name not in ours:
                assert all_deleted
                continue
            assert ours[name]["path"].endswith(file["path"])
            same = ("bucket", "total_buckets", "level", "row_count", "file_size", "schema_id")
            assert [ours[name][key] for key in same] == [file[key] for key in same]
            assert ours[name]["partition"].keys() == file["partition"].keys()


@pytest.mark.parametrize("table", tables())
def test_deletions_are_the_recorded_positions(client: httpx.Client, table: str) -> None:
    document = expected(table)
    for version in document["versions"]:
        at = {key: value for key, value in version["at"].items() if value is not None}
        recorded = {
            file["file"]: positions(file["deletion"]["positions"])
            for file in version["files"]
            if file["visible"] and file["deletion"] is not None and document["deletion_vectors"]
        }

        body = {**at, "encoding": "positions"}
        answer = client.post(f"{_TABLES}/{table}/deletions", json=body).json()

        assert {file["file_name"]: set(file["positions"]) for file in answer["deletions"]} == recorded
        assert all(file["cardinality"] == len(file["positions"]) for file in answer["deletions"])


@pytest.mark.parametrize("table", tables())
def test_index_files_are_the_index_manifest(client: httpx.Client, table: str) -> None:
    for version in expected(table)["versions"]:
        at = {key: value for key, value in version["at"].items() if value is not None}

        answer = client.get(f"{_TABLES}/{table}/index-files", params=at).json()

        same = ("kind", "bucket", "index_type", "file_name", "file_size", "row_count")
        ours = sorted([entry[key] for key in same] for entry in answer["index_files"])
        assert ours == sorted([entry[key] for key in same] for entry in version["index_entries"])


@pytest.mark.parametrize("table", [table for table in tables() if "dynamic_bucket" in expected(table)])
def test_written_keys_are_in_their_buckets_and_new_ones_in_none(client: httpx.Client, table: str) -> None:
    document = expected(table)
    names = [name for name in document["primary_keys"] if name not in document["partition_keys"]]
    for kind in ("keys", "new_keys"):
        by_partition: dict[str, list[dict[str, Any]]] = {}
        for key in document["dynamic_bucket"][kind]:
            by_partition.setdefault(str(key["partition"]), []).append(key)
        for keys in by_partition.values():
            values = [key["key"] for key in keys]
            asked = [
                value if isinstance(value, dict) else dict(zip(names, value, strict=True)) for value in values
            ]
            body = {"partition": keys[0]["partition"], "keys": asked}

            answer = client.post(f"{_TABLES}/{table}/buckets/lookup", json=body).json()

            assert [found["key_hash"] for found in answer["buckets"]] == [key["hash"] for key in keys]
            buckets = [found["bucket"] for found in answer["buckets"]]
            assert buckets == [key["bucket"] if kind == "keys" else None for key in keys]

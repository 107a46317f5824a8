"""Every query of every golden table over HTTP, in both forms of its filter; and what is in the tables."""

import base64
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from pyroaring import BitMap

from app.file_index.answers import SKIP, Result, Rows
from app.file_index.evaluation import evaluate
from app.file_index.top_rows import top_n
from app.predicates import bind, read_text
from app.predicates.model import ALWAYS_TRUE
from tests import golden_cases
from tests.examples import share
from tests.golden_cases import DATABASE, expected, tables
from tests.golden_checks import GoldenQuery, KeptFile, check, for_each, positions, together

_TABLES = f"/v1/main/databases/{DATABASE}/tables"
# One query of these many is asked in both forms, the others in one: requests take longer than plans.
_QUERIES_OF_BOTH_FORMS = 3
# Of a file's recorded checks that are asked over HTTP; those of the library ask more of them.
_CHECKS = 6
# Not even: queries of a value that is there and of one that is not take turns.
_ONE_QUERY_IN = 5


def plan_body(query: Mapping[str, Any], written: str | Mapping[str, Any] | None) -> dict[str, Any]:
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
    return {
        file["file_name"]: KeptFile(
            file["raw_convertible"], file["row_count"], selected(file), file["deletion"]
        )
        for file in answer["files"]
    }


def selected(file: Mapping[str, Any]) -> frozenset[int] | None:
    if file["selection"] is None:
        return None
    assert file["selection_format"] == "roaring32"
    rows = frozenset(BitMap.deserialize(base64.b64decode(file["selection"])))
    assert len(rows) == file["selected_rows"]
    return rows


@pytest.mark.parametrize("table", tables())
def test_plans_are_safe_and_as_strong_as_the_engine(client: httpx.Client, table: str) -> None:
    document = expected(table)
    for number, query in enumerate(share(document["queries"], _ONE_QUERY_IN)):
        forms = [form for form in (query["filter_sql"], query["predicate"]) if form is not None] or [None]
        if number % _QUERIES_OF_BOTH_FORMS:
            forms = [forms[number % len(forms)]]
        answers = []
        for form in forms:
            response = client.post(f"{_TABLES}/{table}/plan", json=plan_body(query, form))
            assert response.status_code == 200, response.text
            kept = kept_files(response.json())
            # A text may be in doubt where an engine's JSON is not.
            is_decided = not any("no file is pruned by" in each for each in response.json()["warnings"])
            is_strong = is_decided or not isinstance(form, str)
            check(GoldenQuery(table, document, query), kept, is_decided=is_strong)
            if is_decided:
                answers.append(kept)
        assert all(answer == answers[0] for answer in answers[1:]), "the two forms of the filter differ"


@for_each("table", tables())
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


@for_each("table", tables())
def test_deletions_are_the_recorded_positions(client: httpx.Client, table: str) -> None:
    document = expected(table)
    for version in document["versions"]:
        at = {key: value for key, value in version["at"].items() if value is not None}
        recorded = {
            file["file"]: (positions(file["deletion"]["positions"]), file["bucket"])
            for file in version["files"]
            if file["visible"] and file["deletion"] is not None and document["deletion_vectors"]
        }

        body = {**at, "encoding": "positions"}
        answer = client.post(f"{_TABLES}/{table}/deletions", json=body).json()

        deleted = {
            file["file_name"]: (set(file["positions"]), file["bucket"]) for file in answer["deletions"]
        }
        assert deleted == recorded
        assert all(file["cardinality"] == len(file["positions"]) for file in answer["deletions"])


@for_each("table", tables())
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


def ask(client: httpx.Client, golden: golden_cases.GoldenIndex, question: Mapping[str, Any]) -> Any:
    body = {
        "schema": list(golden.document["columns"]),
        "files": [{"content": base64.b64encode(golden.content).decode(), "name": "golden"}],
        "row_count": golden.row_count,
        **question,
    }
    response = client.post("/v1/main/index-files/evaluate", json=body)
    assert response.status_code == 200, response.text
    (answer,) = response.json()["results"]
    return answer


def assert_same(answer: Mapping[str, Any], result: Result, row_count: int) -> None:
    assert "error" not in answer, answer
    assert answer["decision"] == ("skip" if result is SKIP else "keep")
    if isinstance(result, Rows):
        assert BitMap.deserialize(base64.b64decode(answer["selection"])) == result.positions
        assert answer["selected_rows"] == len(result.positions) <= row_count


@together(
    "kind",
    "name",
    {kind: share(names, 3) for kind, names in golden_cases.index_names_by_kind().items()},
)
def test_filters(client: httpx.Client, name: str) -> None:
    golden = golden_cases.load_index(name)
    index = golden.read()
    checks = golden.document["checks"]
    for recorded in share(checks[:: max(1, len(checks) // _CHECKS)], 3):
        forms = [(golden_cases.expand(recorded["predicate"]), golden.bind(recorded["predicate"]))]
        if recorded["sql"] is not None:
            forms.append((recorded["sql"], bind(read_text(recorded["sql"]), golden.fields)))
        for written, predicate in forms:
            result = evaluate(predicate, index, row_count=golden.row_count)
            assert_same(ask(client, golden, {"filter": written}), result, golden.row_count)


@pytest.mark.parametrize("name", sorted(golden_cases.documents("topn")))
def test_first_rows(client: httpx.Client, name: str) -> None:
    golden = golden_cases.load_index(name)
    index = golden.read()
    for request in share(golden_cases.document("topn", name)["requests"][:20], 4):
        first = request["order"][0]
        predicate = ALWAYS_TRUE if request["predicate"] is None else golden.bind(request["predicate"])
        result = top_n(
            index,
            golden.field(first["column"]),
            descending=first["direction"] == "DESC",
            nulls_first=first["nulls"] == "NULLS FIRST",
            limit=request["limit"],
            strict=len(request["order"]) == 1,
            selection=evaluate(predicate, index, row_count=golden.row_count),
        )
        order_by = [
            {
                "column": key["column"],
                "direction": key["direction"].lower(),
                "nulls": key["nulls"].removeprefix("NULLS ").lower(),
            }
            for key in request["order"]
        ]
        question: dict[str, Any] = {"top_n": {"order_by": order_by, "limit": request["limit"]}}
        if request["predicate"] is not None:
            question["filter"] = golden_cases.expand(request["predicate"])
        if request["limit"] >= 0:
            assert_same(ask(client, golden, question), result, golden.row_count)

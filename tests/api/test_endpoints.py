"""Every endpoint answers in the shape that the OpenAPI document describes, with what the tables hold."""

import base64
import io
import json
import logging
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter
from pyroaring import BitMap

from app.api.answers.encoding import DeletionsPage, Evaluation, PlanAnswer
from app.api.routes.discovery import (
    BranchList,
    Configuration,
    DatabaseList,
    IndexFileList,
    SnapshotList,
    TableList,
    TagList,
    WarehouseList,
)
from app.api.routes.index_files import Inspection
from app.api.routes.operations import About, CacheStatistics, Health
from app.planning.buckets import answers
from app.planning.version.descriptions import TableDescription
from tests import golden_cases
from tests.api.conftest import Serve
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each

TABLES = "/v1/main/databases/golden/tables"


# To make one takes longer than most requests.
adapter_of = cache(TypeAdapter)


def get(client: httpx.Client, path: str, shape: type, **query: object) -> Any:
    response = client.get(path, params={name: str(value) for name, value in query.items()})
    assert response.status_code == 200, response.text
    adapter_of(shape).validate_json(response.content, strict=True)
    return response.json()


def post(client: httpx.Client, path: str, shape: type, body: object) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    adapter_of(shape).validate_json(response.content, strict=True)
    return response.json()


def files_of(table: str, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    """Return data files of a version of a golden table, the latest unless told, as the engine tells them."""
    for version in golden_cases.expected(table)["versions"]:
        if version["at"] == {"snapshot_id": snapshot_id, "tag": None, "branch": None}:
            files: list[dict[str, Any]] = version["files"]
            return files
    raise AssertionError(f"{table} has no version {snapshot_id}")


def positions(runs: list[Any]) -> list[int]:
    """Positions of a golden document, whose longer runs are [first, last]."""
    return [
        position
        for run in runs
        for position in (range(run[0], run[1] + 1) if isinstance(run, list) else (run,))
    ]


def test_config_tells_warehouses_and_limits(client: httpx.Client, golden: GoldenWarehouse) -> None:
    answer = get(client, "/v1/config", Configuration)

    assert answer["service"] == "paimon-index"
    assert answer["warehouses"] == ["main"]
    assert answer["warehouse_urls"] == {"main": f"file://{golden.root}/"}
    assert answer["limits"]["body_bytes"] == 32 * 1024 * 1024
    assert answer["limits"]["filter_depth"] == 200
    assert answer["limits"]["filter_characters"] == 8 * 1024 * 1024


def test_databases_and_tables_are_listed(client: httpx.Client) -> None:
    assert get(client, "/v1", WarehouseList) == {"warehouses": ["main"]}
    listed = {"databases": ["golden"], "next_page_token": None}
    assert get(client, "/v1/main/databases", DatabaseList) == listed
    assert get(client, "/v1/main", DatabaseList) == listed
    tables = get(client, TABLES, TableList)["tables"]
    assert tables == sorted(golden_cases.tables())


@for_each("name", golden_cases.tables())
def test_every_table_is_described(client: httpx.Client, name: str) -> None:
    expected = golden_cases.expected(name)

    answer = get(client, f"{TABLES}/{name}", TableDescription)

    assert [field["name"] for field in answer["fields"]] == [
        field["name"] for field in expected["schema"]["fields"]
    ]
    assert answer["partition_keys"] == expected["schema"]["partitionKeys"]
    assert answer["primary_keys"] == expected["schema"]["primaryKeys"]
    assert answer["bucket_mode"] == expected["bucket_mode"].lower()


@for_each("name", golden_cases.tables())
def test_snapshots_tags_and_branches_are_listed(client: httpx.Client, name: str) -> None:
    expected = golden_cases.expected(name)

    snapshots = get(client, f"{TABLES}/{name}/snapshots", SnapshotList)["snapshots"]
    tags = get(client, f"{TABLES}/{name}/tags", TagList)["tags"]
    branches = get(client, f"{TABLES}/{name}/branches", BranchList)["branches"]

    assert [found["id"] for found in snapshots] == [known["id"] for known in expected["snapshots"]]
    assert {found["name"]: found["snapshot"]["id"] for found in tags} == expected["tags"]
    assert sorted(found["name"] for found in branches) == sorted(expected["branches"])


def test_index_files_of_one_type_and_version(client: httpx.Client) -> None:
    path = f"{TABLES}/append_dv32/index-files"

    first = get(client, path, IndexFileList, snapshot_id=1)
    hashes = get(client, path, IndexFileList, type="HASH")

    assert (first["snapshot_id"], first["index_files"]) == (1, [])
    assert hashes["index_files"] == []


def test_what_answers_says_where_it_is_described(client: httpx.Client) -> None:
    answer = get(client, "/", About)

    assert answer["service"] == "paimon-index"
    assert [client.get(answer[place]).status_code for place in ("explorer", "docs", "openapi")] == [200] * 3


@pytest.mark.parametrize("table", ["row_tracking", "data_evolution", "append_sidecar"])
def test_a_plan_tells_ids_of_first_rows(client: httpx.Client, table: str) -> None:
    answer = post(client, f"{TABLES}/{table}/plan", PlanAnswer, {})

    assert {file["file_name"]: file["first_row_id"] for file in answer["files"]} == {
        file["file"]: file["first_row_id"] for file in files_of(table)
    }


@pytest.mark.parametrize("table", ["append_partitioned", "append_dv32", "external_data", "index_external"])
def test_a_plan_tells_files_by_uris(client: httpx.Client, golden: GoldenWarehouse, table: str) -> None:
    path = f"{TABLES}/{table}/plan"
    relative = post(client, path, PlanAnswer, {"explain": True, "filter": "TRUE"})

    found = post(client, path, PlanAnswer, {"explain": True, "filter": "TRUE", "uris": True})

    def uri(place: str) -> str:
        return place if place.startswith("file:") else f"file://{golden.root}/{place}"

    for member in ("files", "skipped_files"):
        for file, plain in zip(found[member], relative[member], strict=True):
            assert file["path"] == uri(plain["path"])
            assert (file["deletion"] is None) == (plain["deletion"] is None)
            if file["deletion"] is not None:
                assert file["deletion"]["path"] == uri(plain["deletion"]["path"])


@pytest.mark.parametrize("public", ["hdfs://nameservice/a b", "hdfs://nameservice/a b/"])
def test_uris_are_those_that_readers_know(serve: Serve, public: str) -> None:
    with serve(public_urls={"main": public}) as started:
        relative = post(started, f"{TABLES}/append_dv32/plan", PlanAnswer, {})
        found = post(started, f"{TABLES}/append_dv32/plan", PlanAnswer, {"uris": True})

    for file, plain in zip(found["files"], relative["files"], strict=True):
        assert file["path"] == f"hdfs://nameservice/a b/{plain['path']}"
        assert (
            (file["deletion"] or {})
            .get("path", "hdfs://nameservice/a b/")
            .startswith("hdfs://nameservice/a b/")
        )


@pytest.mark.parametrize("form", ["bitmap", "ranges", "positions"])
@pytest.mark.parametrize("table", ["append_dv32", "append_dv64", "pk_dv", "append_sidecar"])
def test_a_plan_tells_deleted_rows_as_deletions_does(client: httpx.Client, table: str, form: str) -> None:
    asked = {"selection": "none", "deletions": form}
    known = client.post(f"{TABLES}/{table}/deletions", json={"encoding": form}).json()["deletions"]

    found = post(client, f"{TABLES}/{table}/plan", PlanAnswer, asked)

    told = {
        file["file_name"]: (file["deleted_rows"], file["deleted_format"])
        for file in found["files"]
        if file["deleted_rows"] is not None
    }
    kept = {file["file_name"] for file in found["files"]}
    assert told == {
        file["file_name"]: (file[form], file.get("bitmap_format"))
        for file in known
        if file["file_name"] in kept
    }
    assert bool(told) == (table != "append_sidecar")


@pytest.mark.parametrize("table", ["evolve_append", "append_dv32", "empty"])
def test_a_plan_tells_the_schemas_of_its_files(client: httpx.Client, table: str) -> None:
    found = post(client, f"{TABLES}/{table}/plan", PlanAnswer, {"schemas": True})
    first = post(client, f"{TABLES}/{table}/plan", PlanAnswer, {"schemas": True, "page_size": 1})

    numbers = {found["schema_id"], *(file["schema_id"] for file in found["files"])}
    assert [schema["id"] for schema in found["schemas"]] == sorted(numbers)
    assert found["schemas"] == [
        client.get(f"{TABLES}/{table}/schemas/{number}").json() for number in sorted(numbers)
    ]
    assert first["schemas"] == found["schemas"]
    assert ("schemas" in post(client, f"{TABLES}/{table}/plan", PlanAnswer, {})) is False


def test_a_plan_selects_rows(client: httpx.Client) -> None:
    body = {"filter": "rank_no = 4956", "selection": "positions"}

    answer = post(client, f"{TABLES}/append_sidecar/plan", PlanAnswer, body)

    (file,) = answer["files"]
    assert file["file_name"] == "data-59c0f0da-4dbd-4b78-8ab7-35e61872058d-0.parquet"
    assert (file["selected_rows"], file["selection"], file["selection_format"]) == (1, [12], None)
    assert answer["summary"]["files_total"] == 10
    assert answer["summary"]["files_kept"] == 1
    assert sum(answer["summary"]["skipped_by"].values()) == answer["summary"]["files_skipped"] == 9
    assert set(answer["timings_ms"]) == {"resolve", "load", "evaluate", "encode"}
    assert "skipped_files" not in answer


@pytest.mark.parametrize("qualifier", ["append_sidecar", "golden.`Append_Sidecar`"])
def test_columns_of_a_plan_may_be_qualified(client: httpx.Client, qualifier: str) -> None:
    plain = {
        "filter": "rank_no = 4956",
        "top_n": {"order_by": [{"column": "rank_no", "direction": "desc"}], "limit": 2},
    }
    qualified = {
        "filter": f"{qualifier}.rank_no = 4956",
        "top_n": {"order_by": [{"column": f"{qualifier}.rank_no", "direction": "desc"}], "limit": 2},
    }

    path = f"{TABLES}/append_sidecar/plan"
    answers = [post(client, path, PlanAnswer, body) for body in (plain, qualified)]

    assert answers[0]["files"] == answers[1]["files"]
    assert len(answers[0]["files"]) == 1


def test_a_plan_selects_the_same_rows_in_every_form(client: httpx.Client) -> None:
    def select(form: str) -> dict[str, Any]:
        body = {"filter": "fee = 58.43", "selection": form}
        answer = post(client, f"{TABLES}/append_sidecar/plan", PlanAnswer, body)
        return {file["file_name"]: file for file in answer["files"]}

    listed, ranges, bitmaps, counts, nothing = map(select, ("positions", "ranges", "bitmap", "count", "none"))

    assert len(listed) == 3
    assert set(nothing) == set(listed)
    for name, file in listed.items():
        rows = file["selection"]
        assert [row for start, end in ranges[name]["selection"] for row in range(start, end)] == rows
        assert list(BitMap.deserialize(base64.b64decode(bitmaps[name]["selection"]))) == rows
        assert bitmaps[name]["selection_format"] == "roaring32"
        assert (counts[name]["selection"], counts[name]["selected_rows"]) == (None, len(rows))
        assert nothing[name]["selection"] is None


def test_an_explained_plan_tells_what_decided_for_every_file(client: httpx.Client) -> None:
    body = {"filter": "rank_no = 4956", "explain": True}

    answer = post(client, f"{TABLES}/append_sidecar/plan", PlanAnswer, body)

    assert len(answer["files"]) + len(answer["skipped_files"]) == answer["summary"]["files_total"]
    assert all(file["explain"] for file in answer["files"] + answer["skipped_files"])
    assert {step["outcome"] for file in answer["skipped_files"] for step in file["explain"][-1:]} == {"skip"}


@pytest.mark.parametrize(
    ("table", "asked", "step", "evidence"),
    [
        ("append_sidecar", {"filter": "rank_no > 99999"}, "statistics", r"rank_no min \d+ max \d+ <= 99999"),
        ("append_sidecar", {"filter": "plain = 1650"}, "file_index", "the file has no index of the column"),
        ("pk_dv", {"filter": "part_day = 'p1'"}, "partition", "part_day is 'p2'"),
        (
            "pk_dv",
            {"filter": "part_day = 'p1' AND acct = 7 AND key_b = 'x'"},
            "bucket",
            r"bucket \d+ cannot .*",
        ),
        ("append_sidecar", {"limit": 1}, "limit", "other files have enough rows"),
        ("pk_merge", {"filter": "1 = 1"}, "file_index", "merges with other files of its bucket"),
    ],
)
def test_steps_show_what_decided(
    client: httpx.Client, table: str, asked: dict[str, Any], step: str, evidence: str
) -> None:
    path = f"{TABLES}/{table}/plan"

    answer = post(client, path, PlanAnswer, {**asked, "explain": True})

    explained = [file["explain"] for file in answer["files"] + answer["skipped_files"]]
    found = {each["evidence"] for steps in explained for each in steps if each["step"] == step}
    assert any(re.fullmatch(evidence, each or "") for each in found), found
    for steps in explained:
        told = [(each["predicate"], each["evidence"], each["index"]) for each in steps]
        assert len(set(told)) == len(told), "each fact is told once"


def test_an_explained_plan_that_skips_nothing_says_so(client: httpx.Client) -> None:
    answer = post(client, f"{TABLES}/append_sidecar/plan", PlanAnswer, {"explain": True})

    assert answer["skipped_files"] == []


def test_a_plan_decides_only_the_named_files(client: httpx.Client) -> None:
    name = files_of("append_sidecar")[0]["file"]
    body = {"files": [name, "data-unknown.parquet"]}

    answer = post(client, f"{TABLES}/append_sidecar/plan", PlanAnswer, body)

    assert [file["file_name"] for file in answer["files"]] == [name]
    assert answer["unknown_files"] == ["data-unknown.parquet"]
    assert answer["summary"]["files_total"] == 1


def test_nulls_are_as_good_as_absent_members(client: httpx.Client) -> None:
    body = dict.fromkeys(
        ("filter", "snapshot_id", "selection", "explain", "files", "top_n", "limit", "page_token", "branch")
    )

    answer = post(client, f"{TABLES}/append_sidecar/plan", PlanAnswer, body)

    assert len(answer["files"]) == 10


@pytest.mark.parametrize("encoding", ["positions", "ranges", "bitmap", "count"])
def test_deletions_in_every_encoding(client: httpx.Client, encoding: str) -> None:
    deleted = {file["file"]: file["deletion"] for file in files_of("append_dv32") if file["deletion"]}

    answer = post(client, f"{TABLES}/append_dv32/deletions", DeletionsPage, {"encoding": encoding})

    found = {entry["file_name"]: entry for entry in answer["deletions"]}
    assert set(found) == set(deleted)
    for name, entry in found.items():
        rows = positions(deleted[name]["positions"])
        assert (entry["cardinality"], entry["encoding"]) == (len(rows), encoding)
        match encoding:
            case "positions":
                assert entry["positions"] == rows
            case "ranges":
                assert [row for start, end in entry["ranges"] for row in range(start, end)] == rows
            case "bitmap":
                assert list(BitMap.deserialize(base64.b64decode(entry["bitmap"]))) == rows
            case _:
                assert not {"positions", "ranges", "bitmap"} & set(entry)


def test_a_new_key_has_no_bucket(client: httpx.Client) -> None:
    body = {"partition": {"dte": "2024-01-01"}, "keys": [{"uid": 5}]}

    answer = post(client, f"{TABLES}/dyn_bucket/buckets/lookup", answers.BucketLookup, body)

    assert answer["buckets"][0]["bucket"] is None


def test_buckets_are_listed_with_their_index(client: httpx.Client) -> None:
    known = golden_cases.expected("dyn_bucket")["dynamic_bucket"]["buckets"]

    everything = get(client, f"{TABLES}/dyn_bucket/buckets", answers.BucketList)
    one = get(client, f"{TABLES}/dyn_bucket/buckets", answers.BucketList, partition='{"dte": "2024-01-02"}')

    assert sorted(
        (bucket["partition"]["dte"], bucket["bucket"], bucket["index_rows"])
        for bucket in everything["buckets"]
    ) == sorted((bucket["partition"]["dte"], bucket["bucket"], bucket["row_count"]) for bucket in known)
    assert {bucket["partition"]["dte"] for bucket in one["buckets"]} == {"2024-01-02"}


def pruned_snapshot(
    client: httpx.Client, body: object, table: str = "append_dv32"
) -> tuple[dict[str, Any], dict[str, bytes]]:
    answer = client.post(f"{TABLES}/{table}/pruned-snapshot", json=body)
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(files.pop("answer.json")), files


def test_a_pruned_snapshot_is_an_archive_of_metadata_files(client: httpx.Client) -> None:
    body = {"filter": "session_no = 'customer-reference-cedar-2462'"}

    answer, files = pruned_snapshot(client, body)

    plan = post(client, f"{TABLES}/append_dv32/plan", PlanAnswer, body)
    document = answer["document"]
    assert answer["files_named"] == len(plan["files"]) < plan["summary"]["files_total"]
    assert answer["snapshot_id"] == document["id"] == plan["snapshot_id"]
    for kind in ("base", "delta"):
        name = document[f"{kind}ManifestList"]
        assert len(files[f"manifest/{name}"]) == document[f"{kind}ManifestListSize"]
    assert all(name.startswith("manifest/") and answer["name"] in name for name in files)


def test_a_pruned_snapshot_names_row_ids_with_both_ends(client: httpx.Client) -> None:
    body = {"filter": "score IS NULL"}

    answer, _ = pruned_snapshot(client, body, "data_evolution")

    plan = post(client, f"{TABLES}/data_evolution/plan", PlanAnswer, {**body, "selection": "positions"})
    read = {
        file["first_row_id"] + position
        for file in plan["files"]
        for position in file["selection"] or range(file["row_count"])
    }
    assert [row for first, last in answer["row_ranges"] for row in range(first, last + 1)] == sorted(read)


def test_a_plan_that_keeps_too_much_names_no_files(client: httpx.Client) -> None:
    answer, files = pruned_snapshot(client, {"filter": "session_no IS NOT NULL", "most_share": 0.5})

    assert answer["document"] is None
    assert not files
    assert answer["files_named"] > answer["summary"]["files_total"] / 2
    assert answer["delta_manifest_list"]


def test_new_keys_are_assigned_as_the_engine_does(client: httpx.Client) -> None:
    settings = golden_cases.expected("dyn_bucket")["dynamic_bucket"]
    new = [key for key in settings["new_keys"] if key["partition"] == {"dte": "2024-01-01"}]
    body = {"partition": {"dte": "2024-01-01"}, "keys": [key["key"] for key in new]}

    answer = post(client, f"{TABLES}/dyn_bucket/buckets/assign", answers.AssignmentAnswer, body)

    assert [found["bucket"] for found in answer["buckets"]] == [key["bucket"] for key in new]
    assert {found["strategy"] for found in answer["buckets"]} <= {"existing", "non_full", "new", "random"}


def sidecar(golden: GoldenWarehouse) -> str:
    file = min(golden.table("append_sidecar").glob("bucket-0/*.index"))
    return str(file.relative_to(golden.root))


def test_index_files_are_evaluated_by_path_and_by_content(
    client: httpx.Client, golden: GoldenWarehouse
) -> None:
    path = sidecar(golden)
    content = base64.b64encode((golden.root / path).read_bytes()).decode()
    body = {
        "schema": [{"name": "rank_no", "type": "INT"}, {"name": "grade", "type": "INT"}],
        "files": [{"path": path}, {"content": content, "name": "mine"}, {"content": "AAAA", "name": "bad"}],
        "filter": "rank_no = -123456789",
        "selection": "positions",
        "explain": True,
    }

    answer = post(client, "/v1/main/index-files/evaluate", Evaluation, body)

    by_path, by_content, damaged = answer["results"]
    assert (by_path["decision"], by_path["selected_rows"], by_path["selection"]) == ("skip", 0, [])
    assert by_content == {**by_path, "name": "mine"}
    assert damaged["decision"] == "keep"
    assert damaged["error"]["status"] == 424


@pytest.mark.parametrize("types", [None, '{"rank_no": "INT", "session_no": "STRING"}'])
def test_an_index_file_is_inspected(client: httpx.Client, golden: GoldenWarehouse, types: str | None) -> None:
    response = client.post(
        "/v1/main/index-files/inspect",
        params={} if types is None else {"schema": types},
        json={"path": sidecar(golden)},
    )

    assert response.status_code == 200, response.text
    adapter_of(Inspection).validate_json(response.content, strict=True)
    assert "rank_no" in response.text


def test_health_and_caches(client: httpx.Client) -> None:
    assert get(client, "/health/live", Health) == {"status": "live"}
    assert get(client, "/health/ready", Health) == {"status": "ready"}
    client.post(f"{TABLES}/append_sidecar/plan", json={})
    filled = get(client, "/v1/cache", CacheStatistics)
    assert any(cache["entries"] for cache in filled.values())

    emptied = client.post("/v1/cache/clear").json()

    assert all(cache["entries"] == 0 and cache["bytes"] == 0 for cache in emptied.values())


def test_the_disk_cache_is_told_of_where_there_is_one(serve: Serve, tmp_path: Path) -> None:
    with serve() as client:
        assert "disk" not in get(client, "/v1/cache", CacheStatistics)
    with serve(disk_cache=str(tmp_path), disk_cache_bytes=1 << 20) as client:
        client.post(f"{TABLES}/append_sidecar/plan", json={})
        filled = get(client, "/v1/cache", CacheStatistics)["disk"]
        assert filled["capacity"] == 1 << 20
        assert filled["entries"] == filled["misses"] > 0

        emptied = client.post("/v1/cache/clear").json()["disk"]

        assert emptied == filled


def test_the_shared_cache_is_told_of_where_there_is_one(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with serve() as client:
        assert "shared" not in get(client, "/v1/cache", CacheStatistics)
    with serve(shared_cache=str(tmp_path), shared_cache_private=True) as client:
        assert set(get(client, "/v1/cache", CacheStatistics)["shared"].values()) == {0}
    assert f"the shared cache is {tmp_path}" in caplog.messages


def literal(column: str, text: str) -> str:
    return (
        '{"selection": "positions", "filter": {"kind": "LEAF", "function": "EQUAL", "transform": '
        f'{{"name": "FIELD_REF", "fieldRef": {{"name": "{column}"}}}}, "literals": [{text}]}}}}'
    )


@pytest.mark.parametrize("text", ["58.43", '"58.43"', "58.43000000000000000000", "5843e-2"])
def test_decimals_are_compared_with_every_digit(client: httpx.Client, text: str) -> None:
    files = client.post(f"{TABLES}/append_sidecar/plan", content=literal("fee", text)).json()["files"]

    assert sorted(file["selection"] for file in files) == [[6, 87, 125], [11, 37], [21, 32, 81]]


def test_doubles_may_be_written_with_too_many_digits(client: httpx.Client) -> None:
    response = client.post(f"{TABLES}/append_dv32/plan", content=literal("score", "0.1234567890123456789012"))

    assert response.status_code == 200, response.text

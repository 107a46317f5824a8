"""The catalog over HTTP: every answer is one that Iceberg's OpenAPI document allows."""

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import tokens
from tests.golden_cases import GoldenWarehouse, tables
from tests.golden_checks import for_each
from tests.iceberg.conftest import ServeIceberg
from tests.iceberg.specification import validate_answer, validate_schema

NAMESPACES = "/v1/{prefix}/namespaces"
NAMESPACE = NAMESPACES + "/{namespace}"
TABLES = NAMESPACE + "/tables"
TABLE = TABLES + "/{table}"
GOLDEN = "main/namespaces/golden"

REFUSED = {
    "all_types": "TIME(3)",
    "all_types_orc": "TIME(3)",
    "append_avro": "is not Parquet",
    "append_orc": "is not Parquet",
    "data_evolution": "data-evolution.enabled",
    **dict.fromkeys(
        ("append_dv32", "bucketed_dv", "codec_deflate", "codec_null", "codec_snappy", "data_dir"), "32 bits"
    ),
    **dict.fromkeys(
        ("evolve_pk_dv", "external_data", "index_external", "index_in_data_dir", "row_tracking"), "32 bits"
    ),
    **dict.fromkeys(("stats_counts", "versions"), "32 bits"),
    **dict.fromkeys(
        ("dyn_bucket", "dyn_bucket_max", "dyn_bucket_two", "dyn_index_in_dir", "pk_aggregation"), "merged"
    ),
    **dict.fromkeys(("pk_merge", "pk_partial_update"), "merged"),
    "evolve_append": "DECIMAL(10, 2), which is DECIMAL(14, 4)",
    "evolve_sidecar": "DECIMAL(10, 2), which is DECIMAL(14, 4)",
}
"""Golden tables whose latest version cannot be read by all clients, and what they are told."""


def ask(client: httpx.Client, method: str, path: str, spec: str, body: Any = None, **how: Any) -> Any:
    answer = client.request(method, path, json=body, **how)
    value = answer.json() if answer.content else None
    validate_answer(value, method, spec, answer.status_code)
    if answer.is_error and value is not None:
        assert value["error"]["code"] == answer.status_code
    return answer.status_code, value


def test_the_configuration_lists_the_endpoints_that_there_are(iceberg: httpx.Client) -> None:
    status, config = ask(iceberg, "GET", "config", "/v1/config")

    assert status == 200
    assert config["overrides"] == {"prefix": "main", "scan-planning-mode": "server"}
    assert config["defaults"] == {}
    assert f"POST {TABLE}/plan" in config["endpoints"]
    assert all(each.split(" ")[0] in ("GET", "HEAD", "POST", "DELETE") for each in config["endpoints"])
    assert ask(iceberg, "GET", "config?warehouse=main", "/v1/config")[1] == config


def test_a_warehouse_that_is_not_there_is_no_such_warehouse(iceberg: httpx.Client) -> None:
    status, error = ask(iceberg, "GET", "config?warehouse=cold", "/v1/config")

    assert (status, error["error"]["type"]) == (404, "NoSuchWarehouseException")


def test_clients_are_told_where_the_object_store_is(serve_iceberg: ServeIceberg) -> None:
    with serve_iceberg(iceberg_s3={"s3.endpoint": "http://store:9000"}) as client:
        config = client.get("/iceberg/v1/config").json()

    assert config["defaults"] == {"s3.endpoint": "http://store:9000"}


def test_without_the_setting_there_is_no_catalog(serve_iceberg: ServeIceberg) -> None:
    with serve_iceberg(iceberg=False) as client:
        answer = client.get("/iceberg/v1/config")

    assert answer.status_code == 404
    assert "PAIMON_INDEX_ICEBERG=true" in answer.text


def test_databases_are_namespaces_of_one_level(iceberg: httpx.Client) -> None:
    assert ask(iceberg, "GET", "main/namespaces", NAMESPACES)[1]["namespaces"] == [["golden"]]
    assert ask(iceberg, "GET", "main/namespaces?parent=golden", NAMESPACES)[1]["namespaces"] == []
    assert ask(iceberg, "GET", GOLDEN, NAMESPACE) == (200, {"namespace": ["golden"], "properties": {}})
    assert ask(iceberg, "HEAD", GOLDEN, NAMESPACE) == (204, None)
    assert iceberg.head("main/namespaces/other").status_code == 404
    status, error = ask(iceberg, "GET", "main/namespaces/other", NAMESPACE)
    assert (status, error["error"]["type"]) == (404, "NoSuchNamespaceException")


def test_tables_are_listed_in_pages_where_a_client_asks_for_them(iceberg: httpx.Client) -> None:
    whole = ask(iceberg, "GET", f"{GOLDEN}/tables", TABLES)[1]
    names: list[str] = []
    token: Any = ""
    while token is not None:
        params = {"pageSize": 7, "pageToken": token}
        page = ask(iceberg, "GET", f"{GOLDEN}/tables", TABLES, params=params)[1]
        assert len(page["identifiers"]) <= 7
        names += [each["name"] for each in page["identifiers"]]
        token = page["next-page-token"]

    assert names == [each["name"] for each in whole["identifiers"]] == sorted(tables())
    assert whole["next-page-token"] is None


@for_each("table", tables())
def test_every_table_is_loaded_and_planned_or_refused_with_its_reason(
    iceberg: httpx.Client, table: str
) -> None:
    loaded = ask(iceberg, "GET", f"{GOLDEN}/tables/{table}", TABLE)
    planned = ask(iceberg, "POST", f"{GOLDEN}/tables/{table}/plan", TABLE + "/plan", {})

    statuses = (loaded[0], planned[0])
    if table not in REFUSED:
        assert statuses == (200, 200)
        assert planned[1]["status"] == "completed"
        return
    assert statuses in ((406, 406), (200, 406))
    error = planned[1]["error"]
    assert error["type"] == "UnsupportedOperationException"
    assert REFUSED[table] in error["message"]
    assert "To read it, " in error["message"]


def test_its_code_is_loaded_where_it_is_served() -> None:
    code = (
        "import sys\nfrom app.main import create_app\nfrom app.settings import Settings\n"
        "for is_on in (False, True):\n"
        "    create_app(Settings.load(warehouses={'main': '/'}, iceberg=is_on))\n"
        "    print('app.iceberg' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root
    )

    assert done.stdout.split() == ["False", "True"]


def test_a_description_says_beforehand_whether_clients_can_read_a_table(iceberg: httpx.Client) -> None:
    found = {}
    for table in tables():
        url = str(iceberg.base_url).replace("/iceberg/v1/", f"/v1/main/databases/golden/tables/{table}")
        found[table] = iceberg.get(url).json()["iceberg_refusal"]
        planned = iceberg.post(f"{GOLDEN}/tables/{table}/plan", json={}, headers={"X-Paimon-Accept": ""})
        assert found[table] or planned.status_code == 200 or "in schema" in planned.text, table

    assert {name for name, reason in found.items() if reason is None} >= {
        "append_bucketed",
        "append_partitioned",
    }
    assert "merged" in found["pk_merge"]
    assert "milliseconds" in found["pk_merge"]


def test_milliseconds_are_for_clients_that_say_that_they_read_them(iceberg: httpx.Client) -> None:
    path = f"{GOLDEN}/tables/append_sidecar"
    for headers in ({"X-Paimon-Accept": ""}, {"X-Paimon-Accept": "x"}):
        status, error = ask(iceberg, "GET", path, TABLE, headers=headers)
        assert status == 406
        assert "'logged' is TIMESTAMP(3)" in error["error"]["message"]
        assert "X-Paimon-Accept: timestamp-millis" in error["error"]["message"]
        assert iceberg.post(f"{path}/plan", json={}, headers=headers).status_code == 406
        # What no header mends is told first.
        _, error = ask(iceberg, "GET", f"{GOLDEN}/tables/all_types", TABLE, headers=headers)
        assert "TIME(3)" in error["error"]["message"]

    assert iceberg.get(path, headers={"X-Paimon-Accept": "x, timestamp-millis"}).status_code == 200


def test_a_table_that_is_known_is_not_sent_again(iceberg: httpx.Client) -> None:
    first = iceberg.get(f"{GOLDEN}/tables/append_sidecar")
    again = iceberg.get(f"{GOLDEN}/tables/append_sidecar", headers={"If-None-Match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    other = iceberg.get(f"{GOLDEN}/tables/append_embedded", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


def test_snapshots_without_a_tag_are_left_out_where_a_client_says_so(iceberg: httpx.Client) -> None:
    path = f"{GOLDEN}/tables/append_embedded"
    whole = ask(iceberg, "GET", path, TABLE)[1]["metadata"]
    some = ask(iceberg, "GET", path, TABLE, params={"snapshots": "refs"})[1]["metadata"]

    assert {each["snapshot-id"] for each in some["snapshots"]} == {
        each["snapshot-id"] for each in some["refs"].values()
    }
    assert some["refs"] == whole["refs"]
    assert (
        whole["current-snapshot-id"]
        == some["current-snapshot-id"]
        == max(each["snapshot-id"] for each in whole["snapshots"])
    )
    assert all(each["manifest-list"].startswith("paimon-index-plans-scans:") for each in whole["snapshots"])


def test_a_table_that_is_not_there_is_no_such_table(iceberg: httpx.Client) -> None:
    for method, path, spec, body in (
        ("GET", "", TABLE, None),
        ("POST", "/plan", TABLE + "/plan", {}),
        ("POST", "/metrics", TABLE + "/metrics", {"report-type": "scan-report"}),
    ):
        status, error = ask(iceberg, method, f"{GOLDEN}/tables/nothing{path}", spec, body)
        assert (status, error["error"]["type"]) == (404, "NoSuchTableException")
    assert iceberg.head(f"{GOLDEN}/tables/nothing").status_code == 404
    assert iceberg.head(f"{GOLDEN}/tables/append_sidecar").status_code == 204


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/append_sidecar"), ("POST", "")])
def test_who_would_write_is_told_that_nobody_can(iceberg: httpx.Client, method: str, path: str) -> None:
    answer = iceberg.request(method, f"{GOLDEN}/tables{path}", json={})

    assert answer.status_code == 405
    assert "read only" in answer.json()["error"]["message"]


def test_a_report_is_taken_and_counted(iceberg: httpx.Client) -> None:
    path, route = f"{GOLDEN}/tables/append_sidecar/metrics", "/iceberg/v1/{warehouse}/namespaces/{database}"
    report = {"report-type": "scan-report", "table-name": "append_sidecar", "snapshot-id": 3}

    answer = iceberg.post(path, json=report)

    assert (answer.status_code, answer.content) == (204, b"")
    counted = iceberg.get(str(iceberg.base_url).replace("/iceberg/v1/", "/metrics")).text
    assert f'paimon_index_requests_total{{route="{route}/tables/{{table}}/metrics",status="204"}}' in counted


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"filter": {"type": "eq", "term": "nothing", "value": 1}}, "nothing"),
        ({"filter": {"type": "eq", "term": "GRADE", "value": 1}}, "did you mean 'grade'?"),
        ({"filter": {"type": "start-with", "term": "memo", "value": "x"}}, "did you mean 'starts-with'"),
        ({"filter": {"type": "eq", "term": "grade", "value": "x"}}, "grade"),
        ({"filter": {"type": "eq", "term": "grade"}}, "value"),
        ({"filter": 5}, "filter"),
        ({"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 2}, "snapshot-id"),
        ({"start-snapshot-id": 1}, "end-snapshot-id"),
    ],
)
def test_a_request_that_makes_no_sense_is_bad(iceberg: httpx.Client, body: Any, part: str) -> None:
    status, error = ask(iceberg, "POST", f"{GOLDEN}/tables/append_sidecar/plan", TABLE + "/plan", body)

    assert (status, error["error"]["type"]) == (400, "BadRequestException")
    assert part in error["error"]["message"]


def test_filters_nest_as_deep_as_clients_chain_them_and_keep_every_digit(iceberg: httpx.Client) -> None:
    path = f"{GOLDEN}/tables/append_sidecar/plan"
    test: Any = {"type": "eq", "term": "grade", "value": 0}
    for number in range(250):
        test = {"type": "or", "left": test, "right": {"type": "eq", "term": "grade", "value": 2_640 + number}}
    exact = '{"filter": {"type": "eq", "term": "fee", "value": 58.43000000000000000000000000001}}'

    chained = iceberg.post(path, json={"filter": test})
    digits = iceberg.post(path, content=exact)

    assert (chained.status_code, digits.status_code) == (200, 200)
    assert chained.json()["file-scan-tasks"][0]["residual-filter"] == test
    again = iceberg.get(f"{path}/{chained.json()['plan-id']}")
    assert again.json()["file-scan-tasks"] == chained.json()["file-scan-tasks"]
    residual = digits.json()["file-scan-tasks"][0]["residual-filter"]
    assert residual["value"] == "58.43000000000000000000000000001"


def test_names_are_folded_where_a_client_says_so(iceberg: httpx.Client) -> None:
    path, test = f"{GOLDEN}/tables/append_sidecar/plan", {"type": "eq", "term": "GRADE", "value": 1}

    assert iceberg.post(path, json={"filter": test, "case-sensitive": False}).status_code == 200


def planned_files(iceberg: httpx.Client, table: str, **body: Any) -> set[str]:
    answer = ask(iceberg, "POST", f"{GOLDEN}/tables/{table}/plan", TABLE + "/plan", body)
    assert answer[0] == 200, answer
    return {each["data-file"]["file-path"] for each in answer[1]["file-scan-tasks"]}


def test_what_was_appended_between_two_snapshots_is_planned(iceberg: httpx.Client) -> None:
    whole = [planned_files(iceberg, "append_sidecar", **{"snapshot-id": number}) for number in (1, 2, 3)]
    test = {"type": "gt", "term": "grade", "value": 2_660}

    def appended(start: int, end: int, **more: Any) -> set[str]:
        between = {"start-snapshot-id": start, "end-snapshot-id": end}
        return planned_files(iceberg, "append_sidecar", **between, **more)

    assert appended(1, 3) == whole[2] - whole[0]
    assert appended(2, 3) == whole[2] - whole[1]
    assert appended(2, 2) == set()
    assert appended(1, 3, filter=test) == planned_files(iceberg, "append_sidecar", filter=test) - whole[0]


@pytest.mark.parametrize(
    ("table", "start", "end", "status", "part"),
    [
        ("append_dv64", 1, 2, 406, "primary key or deletion vectors"),
        ("pk_first_row", 1, 2, 406, "primary key or deletion vectors"),
        ("append_sidecar", 3, 1, 400, "end-snapshot-id"),
        ("append_sidecar", 1, 99, 404, "99"),
    ],
)
def test_other_changes_are_refused(
    iceberg: httpx.Client, table: str, start: int, end: int, status: int, part: str
) -> None:
    body = {"start-snapshot-id": start, "end-snapshot-id": end}
    found, error = ask(iceberg, "POST", f"{GOLDEN}/tables/{table}/plan", TABLE + "/plan", body)

    assert found == status
    assert part in error["error"]["message"]


def test_tokens_are_those_of_the_service(serve_iceberg: ServeIceberg, tmp_path: Path) -> None:
    file = tokens.write(tmp_path / "tokens", tokens.entry("reader", "pix_reader", databases=["elsewhere"]))
    with serve_iceberg(tokens_file=str(file)) as client:
        url = "/iceberg/v1/main/namespaces"
        unknown = client.get(url)
        mine = client.get(url, headers=tokens.bearer("pix_reader"))
        other = client.get(f"{url}/golden/tables", headers=tokens.bearer("pix_reader"))

    validate_answer(unknown.json(), "GET", NAMESPACES, unknown.status_code)
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (401, "NotAuthorizedException")
    assert "www-authenticate" in unknown.headers
    assert mine.json()["namespaces"] == []
    validate_answer(other.json(), "GET", TABLES, other.status_code)
    assert (other.status_code, other.json()["error"]["type"]) == (403, "ForbiddenException")


def test_a_plan_is_the_same_by_its_id(iceberg: httpx.Client) -> None:
    path = f"{GOLDEN}/tables/append_sidecar/plan"
    question = {"filter": {"type": "gt", "term": "grade", "value": 5}, "snapshot-id": 2}
    planned = ask(iceberg, "POST", path, TABLE + "/plan", question)[1]

    again = ask(iceberg, "GET", f"{path}/{planned['plan-id']}", TABLE + "/plan/{plan-id}")[1]

    assert again["file-scan-tasks"] == planned["file-scan-tasks"] != []
    assert iceberg.delete(f"{path}/{planned['plan-id']}").status_code == 204


@pytest.mark.parametrize("token", ["x", "", base64.urlsafe_b64encode(b"x" * 60).decode()])
def test_a_token_of_nobody_is_no_plan(iceberg: httpx.Client, token: str) -> None:
    path = f"{GOLDEN}/tables/append_sidecar"
    status, error = ask(iceberg, "POST", f"{path}/tasks", TABLE + "/tasks", {"plan-task": token})

    assert (status, error["error"]["type"]) == (404, "NoSuchPlanTaskException")
    if token:
        status, error = ask(iceberg, "GET", f"{path}/plan/{token}", TABLE + "/plan/{plan-id}")
        assert (status, error["error"]["type"]) == (404, "NoSuchPlanIdException")


DAMAGED = {
    "a_schema": "schema/schema-0",
    "a_snapshot": "snapshot/snapshot-3",
    "lists": "manifest/manifest-list-*",
    "manifests": "manifest/manifest-????????-*",
}


def test_a_damaged_table_is_no_failure_of_the_service(
    golden: GoldenWarehouse, serve_iceberg: ServeIceberg, tmp_path: Path
) -> None:
    for name, pattern in DAMAGED.items():
        directory = tmp_path / "golden.db" / name
        shutil.copytree(golden.table("append_sidecar"), directory)
        for file in directory.glob(pattern):
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2] + b"\xff" * 8)
    with serve_iceberg(warehouses={"main": str(tmp_path)}) as client:
        client.headers["X-Paimon-Accept"] = "timestamp-millis"
        for name in DAMAGED:
            url = f"/iceberg/v1/{GOLDEN}/tables/{name}"
            elsewhere = client.post(f"/v1/main/databases/golden/tables/{name}/plan", json={}).status_code
            planned = client.post(f"{url}/plan", json={})
            validate_answer(planned.json(), "POST", TABLE + "/plan", planned.status_code)
            others = [client.get(url), client.head(url), client.post(f"{url}/plan", json={"snapshot-id": 3})]
            assert planned.status_code == elsewhere == 424
            assert {each.status_code for each in others} <= {200, 204, 424}


def test_the_document_is_strict_enough_to_find_faults() -> None:
    with pytest.raises(Exception, match=r"'status' is a required property|is not valid under any"):
        validate_schema({"file-scan-tasks": []}, "PlanTableScanResult")

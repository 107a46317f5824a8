"""Each status of the contract, as a problem that names what is wrong."""

import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import httpx
import pytest
from pydantic import TypeAdapter

from app.api.http.problems import ProblemDetails
from app.main import create_app
from app.settings import Settings
from tests.api.conftest import Serve
from tests.golden_cases import GoldenWarehouse

TABLES = "/v1/main/databases/golden/tables"
PLAN = f"{TABLES}/append_sidecar/plan"
LOOKUP = f"{TABLES}/dyn_bucket/buckets/lookup"
EVALUATE = "/v1/main/index-files/evaluate"
INSPECT = "/v1/main/index-files/inspect"
PROBLEMS = TypeAdapter(ProblemDetails)


def problem(response: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    PROBLEMS.validate_json(response.content, strict=True)
    assert found["type"] == f"urn:paimon-index:error:{slug}"
    assert found["status"] == status
    assert found["instance"] == response.headers["x-request-id"]
    return found


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (PLAN, b"", "body is empty"),
        (PLAN, b"{", "not JSON"),
        (PLAN, b"[]", "not a JSON object"),
        (PLAN, b'{"limit": NaN}', "NaN"),
        (PLAN, b'{"limit": 1, "limit": 2}', "'limit' stands twice"),
        (PLAN, b'{"filter": ' + b"[" * 100_000, "nests too deeply"),
        (PLAN, b'{"limit": "1"}', "limit:"),
        (PLAN, b'{"limit": 1.0}', "limit:"),
        (PLAN, b'{"limit": -1}', "limit:"),
        (PLAN, b'{"limit": 100000000000000000000}', "limit:"),
        (PLAN, b'{"explain": 1}', "explain:"),
        (PLAN, b'{"selection": "bits"}', "selection:"),
        (PLAN, b'{"filter": 7}', "filter"),
        (PLAN, b'{"files": ["a", 7]}', "files.1:"),
        (PLAN, b'{"snapshotid": 7}', "did you mean 'snapshot_id'"),
        (PLAN, b'{"snapshot_id": 1, "tag": "a"}', "at most one of"),
        (PLAN, b'{"page_size": 0}', "page_size:"),
        (PLAN, b'{"page_size": 100001}', "page_size"),
        (PLAN, b'{"top_n": {"order_by": [], "limit": 1}}', "top_n.order_by:"),
        (LOOKUP, b'{"partition": {}}', "expected keys, or the hashes of keys"),
        (LOOKUP, b'{"keys": [], "hashes": []}', "expected keys, or the hashes of keys"),
        (LOOKUP, b'{"hashes": [2147483648]}', "hashes.0:"),
        (LOOKUP, b'{"keys": [7]}', "keys.0:"),
        (EVALUATE, b'{"files": []}', "schema:"),
        (EVALUATE, b'{"schema": [], "files": [{}]}', "exactly one of path and content"),
        (EVALUATE, b'{"schema": [], "files": [{"content": "?"}]}', "not base64"),
        (INSPECT, b'{"content": "AAAA", "kind": "magic"}', "kind:"),
        (f"{TABLES}/append_dv32/index-files?snapshot_id=x", None, "snapshot_id"),
        (f"{TABLES}/append_dv32/index-files?snapshot=1", None, "snapshot"),
        (f"{TABLES}/append_dv32/index-files?snapshot_id=1&tag=a", None, "at most one of"),
        (f"{TABLES}/dyn_bucket/buckets?partition=7", None, "partition"),
        (f"{TABLES}/dyn_bucket/buckets?partition=%7B", None, "partition"),
        (f"{TABLES}/dyn_bucket/snapshots?branch=", None, "branch"),
    ],
)
def test_malformed_requests(client: httpx.Client, path: str, body: bytes | None, named: str) -> None:
    answer = client.get(path) if body is None else client.post(path, content=body)

    assert named in problem(answer, 400, "malformed-request")["detail"]


_LONG = "n" * 300
_LONGER = "n" * 5000


@pytest.mark.parametrize("name", [_LONG, _LONGER, "%00", "a%00b"])
def test_names_that_no_file_can_have_are_not_there(client: httpx.Client, name: str) -> None:
    for path in (
        f"/v1/main/databases/{name}/tables",
        f"/v1/main/databases/{name}/tables/t",
        f"{TABLES}/{name}",
        f"{TABLES}/{name}/schemas/0",
        f"{TABLES}/append_dv32?tag={name}",
        f"{TABLES}/append_dv32/schemas?branch={name}",
        f"{TABLES}/append_dv32/index-files?tag={name}",
        f"{TABLES}/append_dv32/snapshots?branch={name}",
    ):
        problem(client.get(path), 404, "not-found")
    for member in ("tag", "branch"):
        problem(client.post(PLAN, json={member: unquote(name)}), 404, "not-found")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"golden.db/{_LONG}/bucket-0/data-1.parquet.index", 404),
        (f"golden.db/t/{'/'.join([_LONG] * 20)}/bucket-0/data-1.parquet.index", 404),
        (_LONG, 400),
        ("a\0b", 400),
    ],
)
def test_index_files_that_no_file_can_be(client: httpx.Client, path: str, status: int) -> None:
    body = {"schema": [], "files": [{"path": path}]}
    (evaluated,) = client.post(EVALUATE, json=body).raise_for_status().json()["results"]

    assert client.post(INSPECT, json={"path": path}).status_code == evaluated["error"]["status"] == status


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/main/databases/", None),
        ("/v1/nowhere/databases", None),
        ("/v1/main/databases/nowhere/tables", None),
        (f"{TABLES}/nowhere", None),
        (f"{TABLES}/nowhere/snapshots", None),
        (f"{TABLES}/append_dv32/index-files?snapshot_id=4711", None),
        (f"{TABLES}/append_dv32/index-files?tag=nowhere", None),
        (f"{TABLES}/append_dv32/index-files?branch=nowhere", None),
        (f"{TABLES}/append_dv32/index-files?timestamp_millis=1", None),
        ("/v1/nowhere/index-files/inspect", {"content": "AAAA"}),
        (f"{TABLES}/nowhere/plan", {}),
        (PLAN, {"snapshot_id": 4711}),
        (PLAN, {"tag": "nowhere"}),
        (PLAN, {"branch": "nowhere"}),
        (PLAN, {"timestamp_millis": 1}),
        (f"{TABLES}/append_dv32/deletions", {"snapshot_id": 4711}),
    ],
)
def test_what_is_not_there(client: httpx.Client, path: str, body: object) -> None:
    problem(client.get(path) if body is None else client.post(path, json=body), 404, "not-found")


def test_an_index_file_that_is_not_there(client: httpx.Client) -> None:
    path = "golden.db/nowhere/bucket-0/nowhere.index"

    problem(client.post(INSPECT, json={"path": path}), 404, "file-missing")


def test_a_method_that_an_endpoint_does_not_have(client: httpx.Client) -> None:
    response = client.delete(PLAN)

    problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("body", "column"),
    [
        ({"filter": "nowhere = 1"}, "nowhere"),
        ({"filter": "grade = 'many'"}, "grade"),
        ({"filter": "day = '2025-13-45'"}, "day"),
        ({"filter": {"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": {"name": "grade"}},
                     "function": "EQUAL", "literals": ["many"]}}, "grade"),
        ({"top_n": {"order_by": [{"column": "nowhere"}], "limit": 1}}, "nowhere"),
    ],
)  # fmt: skip
def test_filters_that_do_not_fit(client: httpx.Client, body: object, column: str) -> None:
    assert problem(client.post(PLAN, json=body), 422, "filter")["column"] == column


def test_a_filter_names_the_place_of_its_fault(client: httpx.Client) -> None:
    text = "grade = 1 AND nowhere = 2"

    assert problem(client.post(PLAN, json={"filter": text}), 422, "filter")["position"] == text.index(
        "nowhere"
    )


def test_a_column_of_another_table_names_its_place_and_what_is_known(client: httpx.Client) -> None:
    body = {"filter": "grade = 1 AND orders.grade = 2"}

    found = problem(client.post(PLAN, json=body), 422, "filter")

    assert (found["position"], found["column"]) == (14, "orders")
    assert "qualified by append_sidecar or golden.append_sidecar" in found["detail"]


def test_limits_are_told(serve: Serve) -> None:
    with serve(filter_literals=10, files_named=3, body_bytes=10_000) as client:
        deep = client.post(PLAN, json={"filter": "NOT (" * 201 + "grade = 1" + ")" * 201})
        long = client.post(PLAN, json={"filter": f"grade IN ({', '.join(map(str, range(11)))})"})
        many = client.post(PLAN, json={"files": ["a", "b", "c", "d"]})
        large = client.post(PLAN, json={"filter": " " * 10_000})
        pieces = client.post(PLAN, content=(b" " * 1000 for _ in range(11)))

    assert problem(deep, 422, "limit-exceeded")["limit"] == 200
    assert problem(long, 422, "limit-exceeded")["limit"] == 10
    assert problem(many, 422, "limit-exceeded")["limit"] == 3
    assert problem(large, 413, "body-too-large")["limit"] == 10_000
    assert problem(pieces, 413, "body-too-large")["limit"] == 10_000


_SCHEMA = [{"name": "grade", "type": "INT"}]


@pytest.mark.parametrize(
    ("path", "others"),
    [
        (PLAN, {}),
        (PLAN, {"explain": True}),
        (PLAN.replace("plan", "pruned-snapshot"), {}),
        (PLAN.replace("plan", "changes"), {}),
        (PLAN.replace("plan", "aggregate"), {}),
        (PLAN.replace("plan", "what-if"), {"indexes": [{"column": "grade", "index": "bloom-filter"}]}),
        ("/v1/main/index-files/evaluate", {"schema": _SCHEMA, "files": []}),
    ],
)
def test_a_filter_is_shorter_than_a_body(client: httpx.Client, path: str, others: dict[str, object]) -> None:
    most = 8 << 20
    text = "x" * (most + 1)
    predicate = {"kind": "LEAF", "function": "EQUAL", "literals": [text]}

    for written, size in ((text, most + 1), (predicate, most + 30)):
        asked = {"filters": [written]} if path.endswith("what-if") else {"filter": written}
        told = problem(client.post(path, json={**asked, **others}), 422, "limit-exceeded")
        assert told["limit"] == most
        assert told["detail"].startswith(f"the filter has {size} characters, {most} are the most")


def test_the_deadline_is_kept(serve: Serve) -> None:
    with serve(deadline_seconds=1e-9) as client:
        problem(client.post(PLAN, json={}), 504, "deadline-exceeded")
        assert client.get("/health/ready").status_code == 200


def test_a_body_that_does_not_arrive(serve: Serve) -> None:
    with serve(deadline_seconds=0.2) as client:
        address = (client.base_url.host, client.base_url.port or 0)
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(f"POST {PLAN} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{{".encode())
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"urn:paimon-index:error:request-timeout" in answer


async def _ask_before_start(golden: GoldenWarehouse) -> list[httpx.Response]:
    application = create_app(Settings.load(warehouses={"main": str(golden.root)}))
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return [await client.get(path) for path in ("/health/live", "/health/ready", "/v1/config")]


def test_nothing_is_answered_before_the_start(golden: GoldenWarehouse) -> None:
    live, ready, config = anyio.run(_ask_before_start, golden)

    assert live.status_code == 200
    problem(ready, 503, "not-ready")
    problem(config, 503, "not-ready")


@pytest.fixture
def damaged(golden: GoldenWarehouse, tmp_path: Path) -> Path:
    golden.copy("append_dv32", tmp_path)
    return tmp_path / "golden.db" / "append_dv32"


@pytest.mark.parametrize(
    ("pattern", "slug"),
    [
        ("snapshot/snapshot-7", "corrupt-metadata"),
        ("schema/schema-0", "corrupt-metadata"),
        ("manifest/manifest-list-*", "corrupt-metadata"),
        ("manifest/manifest-[0-9a-f]*", "corrupt-metadata"),
        ("manifest/index-manifest-*", "corrupt-metadata"),
        ("index/index-*", "corrupt-index"),
    ],
)
def test_damaged_files_are_named(serve: Serve, damaged: Path, pattern: str, slug: str) -> None:
    for file in damaged.glob(pattern):
        file.write_bytes(b"\x00" + file.read_bytes()[1:-7])

    with serve(warehouses={"main": str(damaged.parent.parent)}) as client:
        found = problem(client.post(f"{TABLES}/append_dv32/deletions", json={}), 424, slug)

    assert "golden.db/append_dv32/" in found["path"]

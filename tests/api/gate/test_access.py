"""Who may ask what: every endpoint by everybody who could come."""

from __future__ import annotations

import base64
import json
import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi.routing import APIRoute

from app.api.explorer import PATHS as EXPLORER
from app.api.gate.access import ACCESS, Access
from app.main import create_app
from app.settings import Settings
from tests import tokens
from tests.api.conftest import Serve
from tests.golden_cases import GoldenWarehouse

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

TABLE = "/v1/main/databases/golden/tables/dyn_bucket"
KEYS = {"partition": {"dte": "2024-01-01"}, "keys": [{"uid": 5}]}
EVALUATE: dict[str, Any] = {"schema": [], "files": []}
WHAT_IF = {"indexes": [{"column": "uid", "index": "bsi"}], "filters": ["uid = 5"]}
NAMESPACES = "/iceberg/v1/main/namespaces"
ICEBERG = f"{NAMESPACES}/golden/tables/dyn_bucket"
INSPECT = {"content": base64.b64encode(b"\x01").decode(), "kind": "deletion_vectors"}

SECRETS = {
    "unknown": "pix_unknown",
    "expired": "pix_expired",
    "other warehouse": "pix_other-warehouse",
    "other database": "pix_other-database",
    "database": "pix_database",
    "reader": "pix_reader",
    "admin": "pix_admin",
}
CALLERS = ("nobody", *SECRETS)
ENTRIES = (
    tokens.entry("expired", SECRETS["expired"], expires="2020-01-01T00:00:00Z"),
    tokens.entry("other warehouse".replace(" ", "-"), SECRETS["other warehouse"], warehouses=["cold"]),
    tokens.entry("other-database", SECRETS["other database"], databases=["elsewhere"]),
    tokens.entry("database", SECRETS["database"], databases=["golden"]),
    tokens.entry("reader", SECRETS["reader"]),
    tokens.entry("admin", SECRETS["admin"], role="admin"),
)

# What each of CALLERS gets, in their order.
OPEN = (200,) * 8
ANY_TOKEN = (401, 401, 401, 200, 200, 200, 200, 200)
WAREHOUSE = (401, 401, 401, 403, 200, 200, 200, 200)
DATABASE = (401, 401, 401, 403, 403, 200, 200, 200)
DATABASE_ITSELF = (401, 401, 401, 403, 403, 204, 204, 204)
MERGES = (401, 401, 401, 403, 403, 406, 406, 406)
NO_PLAN = (401, 401, 401, 403, 403, 404, 404, 404)
ADMIN = (401, 401, 401, 403, 403, 403, 403, 200)
NOT_THERE = (401, 401, 401, 404, 404, 404, 404, 404)

ENDPOINTS: tuple[tuple[str, str, Any, tuple[int, ...]], ...] = (
    ("GET", "/", None, OPEN),
    ("GET", "/health/live", None, OPEN),
    ("GET", "/health/ready", None, OPEN),
    *(("GET", path, None, OPEN) for path in EXPLORER),
    ("GET", "/docs", None, OPEN),
    ("GET", "/docs/start.js", None, OPEN),
    ("GET", "/docs/swagger-ui-bundle.js", None, OPEN),
    ("GET", "/docs/swagger-ui.css", None, OPEN),
    ("GET", "/openapi.json", None, OPEN),
    ("GET", "/metrics", None, ANY_TOKEN),
    ("GET", "/v1", None, ANY_TOKEN),
    ("GET", "/v1/config", None, ANY_TOKEN),
    ("GET", "/v1/namespaces", None, NOT_THERE),
    ("GET", "/v1/cache", None, ANY_TOKEN),
    ("POST", "/v1/cache/clear", None, ADMIN),
    ("GET", "/v1/main", None, WAREHOUSE),
    ("GET", "/v1/main/databases", None, WAREHOUSE),
    ("GET", "/v1/main/databases/golden/tables", None, DATABASE),
    ("GET", TABLE, None, DATABASE),
    ("GET", f"{TABLE}/schemas", None, DATABASE),
    ("GET", f"{TABLE}/schemas/0", None, DATABASE),
    ("GET", f"{TABLE}/snapshots", None, DATABASE),
    ("GET", f"{TABLE}/tags", None, DATABASE),
    ("GET", f"{TABLE}/branches", None, DATABASE),
    ("GET", f"{TABLE}/index-files", None, DATABASE),
    ("GET", f"{TABLE}/buckets", None, DATABASE),
    ("GET", f"{TABLE}/advice", None, DATABASE),
    ("POST", f"{TABLE}/aggregate", {}, DATABASE),
    ("POST", f"{TABLE}/changes", {}, DATABASE),
    ("POST", f"{TABLE}/what-if", WHAT_IF, DATABASE),
    ("POST", f"{TABLE}/plan", {}, DATABASE),
    ("POST", f"{TABLE}/pruned-snapshot", {}, DATABASE),
    ("POST", f"{TABLE}/deletions", {}, DATABASE),
    ("POST", f"{TABLE}/buckets/lookup", KEYS, DATABASE),
    ("POST", f"{TABLE}/buckets/assign", KEYS, DATABASE),
    ("POST", "/v1/main/index-files/evaluate", EVALUATE, WAREHOUSE),
    ("POST", "/v1/main/index-files/inspect", INSPECT, WAREHOUSE),
    ("GET", "/iceberg/v1/config", None, (401, 401, 401, 400, 200, 200, 200, 200)),
    ("GET", NAMESPACES, None, WAREHOUSE),
    ("GET", f"{NAMESPACES}/golden", None, DATABASE),
    ("HEAD", f"{NAMESPACES}/golden", None, DATABASE_ITSELF),
    ("GET", f"{NAMESPACES}/golden/tables", None, DATABASE),
    ("GET", ICEBERG, None, DATABASE),
    ("HEAD", ICEBERG, None, DATABASE_ITSELF),
    ("POST", f"{ICEBERG}/plan", {}, MERGES),
    ("GET", f"{ICEBERG}/plan/x", None, NO_PLAN),
    ("DELETE", f"{ICEBERG}/plan/x", None, NO_PLAN),
    ("POST", f"{ICEBERG}/tasks", {"plan-task": "x"}, NO_PLAN),
    ("POST", f"{ICEBERG}/metrics", {"report-type": "scan-report"}, DATABASE_ITSELF),
)
# What is no endpoint, or is one in another spelling.
OTHERS: tuple[tuple[str, str, Any, tuple[int, ...]], ...] = (
    ("GET", "/v2", None, NOT_THERE),
    ("GET", "/nowhere", None, NOT_THERE),
    ("GET", "/health/live/", None, NOT_THERE),
    ("GET", "/v1//main/databases", None, NOT_THERE),
    ("POST", "/v1/cache/clear%0A", None, ADMIN),
    ("GET", f"{TABLE}/tags%0A", None, DATABASE),
    ("GET", "/v1/nowhere/databases", None, (401, 401, 401, 403, 403, 403, 403, 403)),
    ("POST", "/v1/nowhere/databases/golden/tables/t/plan", {}, (401, 401, 401, 403, 403, 403, 403, 403)),
    ("GET", "/v1/main/databases/nowhere/tables", None, (401, 401, 401, 403, 403, 403, 404, 404)),
    ("GET", f"{TABLE}x", None, (401, 401, 401, 403, 403, 404, 404, 404)),
    ("GET", "/v1/main%2F..%2Fcold/databases", None, NOT_THERE),
)


@pytest.fixture(scope="module")
def guarded(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path = tokens.write(tmp_path_factory.mktemp("tokens") / "tokens", *ENTRIES)
    with serve(tokens_file=str(path), iceberg=True) as client:
        yield client


def headers_of(caller: str) -> dict[str, str]:
    return {} if caller == "nobody" else tokens.bearer(SECRETS[caller])


def routes(found: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    for route in found:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from routes(included.routes)


def test_every_route_states_who_may_ask(golden: GoldenWarehouse) -> None:
    application = create_app(Settings.load(warehouses={"main": str(golden.root)}, iceberg=True))

    everything = list(routes(application.routes))

    # Others would get around the application's dependencies.
    assert {type(route) for route in everything} == {APIRoute}
    found = [route for route in everything if isinstance(route, APIRoute)]
    stated = {f"{method} {route.path}" for route in found for method in route.methods or ()}
    assert stated - ACCESS.keys() == set()
    assert len(stated) > 20


def test_every_route_is_in_the_table_below() -> None:
    named = {(method, path) for method, path, *_ in ENDPOINTS}
    values = {
        "warehouse": "main",
        "database": "golden",
        "table": "dyn_bucket",
        "schema_id": 0,
        "plan_id": "x",
    }
    stated = {tuple(route.format(**values).split(" ")) for route in ACCESS}

    assert stated == named


@pytest.mark.parametrize(("method", "path", "body", "expected"), ENDPOINTS + OTHERS)
def test_who_gets_which_status(
    guarded: httpx.Client, method: str, path: str, body: Any, expected: tuple[int, ...]
) -> None:
    answers = [guarded.request(method, path, json=body, headers=headers_of(caller)) for caller in CALLERS]

    assert dict(zip(CALLERS, (answer.status_code for answer in answers), strict=True)) == dict(
        zip(CALLERS, expected, strict=True)
    )
    for answer in answers:
        assert ("www-authenticate" in answer.headers) == (answer.status_code == 401)
        is_icebergs = path.startswith("/iceberg") or (path == "/v1/namespaces" and answer.status_code == 404)
        if answer.status_code >= 400 and is_icebergs and method != "HEAD":
            assert answer.json()["error"]["code"] == answer.status_code
        elif answer.status_code >= 400 and method != "HEAD":
            slug = {401: "unauthorized", 403: "forbidden", 404: "not-found"}[answer.status_code]
            assert answer.json()["type"] == f"urn:paimon-index:error:{slug}"
            assert answer.json()["instance"] == answer.headers["x-request-id"]


def test_a_warehouse_that_is_not_there_and_one_that_is_not_allowed_answer_alike(
    guarded: httpx.Client,
) -> None:
    headers = headers_of("other database")

    def ask(warehouse: str, database: str) -> tuple[int, str]:
        path = f"/v1/{warehouse}/databases/{database}/tables"
        answer = guarded.get(path, headers=headers)
        return answer.status_code, re.sub(f"{warehouse}|{database}", "NAME", answer.json()["detail"])

    assert ask("main", "golden") == ask("main", "nowhere")
    assert ask("main", "golden")[0] == ask("absent", "golden")[0] == 403


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([], None),
        ([("Authorization", "pix_reader")], "invalid_token"),
        ([("Authorization", "Basic cGl4OnJlYWRlcg==")], "invalid_token"),
        ([("Authorization", "Bearer")], "invalid_token"),
        ([("Authorization", "Bearer pix_reader x")], "invalid_token"),
        ([("Authorization", "Bearer " + "x" * 513)], "invalid_token"),
        ([("Authorization", "Bearer pix_reader"), ("Authorization", "Bearer pix_reader")], "invalid_token"),
        ([("X-Authorization", "Bearer pix_reader")], None),
    ],
)
def test_a_token_comes_in_one_bearer_header(
    guarded: httpx.Client, headers: list[tuple[str, str]], error: str | None
) -> None:
    answer = guarded.get("/v1/config", headers=headers, params={"access_token": SECRETS["reader"]})

    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge == 'Bearer realm="paimon-index"' + (f', error="{error}"' if error else "")
    assert "pix_" not in answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_scheme_is_read_as_http_says(guarded: httpx.Client, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {SECRETS['reader']}"}

    assert guarded.get("/v1/config", headers=headers).status_code == 200


def test_a_link_does_not_pass_rights_to_another_database(
    golden: GoldenWarehouse, serve: Serve, tmp_path: Path
) -> None:
    secret = tmp_path / "w" / "secret.db" / "t"
    shutil.copytree(golden.table("empty"), secret)
    (tmp_path / "w" / "demo.db").mkdir()
    (tmp_path / "w" / "demo.db" / "link").symlink_to(secret)
    path = tokens.write(tmp_path / "tokens", tokens.entry("demo", "pix_demo", databases=["demo"]))
    location = {"location": f"{tmp_path}/w/demo.db/link"}
    with serve(tokens_file=str(path), warehouses={"main": str(tmp_path / "w")}) as client:
        answers = [
            client.post(
                f"/v1/main/databases/demo/tables/{name}/plan",
                json={},
                params=at,
                headers=tokens.bearer("pix_demo"),
            )
            for name, at in (("link", None), ("other", location))
        ]

    assert [each.status_code // 100 for each in answers] == [4, 4]
    assert all("link that leads out of its root or database" in each.json()["detail"] for each in answers)


def test_config_and_listings_show_what_the_token_may_see(serve: Serve, tmp_path: Path) -> None:
    for database in ("one", "two"):
        (tmp_path / "w" / f"{database}.db" / "t" / "schema").mkdir(parents=True)
    path = tokens.write(
        tmp_path / "tokens",
        tokens.entry("all", "pix_all", warehouses=["*"]),
        tokens.entry("part", "pix_part", databases=["two", "three"], role="admin"),
    )
    watched = ("main.one.t", "main.two.t", "cold.two.t")
    warehouses = {"main": str(tmp_path / "w"), "cold": str(tmp_path / "w")}
    with serve(tokens_file=str(path), warehouses=warehouses, watch=watched) as client:

        def seen(secret: str) -> tuple[list[str], list[str], Any, list[str]]:
            headers = tokens.bearer(secret)
            config = client.get("/v1/config", headers=headers).json()
            databases = client.get("/v1/main/databases", headers=headers).json()["databases"]
            tables = [".".join((each["warehouse"], each["database"])) for each in config["watch"]]
            metrics = client.get("/metrics", headers=headers).text
            named = {name for name in warehouses if f'warehouse="{name}"' in metrics}
            assert named <= set(config["warehouses"])
            return config["warehouses"], databases, config["token"], tables

        everything, part = seen("pix_all"), seen("pix_part")

    token = {"name": "all", "role": "reader"}
    assert everything == (["cold", "main"], ["one", "two"], token, ["main.one", "main.two", "cold.two"])
    assert part == (["main"], ["two"], {"name": "part", "role": "admin"}, ["main.two"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("golden.db/t/bucket-0/nowhere.index", 404),
        ("elsewhere.db/t/bucket-0/nowhere.index", 403),
        ("golden.db/../elsewhere.db/bucket-0/nowhere.index", 400),
        ("golden.db/nowhere.index", 400),
        ("golden/nowhere.index", 403),
        ("nowhere.index", 403),
        ("/golden.db/nowhere.index", 403),
        ("file:///golden.db/nowhere.index", 403),
    ],
)
def test_a_token_of_one_database_names_files_of_this_database_only(
    guarded: httpx.Client, path: str, status: int
) -> None:
    headers = headers_of("database")
    body = {"schema": [], "files": [{"content": "AAAA"}, {"path": path}]}

    inspected = guarded.post("/v1/main/index-files/inspect", json={"path": path}, headers=headers)
    evaluated = guarded.post("/v1/main/index-files/evaluate", json=body, headers=headers)

    assert inspected.status_code == status
    assert evaluated.status_code == (403 if status == 403 else 200)


def test_rights_are_checked_before_the_shared_cache_is_asked(serve: Serve, tmp_path: Path) -> None:
    path = tokens.write(tmp_path / "tokens", *ENTRIES)
    shared = {"shared_cache": str(tmp_path / "shared"), "shared_cache_private": True}
    with serve(tokens_file=str(path), **shared) as client:

        def asked() -> int:
            told = client.get("/v1/cache", headers=headers_of("admin")).json()["shared"]
            return int(told["hits"]) + int(told["misses"])

        for caller in ("nobody", "unknown", "expired", "other warehouse", "other database"):
            assert client.post(f"{TABLE}/plan", json={}, headers=headers_of(caller)).status_code in (401, 403)
        assert asked() == 0
        assert client.post(f"{TABLE}/plan", json={}, headers=headers_of("database")).status_code == 200
        assert asked() > 0


def test_a_token_is_void_as_soon_as_the_file_lacks_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.access.tokens._SECONDS", 0.01)
    path = tokens.write(tmp_path / "tokens", tokens.entry("old", "pix_old"))

    with serve(tokens_file=str(path)) as client:
        before = client.get("/v1/config", headers=tokens.bearer("pix_old"))
        tokens.write(path, tokens.entry("new", "pix_new"))
        while client.get("/v1/config", headers=tokens.bearer("pix_new")).status_code != 200:
            pass
        after = client.get("/v1/config", headers=tokens.bearer("pix_old"))

    assert (before.status_code, after.status_code) == (200, 401)


@pytest.mark.parametrize("what", ["docs", "metrics"])
def test_documentation_and_metrics_are_open_or_not_as_set(serve: Serve, tmp_path: Path, what: str) -> None:
    path = str(tokens.write(tmp_path / "tokens", *ENTRIES))
    asked = ["/docs", "/openapi.json", "/docs/start.js"] if what == "docs" else ["/metrics"]

    with serve(tokens_file=path, **{f"{what}_access": "token"}) as client:
        closed = [client.get(place).status_code for place in asked]
        known = [client.get(place, headers=headers_of("reader")).status_code for place in asked]
    with serve(tokens_file=path, **{f"{what}_access": "open"}) as client:
        opened = [client.get(place).status_code for place in asked]

    assert set(closed) == {401}
    assert opened == known
    assert 401 not in opened


def test_neither_answers_nor_logs_tell_a_secret(
    guarded: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    answers = [
        guarded.request(method, path, json=body, headers=headers_of(caller))
        for method, path, body, _ in ENDPOINTS + OTHERS
        for caller in ("expired", "other database", "reader", "unknown")
    ]

    told = [answer.text for answer in answers] + [json.dumps(dict(answer.headers)) for answer in answers]
    own = [
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))
    ]
    assert not [text for text in told + own for secret in SECRETS.values() if secret in text]


def test_what_needs_no_caller_is_little() -> None:
    is_open = {route for route, access in ACCESS.items() if access is Access.OPEN}

    page = {f"GET {path}" for path in EXPLORER}
    assert is_open == {"GET /", "GET /health/live", "GET /health/ready"} | page

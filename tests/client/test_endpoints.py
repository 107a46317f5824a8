"""Every endpoint has a method, whose results have all members of the answer."""

import asyncio
import dataclasses
import datetime as dt
import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.planning.request.limits import CacheBytes
from app.planning.service import IndexService
from app.settings import Settings
from paimon_index import AsyncClient, Client, IndexFile, ServiceError, catalog, errors, results
from paimon_index.requests import TableName
from tests import golden_cases
from tests.golden_cases import GoldenWarehouse

OTHER_NAMES = {"AssignmentAnswer": "Assignment", "Token": "TokenIdentity"}
JOINED = {"next_page_token"}
"""Members that the client uses up."""


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    settings = Settings.load(warehouses={})
    service = IndexService({}, cache_bytes=CacheBytes(), limits=settings.limits)
    return create_app(settings, service).openapi()


def test_results_have_the_members_of_the_contract(openapi: dict[str, Any]) -> None:
    compared = set()
    for name, schema in openapi["components"]["schemas"].items():
        called = OTHER_NAMES.get(name, name)
        kind = getattr(results, called, None) or getattr(catalog, called, None)
        if kind is None or not dataclasses.is_dataclass(kind):
            continue
        members = {field.name for field in dataclasses.fields(kind)}
        wanted = set(schema["properties"]) - JOINED
        if name == "PlannedFile":
            wanted = wanted - {"selection_format", "deleted_format"} | {"skipped"}
        if name == "CacheState":
            wanted |= set(openapi["components"]["schemas"]["DiskCacheState"]["properties"])
        assert members == wanted, name
        compared.add(called)

    ours = {
        name
        for module in (results, catalog)
        for name, value in vars(module).items()
        if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    }
    assert ours - compared == {"PlanFacts", "Deletions", "DataFile", "ChangedFile"}


def test_problems_have_the_members_of_the_contract(openapi: dict[str, Any]) -> None:
    wanted = set(openapi["components"]["schemas"]["ProblemDetails"]["properties"])

    ours = {field.name for field in dataclasses.fields(errors.Problem)}

    assert ours - {"slug", "request_id"} == wanted - {"type", "instance"}


def test_every_endpoint_has_a_method(openapi: dict[str, Any]) -> None:
    # Health comes in two; the page of the documentation and what leads to others is for people, pruned
    # snapshots are for the engine.
    endpoints = sum(len(methods) for methods in openapi["paths"].values())
    ours = [name for name in dir(Client) if name[0] != "_" and name != "close"]

    assert endpoints == len([name for name in ours if name not in ("openapi", "metrics")]) + 4


def test_what_is_there(client: Client) -> None:
    assert client.about().service == "paimon-index"
    assert (client.live().status, client.ready().status) == ("live", "ready")
    assert client.config().warehouses == ("main",)
    assert client.config().token is None
    assert client.databases("main") == ("golden",)
    assert client.tables("main", "golden") == tuple(sorted(golden_cases.tables()))
    described = client.describe("main.golden.versions")
    assert described.partition_keys == ("load_dt",)
    assert described.snapshot == described.latest_snapshot
    assert {tag.name for tag in client.tags("main.golden.versions")} == set(
        golden_cases.expected("versions")["tags"]
    )
    branches = golden_cases.expected("versions")["branches"]
    assert {branch.name for branch in client.branches("main.golden.versions")} == set(branches)
    ids = {snapshot.id for snapshot in client.snapshots("main.golden.versions")}
    assert described.snapshot is not None
    assert described.snapshot.id == max(ids)
    assert any(client.snapshots("main.golden.versions", branch=branch) for branch in branches)


def test_pages_are_joined(client: Client) -> None:
    schemas = client.schemas("main.golden.evolve_append")
    entries = client.index_files("main.golden.dyn_bucket").index_files

    assert [schema.id for schema in schemas] == list(range(9))  # pages of 7
    assert schemas[4] == client.schema("main.golden.evolve_append", 4)
    expected = golden_cases.expected("dyn_bucket")["versions"][0]["index_entries"]
    assert len(entries) >= len(expected) > 7
    assert {entry.index_type for entry in entries} == {"HASH"}
    assert client.index_files("main.golden.dyn_bucket", index_type="other").index_files == ()


@pytest.mark.parametrize("encoding", ["bitmap", "ranges", "positions"])
def test_deleted_rows(client: Client, encoding: Any) -> None:
    version = golden_cases.expected("append_dv32")["versions"][0]
    counts = {
        file["file"]: file["deletion"]["cardinality"]
        for file in version["files"]
        if file["deletion"] is not None
    }

    found = client.deletions("main.golden.append_dv32", encoding=encoding)

    assert {file.file_name: len(file.rows or ()) for file in found.deletions} == counts
    counted = client.deletions("main.golden.append_dv32", encoding="count")
    assert {file.file_name: file.cardinality for file in counted.deletions} == counts
    assert counted.deletions[0].rows is None


def test_buckets_of_keys(client: Client) -> None:
    known = golden_cases.expected("dyn_bucket")["dynamic_bucket"]["keys"][:20]

    for key in known:
        found = client.lookup("main.golden.dyn_bucket", partition=key["partition"], keys=[key["key"]])
        by_hash = client.lookup("main.golden.dyn_bucket", partition=key["partition"], hashes=[key["hash"]])
        assert (found.buckets[0].bucket, found.buckets[0].key_hash) == (key["bucket"], key["hash"])
        assert by_hash.buckets[0].bucket == key["bucket"]
        placed = client.assign("main.golden.dyn_bucket", partition=key["partition"], keys=[key["key"]])
        assert placed.buckets[0].strategy == "existing"
    assert client.buckets("main.golden.dyn_bucket", partition=known[0]["partition"]).buckets


def test_python_values_stand_for_literals(client: Client) -> None:
    days = {file.partition["part_day"] for file in client.plan("main.golden.bucketed_dv")}
    assert all(isinstance(day, (dt.date, str)) for day in days)
    types = [file.partition for file in client.plan("main.golden.append_part_types")]

    for partition in types:
        client.deletions("main.golden.append_part_types", partition=partition)
        client.buckets("main.golden.append_part_types", partition=partition)
    with pytest.raises(ServiceError, match="p_date"):
        client.deletions("main.golden.append_part_types", partition={"p_date": decimal.Decimal("1.5")})


def test_index_files_on_their_own(client: Client, golden: GoldenWarehouse) -> None:
    (path, *_) = sorted(golden.table("append_sidecar").rglob("*.index"))
    schema = {field.name: field.type for field in client.describe("main.golden.append_sidecar").fields}
    files = [
        IndexFile(path=str(path.relative_to(golden.root))),
        IndexFile(content=path.read_bytes(), name="same"),
        IndexFile(content=b"no index", name="damaged"),
    ]
    column = client.describe("main.golden.append_sidecar").indexes[0].column

    told = client.evaluate(
        "main", schema, files, filter=f"{column} IS NULL AND {column} = 1", selection="ranges"
    )
    shown = client.inspect("main", files[1], types=schema)

    assert [each.decision for each in told.results] == ["skip", "skip", "keep"]
    assert told.results[0].rows is not None
    assert len(told.results[0].rows) == 0
    assert told.results[2].error is not None
    assert shown.kind == "file_index"
    assert shown.columns
    assert shown.columns[0].indexes[0].error is None


def test_caches_metrics_and_the_document(client: Client) -> None:
    assert client.cache()["metadata"].capacity > 0
    assert client.clear_cache()["plans"].entries == 0
    assert "paimon_index" in client.metrics()
    assert client.openapi()["openapi"].startswith("3.")


def test_the_same_through_asyncio(url: str, client: Client) -> None:
    async def ask() -> tuple[Any, ...]:
        async with AsyncClient(url) as opened:
            return await opened.describe("main.golden.versions"), await opened.schemas(
                "main.golden.evolve_append"
            )

    assert asyncio.run(ask()) == (
        client.describe("main.golden.versions"),
        client.schemas("main.golden.evolve_append"),
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("main.demo.users", ("main", "demo", "users")),
        ("main.demo.`a.b`", ("main", "demo", "a.b")),
        ("`m``x`.demo.t", ("m`x", "demo", "t")),
    ],
)
def test_names_of_tables(text: str, parts: tuple[str, ...]) -> None:
    assert TableName.parse(text) == parts


@pytest.mark.parametrize("text", ["", "users", "demo.users", "a.b.c.d", "a..c", "a.b.", "a.b.`c", "a.b.c`d"])
def test_what_is_no_name_of_a_table(text: str) -> None:
    with pytest.raises(ValueError, match="expected warehouse"):
        TableName.parse(text)


def test_the_client_loads_nothing_of_the_server() -> None:
    program = "import paimon_index, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603 - our own program

    assert {"app", "fastapi", "pydantic", "pandas", "pyspark"}.isdisjoint(loaded.stdout.split())


ROOT = Path(__file__).parents[2]


def test_every_method_is_named_on_the_page() -> None:
    page = (ROOT / "client" / "README.md").read_text()

    methods = {name for name in dir(Client) if name[0] != "_" and name != "close"}

    assert {name for name in methods if f"`{name}`" not in page} == set()

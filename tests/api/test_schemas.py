"""Schemas of a table, with full types, and the table as its versions were."""

import json
import socket
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from app.api.answers.encoding import SchemaList
from app.api.http.headers import RequestIds
from app.api.http.problems import problem_of
from app.api.runtime import Runtime
from app.errors import BusyError, DeadlineExceededError, RequestCancelledError
from app.opening import create_service
from app.planning.version.descriptions import Schema, TableDescription
from app.settings import Settings
from app.work import check_deadline
from tests import golden_cases
from tests.api.conftest import Serve, listening
from tests.api.test_endpoints import TABLES, get
from tests.api.test_errors import problem

NESTED: list[dict[str, Any]] = [
    {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
    {
        "id": 1,
        "name": "place",
        "type": {
            "type": "ROW NOT NULL",
            "fields": [
                {"id": 2, "name": "city", "type": "STRING", "description": "where"},
                {
                    "id": 3,
                    "name": "tags",
                    "type": {
                        "type": "MAP",
                        "key": "STRING NOT NULL",
                        "value": {"type": "ARRAY", "element": "INT"},
                    },
                },
            ],
        },
        "description": "of an event",
    },
]


def write_schemas(directory: Path, count: int, fields: list[dict[str, Any]]) -> None:
    (directory / "schema").mkdir(parents=True)
    for number in range(count):
        schema = {
            "version": 3,
            "id": number,
            "fields": fields,
            "partitionKeys": [],
            "primaryKeys": [],
            "options": {"bucket": "-1", "number": str(number)},
            "comment": f"schema {number}",
            "timeMillis": number,
        }
        (directory / "schema" / f"schema-{number}").write_text(json.dumps(schema))


@pytest.mark.parametrize("table", [name for name in golden_cases.tables() if name.startswith("evolve")])
def test_schemas_are_those_that_the_engine_wrote(client: httpx.Client, table: str) -> None:
    written = sorted(golden_cases.expected(table)["schemas"], key=lambda schema: schema["id"])

    found = get(client, f"{TABLES}/{table}/schemas", SchemaList)

    assert found["next_page_token"] is None
    for schema, known in zip(found["schemas"], written, strict=True):
        assert get(client, f"{TABLES}/{table}/schemas/{known['id']}", Schema) == schema
        assert (schema["id"], schema["time_millis"]) == (known["id"], known["timeMillis"])
        assert schema["options"].items() >= known["options"].items()
        assert (schema["primary_keys"], schema["partition_keys"]) == (
            known["primaryKeys"],
            known["partitionKeys"],
        )
        for column, field in zip(schema["fields"], known["fields"], strict=True):
            assert column == {
                "nullable": not str(field["type"]).endswith("NOT NULL"),
                "description": None,
                **field,
            }


def test_nested_types_are_told_in_full(serve: Serve, tmp_path: Path) -> None:
    write_schemas(tmp_path / "db.db" / "t", 1, NESTED)
    with serve(warehouses={"main": str(tmp_path)}) as client:
        described = get(client, "/v1/main/databases/db/tables/t", TableDescription)
        schema = get(client, "/v1/main/databases/db/tables/t/schemas/0", Schema)

    row = described["fields"][1]["type"]
    assert row == "ROW<`city` STRING, `tags` MAP<STRING NOT NULL, ARRAY<INT>>> NOT NULL"
    assert [column["type"] for column in schema["fields"]] == [field["type"] for field in NESTED]
    assert [column["nullable"] for column in schema["fields"]] == [False, False]
    assert "PAIMON_INDEX_ICEBERG" in described["iceberg_refusal"]


def test_many_schemas_come_in_pages(serve: Serve, tmp_path: Path) -> None:
    table = tmp_path / "db.db" / "t"
    write_schemas(table, 150, NESTED)
    path, token = "/v1/main/databases/db/tables/t/schemas", ""
    found: list[list[int]] = []
    with serve(warehouses={"main": str(tmp_path)}, page_size=60) as client:
        while not found or token:
            page = get(client, path, SchemaList, **({"page_token": token} if token else {}))
            found.append([schema["id"] for schema in page["schemas"]])
            token = page["next_page_token"]
            # Later pages are of the schemas that there were.
            (table / "schema" / "schema-150").write_text(
                (table / "schema" / "schema-149").read_text().replace('"id": 149', '"id": 150')
            )

    assert [len(page) for page in found] == [60, 60, 30]
    assert [schema_id for page in found for schema_id in page] == list(range(150))


def test_a_schema_that_goes_away_while_schemas_are_listed(serve: Serve, tmp_path: Path) -> None:
    table = tmp_path / "db.db" / "t"
    write_schemas(table, 3, NESTED)
    (table / "schema" / "schema-1").unlink()
    (table / "schema" / "schema-1").symlink_to(table / "schema" / "nowhere")
    with serve(warehouses={"main": str(tmp_path)}) as client:
        problem(client.get("/v1/main/databases/db/tables/t/schemas"), 409, "snapshot-expired")
        problem(client.get("/v1/main/databases/db/tables/t/schemas/1"), 404, "not-found")


@pytest.mark.parametrize(
    ("schema_id", "status", "slug"),
    [
        ("99", 404, "not-found"),
        ("9" * 30, 404, "not-found"),
        ("-1", 400, "malformed-request"),
        ("x", 400, "malformed-request"),
    ],
)
def test_schemas_that_are_not_there(client: httpx.Client, schema_id: str, status: int, slug: str) -> None:
    problem(client.get(f"{TABLES}/evolve_append/schemas/{schema_id}"), status, slug)


def test_a_table_is_described_as_a_version_was(client: httpx.Client) -> None:
    expected = golden_cases.expected("evolve_append")
    fields = {schema["id"]: [field["name"] for field in schema["fields"]] for schema in expected["schemas"]}
    latest = max(snapshot["id"] for snapshot in expected["snapshots"])
    for snapshot in expected["snapshots"]:
        for asked in ({"snapshot_id": snapshot["id"]}, {"timestamp_millis": snapshot["timeMillis"]}):
            found = get(client, f"{TABLES}/evolve_append", TableDescription, **asked)
            assert (found["snapshot"]["id"], found["schema_id"]) == (snapshot["id"], snapshot["schemaId"])
            assert [field["name"] for field in found["fields"]] == fields[snapshot["schemaId"]]
            assert found["latest_snapshot"]["id"] == latest
        listed = get(client, f"{TABLES}/evolve_append/schemas", SchemaList, snapshot_id=snapshot["id"])
        assert [schema["id"] for schema in listed["schemas"]] == sorted(
            schema for schema in fields if schema <= snapshot["schemaId"]
        )


def test_a_table_is_described_as_of_a_tag_and_on_a_branch(client: httpx.Client) -> None:
    expected = golden_cases.expected("versions")
    for tag, snapshot_id in expected["tags"].items():
        found = get(client, f"{TABLES}/versions", TableDescription, tag=tag)
        assert found["snapshot"]["id"] == snapshot_id
    for branch in expected["branches"]:
        found = get(client, f"{TABLES}/versions", TableDescription, branch=branch)
        assert found["snapshot"] == found["latest_snapshot"]
        assert get(client, f"{TABLES}/versions/schemas", SchemaList, branch=branch)["schemas"]
    problem(client.get(f"{TABLES}/versions?tag=nowhere"), 404, "not-found")
    problem(client.get(f"{TABLES}/versions?tag=a&snapshot_id=1"), 400, "malformed-request")


PATIENCE_SECONDS = 20


class Endless:
    """An application whose work ends only when it is told to; ``ended_by`` is what told it."""

    def __init__(self, warehouse: Path, deadline_seconds: float) -> None:
        settings = Settings.load(warehouses={"main": str(warehouse)}, deadline_seconds=deadline_seconds)
        self._runtime = Runtime.start(settings, create_service(settings))
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.ended_by: type[Exception] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        runtime = replace(self._runtime, receive=receive)
        await RequestIds(lambda *_: runtime.run(self._work))(scope, receive, send)

    def close(self) -> None:
        self._runtime.close()
        self._runtime.service.close()

    def _work(self) -> None:
        self.begun.set()
        try:
            while True:
                check_deadline()
        except DeadlineExceededError as error:
            self.ended_by = type(error)
            self.ended.set()
            raise


def test_work_ends_when_its_caller_goes_away(tmp_path: Path) -> None:
    endless = Endless(tmp_path, deadline_seconds=10 * PATIENCE_SECONDS)
    with listening(endless, lifespan="off") as client:
        with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert endless.begun.wait(PATIENCE_SECONDS)

        assert endless.ended.wait(PATIENCE_SECONDS)

    assert endless.ended_by is RequestCancelledError
    endless.close()


def test_work_ends_when_its_time_is_up(tmp_path: Path) -> None:
    endless = Endless(tmp_path, deadline_seconds=0.3)
    with listening(endless, lifespan="off") as client:
        response = client.get("/")

    assert response.status_code == 504
    assert endless.ended.wait(PATIENCE_SECONDS)
    endless.close()


class OneThread:
    """An application with one thread, which the first request holds, and a place for one that waits."""

    def __init__(self, warehouse: Path) -> None:
        settings = Settings.load(warehouses={"main": str(warehouse)}, threads=1, concurrency=2)
        self._runtime = Runtime.start(settings, create_service(settings))
        self.begun = threading.Event()
        self.released = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        runtime = replace(self._runtime, receive=receive)
        try:
            await runtime.run(self._work)
            response = Response(b"done")
        except BusyError as error:
            response = problem_of(error).response({**scope, "state": {"request_id": ""}})
        await response(scope, receive, send)

    def close(self) -> None:
        self._runtime.close()
        self._runtime.service.close()

    def _work(self) -> None:
        self.begun.set()
        assert self.released.wait(PATIENCE_SECONDS)


def test_where_no_place_is_left_the_oldest_that_waits_is_refused_for_the_newest(tmp_path: Path) -> None:
    one = OneThread(tmp_path)
    with listening(one, lifespan="off") as client, ThreadPoolExecutor(3) as callers:
        first = callers.submit(client.get, "/")
        assert one.begun.wait(PATIENCE_SECONDS)
        others = [callers.submit(client.get, "/") for _ in range(2)]
        refused, waiting = wait(others, PATIENCE_SECONDS, FIRST_COMPLETED)
        one.released.set()
        statuses = [each.result().status_code for each in (first, *refused, *waiting)]
    one.close()

    assert statuses == [200, 429, 200]
    assert refused.pop().result().headers["retry-after"] == "1"

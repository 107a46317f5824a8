"""Schemas of a table, with full types, and the table as its versions were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.api.documents import Schema, SchemaList, TableDescription
from tests import golden_tables
from tests.api.conftest import Serve
from tests.api.test_endpoints import TABLES, get
from tests.api.test_errors import problem

if TYPE_CHECKING:
    import httpx

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
    """A table of so many schemas that was never written to."""
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


@pytest.mark.parametrize("table", [name for name in golden_tables.tables() if name.startswith("evolve")])
def test_schemas_are_those_that_the_engine_wrote(client: httpx.Client, table: str) -> None:
    written = sorted(golden_tables.expected(table)["schemas"], key=lambda schema: schema["id"])

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
    expected = golden_tables.expected("evolve_append")
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
    expected = golden_tables.expected("versions")
    for tag, snapshot_id in expected["tags"].items():
        found = get(client, f"{TABLES}/versions", TableDescription, tag=tag)
        assert found["snapshot"]["id"] == snapshot_id
    for branch in expected["branches"]:
        found = get(client, f"{TABLES}/versions", TableDescription, branch=branch)
        assert found["snapshot"] == found["latest_snapshot"]
        assert get(client, f"{TABLES}/versions/schemas", SchemaList, branch=branch)["schemas"]
    problem(client.get(f"{TABLES}/versions?tag=nowhere"), 404, "not-found")
    problem(client.get(f"{TABLES}/versions?tag=a&snapshot_id=1"), 400, "malformed-request")

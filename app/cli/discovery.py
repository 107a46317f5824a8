"""``describe`` and ``schemas``: what a table is, answered without a server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from app.api.encoding import encode_schemas
from app.api.paging import Window
from app.api.queries import SchemasQuery, VersionQuery
from app.cli.options import (
    BranchOption,
    JsonOption,
    Opened,
    TableArgument,
    VersionOptions,
    WarehouseOption,
    grouped,
)
from app.cli.output import plain, print_json, print_line, print_records
from app.iceberg.refusals import reason_against

_EVERYTHING = Window(0, sys.maxsize, sys.maxsize)


@grouped
def describe(
    table: TableArgument,
    *,
    version: VersionOptions,
    as_json: JsonOption = False,
) -> None:
    """Describe a table: its schema, keys, options and indexes."""
    opened = version.open()
    selector = VersionQuery.read(version.members).selector()
    answer = opened.service.describe(opened.table(table), selector, reason_against)
    if as_json:
        print_json(answer)
        return
    description = plain(answer)
    snapshot = description["snapshot"]
    described = "no snapshot" if snapshot is None else f"snapshot {snapshot['id']}"
    print_line(
        f"{description['database']}.{description['table']}, {described}, schema {description['schema_id']}"
    )
    _print_columns(description)
    keys = {"partition keys": description["partition_keys"], "primary keys": description["primary_keys"]}
    for name, columns in keys.items():
        if columns:
            print_line(f"{name}: {', '.join(columns)}")
    print_line(f"bucket mode: {description['bucket_mode']}")
    for index in description["indexes"]:
        print_line(f"index: {index['type']} on {index['column']}")
    print_line(f"Iceberg: {description['iceberg_refusal'] or 'its clients can read the table'}")


def schemas(
    table: TableArgument,
    *,
    warehouse: WarehouseOption = None,
    schema_id: Annotated[
        int | None, typer.Option("--schema-id", min=0, help="Show only the schema of this number.")
    ] = None,
    branch: BranchOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the schemas of a table, or show one, with the full types of its columns."""
    opened = Opened.warehouse_of(warehouse)
    ref = opened.table(table)
    if schema_id is not None:
        one = opened.service.schema(ref, schema_id, branch)
        if as_json:
            print_json(one)
        else:
            _print_schemas([plain(one)])
        return
    version = opened.service.resolve(ref, SchemasQuery.read({"branch": branch}).selector())
    answer = encode_schemas(opened.service.schemas(version), _EVERYTHING, lambda _offset: None)
    if as_json:
        print_json(answer)
    else:
        _print_schemas(plain(answer)["schemas"])


def _print_schemas(schemas: Sequence[dict[str, Any]]) -> None:
    for schema in schemas:
        print_line(f"schema {schema['id']}")
        _print_columns(schema)


def _print_columns(schema: dict[str, Any]) -> None:
    print_records({name: name for name in ("id", "name", "type", "description")}, schema["fields"])

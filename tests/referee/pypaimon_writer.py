"""Writes with pypaimon what a line of JSON says, and answers with a line.

``python pypaimon_writer.py pypaimon WAREHOUSE`` runs in an environment with some release of pypaimon, and
imports nothing of the project. With ``pypaimon-rust`` in its place pypaimon tells the columns, and the other
package writes.
"""

import datetime as dt
import json
import os
import sys
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import PyarrowFieldParser

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def main(package: str, warehouse: str) -> None:
    # pypaimon prints as it likes, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    catalog = writing = CatalogFactory.create({"warehouse": warehouse})
    if package == "pypaimon-rust":
        writing = import_module("pypaimon_rust.datafusion").PaimonCatalog({"warehouse": warehouse})
    for line in sys.stdin:
        answer = {}
        try:
            request = json.loads(line)
            name = f"referee.{request['table']}"
            act(catalog.get_table(name), writing.get_table(name), request)
        except BaseException as error:  # noqa: BLE001 - whatever it says goes to the test
            answer["error"] = f"{type(error).__name__}: {error}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def act(table: Any, writing: Any, request: dict[str, Any]) -> None:
    """Do what a request says, rows by ``writing``; releases without global indexes fail."""
    column, kind = request.get("column", ""), request.get("kind", "")
    match request["do"]:
        case "write":
            write(writing, table.fields, request["rows"])
        case "index":
            create = import_module("pypaimon.globalindex.create_global_index").create_global_index
            create(table, column, index_type=kind)
        case "unindex":
            import_module("pypaimon.globalindex.drop_global_index").drop_global_index(table, column, kind)
        case "update":
            update(table, column, request["rows"], request["values"])
        case unknown:
            raise ValueError(unknown)


def update(table: Any, column: str, rows: list[int], texts: list[str | None]) -> None:
    """Give a column of some rows, named by their ids, new values."""
    field = PyarrowFieldParser.from_paimon_schema(table.fields).field(column)
    given = [value(text, field.type) for text in texts]
    values = pa.array(given, stored(field.type)).cast(field.type)
    builder = table.new_batch_write_builder()
    updating = builder.new_update().with_update_type([column])
    ids = pa.array(rows, pa.int64())
    changed = pa.table([ids, values], schema=pa.schema([("_ROW_ID", pa.int64()), field]))
    commit = builder.new_commit()
    commit.commit(updating.update_by_arrow_with_row_id(changed))
    commit.close()


def write(table: Any, fields: list[Any], rows: list[dict[str, str]]) -> None:
    """Append rows, which are objects of texts by column."""
    schema = PyarrowFieldParser.from_paimon_schema(fields)
    columns = [
        pa.array([value(row.get(field.name), field.type) for row in rows], stored(field.type)).cast(
            field.type
        )
        for field in schema
    ]
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    written = pa.RecordBatch.from_arrays(columns, schema=schema)
    is_rust = "rust" in type(table).__module__
    writer.write_arrow(written if is_rust else pa.Table.from_batches([written]))
    commit.commit(writer.prepare_commit())
    writer.close()
    if not is_rust:
        commit.close()


def stored(arrow: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(arrow) else arrow


def value(text: str | None, arrow: pa.DataType) -> Any:
    if text is None:
        return None
    if pa.types.is_timestamp(arrow):
        clock, _, fraction = text.rstrip("Z").partition(".")
        seconds = (dt.datetime.fromisoformat(f"{clock}Z") - _EPOCH) // dt.timedelta(seconds=1)
        unit = _UNITS[arrow.unit]
        return seconds * unit + int(fraction.ljust(9, "0")) * unit // 10**9
    if pa.types.is_boolean(arrow):
        return text == "true"
    if pa.types.is_date(arrow):
        return dt.date.fromisoformat(text)
    if pa.types.is_decimal(arrow):
        return Decimal(text)
    if pa.types.is_floating(arrow):
        return float(text)
    if pa.types.is_integer(arrow):
        return int(text)
    return bytes.fromhex(text) if pa.types.is_binary(arrow) else text


if __name__ == "__main__":
    main(*sys.argv[1:])

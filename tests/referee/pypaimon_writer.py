"""Writes with pypaimon what a line of JSON says, and answers with a line.

``python pypaimon_writer.py WAREHOUSE`` runs in an environment with some release of pypaimon, and imports
nothing of the project.
"""

import datetime as dt
import json
import os
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import PyarrowFieldParser

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def main(warehouse: str) -> None:
    # pypaimon prints as it likes, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    catalog = CatalogFactory.create({"warehouse": warehouse})
    for line in sys.stdin:
        answer = {}
        try:
            request = json.loads(line)
            write(catalog.get_table(f"referee.{request['table']}"), request["rows"])
        except BaseException as error:  # noqa: BLE001 - whatever it says goes to the test
            answer["error"] = f"{type(error).__name__}: {error}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def write(table: Any, rows: list[dict[str, str]]) -> None:
    """Appends rows, which are objects of texts by column."""
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    columns = [
        pa.array([value(row.get(field.name), field.type) for row in rows], stored(field.type)).cast(
            field.type
        )
        for field in schema
    ]
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_arrays(columns, schema=schema))
    commit.commit(writer.prepare_commit())
    writer.close()
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
    main(sys.argv[1])

"""Metadata in ORC and Parquet, with the columns that the engine writes for the records of an Avro schema."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from pyarrow import orc
from pyarrow import parquet as pq

_TYPES: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_TINY: Final = frozenset({"_KIND", "_FILE_SOURCE"})
_BLOCK_BYTES: Final = 256 << 10


def write_orc(
    records: Iterable[dict[str, Any]], schema: dict[str, Any], compression: str = "zstd", **options: object
) -> bytes:
    """Return a file of records of an Avro schema."""
    out = io.BytesIO()
    table = pa.Table.from_pylist(list(records), arrow_schema(schema))
    orc.write_table(table, out, compression=compression, compression_block_size=_BLOCK_BYTES, **options)
    return out.getvalue()


def write_parquet(
    records: Iterable[dict[str, Any]], schema: dict[str, Any], compression: str = "zstd", **options: object
) -> bytes:
    """Return a file of records of an Avro schema."""
    out = io.BytesIO()
    table = pa.Table.from_pylist(list(records), arrow_schema(schema))
    pq.write_table(table, out, compression=compression, store_schema=False, **options)
    return out.getvalue()


def arrow_schema(schema: dict[str, Any]) -> pa.Schema:
    """Return the columns of an Avro record: eight bits for kinds and sources, timestamps for times."""
    return pa.schema([_field(each["name"], each["type"]) for each in schema["fields"]])


def _field(name: str, kind: Any) -> pa.Field:
    match kind:
        case ["null", inner]:
            return _field(name, inner).with_nullable(True)  # noqa: FBT003 - pyarrow's own
        case {"type": "array", "items": items}:
            return pa.field(name, pa.list_(_field("element", items)), nullable=False)
        case {"type": "record"}:
            return pa.field(name, pa.struct(arrow_schema(kind)), nullable=False)
        case {"logicalType": "timestamp-millis"}:
            return pa.field(name, pa.timestamp("ms"), nullable=False)
        case _:
            return pa.field(name, pa.int8() if name in _TINY else _TYPES[kind], nullable=False)

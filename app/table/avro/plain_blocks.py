"""Blocks of Avro records decoded by fastavro: for the day on which the native reader cannot be loaded.

The records are those of :func:`app.table.avro.blocks.decode_blocks`, with the same types, in about thirty
times the time.
"""

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import orjson
import pyarrow as pa

from app.errors import CorruptMetadataError
from app.types.roaring import Buffer

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}


def decode_plainly(blocks: Sequence[tuple[int, Buffer]], schema: bytes) -> pa.StructArray:
    """The records of some blocks, in order."""
    written = orjson.loads(schema)
    parsed = fastavro.parse_schema(written)
    records: list[Any] = []
    for count, content in blocks:
        stream = io.BytesIO(content)
        try:
            records += [fastavro.schemaless_reader(stream, parsed, None) for _ in range(count)]
        except Exception as error:
            raise CorruptMetadataError(f"records cannot be decoded: {error}") from error
        if stream.tell() != len(content):
            raise CorruptMetadataError("as many records as are claimed do not fill their block")
    return pa.array(records, _arrow_type(written))


def _arrow_type(written: Any) -> pa.DataType:
    match written:
        case str():
            return _PRIMITIVES[written]
        case {"type": "array", "items": items}:
            return pa.list_(_field("item", items))
        case {"fields": fields}:
            return pa.struct([_field(field["name"], field["type"]) for field in fields])
    return _arrow_type(next(each for each in written if each != "null"))


def _field(name: str, written: Any) -> pa.Field:
    return pa.field(name, _arrow_type(written), nullable=isinstance(written, list))

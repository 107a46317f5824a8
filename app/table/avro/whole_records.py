"""Reads records with all of their fields, also those unknown to this release.

A rewritten file must keep what later releases put into its records. Manifest lists and index manifests
combine records of several files and schemas: the new file has the fields of all, nullable where some records
lack them. Decoding relies on nothing in a file's schema that :mod:`app.table.avro.schema` has not checked.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import fastavro
import orjson

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro.container import AvroBlock, open_encoded
from app.table.records.columns import ArrayOf, AsWritten, Expected, Nullable, RecordOf
from app.types.roaring import Buffer

Record: TypeAlias = dict[str, Any]


class WholeRecords(NamedTuple):
    """Records of a file. ``fields`` are the expected ones, then those that only the writer's schema has."""

    fields: RecordOf
    records: list[Record]


def read_whole(data: Buffer, expected: RecordOf) -> WholeRecords:
    """Read all records. Raises the errors of :func:`app.table.avro.container.read_columns`."""
    file = open_encoded(data, expected)
    fields = _extended_record(orjson.loads(file.schema_text), expected)
    records = [record for block in file.blocks for record, _ in decode_block(block, file.schema.text)]
    return WholeRecords(fields, records)


def has_unknown_fields(data: Buffer, expected: RecordOf) -> bool:
    """Return True if records have fields that are not expected."""
    file = open_encoded(data, expected)
    return _is_unknown(_extended_record(orjson.loads(file.schema_text), expected))


def united(one: RecordOf, other: RecordOf) -> RecordOf:
    """Merge the fields of two kinds of records. A field of only one becomes nullable."""
    first, second = one.fields, other.fields
    return RecordOf(
        {
            name: _united(first[name], second[name], name)
            if name in first and name in second
            else _nullable(expected)
            for name, expected in {**first, **second}.items()
        }
    )


def _united(one: Expected, other: Expected, name: str) -> Expected:
    match one, other:
        case (Nullable(first), Nullable(second)) | (Nullable(first), second) | (first, Nullable(second)):
            return Nullable(_united(first, second, name))
        case RecordOf(), RecordOf():
            return united(one, other)
        case ArrayOf(first), ArrayOf(second):
            return ArrayOf(_united(first, second, name))
        case _ if one == other:
            return one
        case _:
            raise UnsupportedFormatError(
                f"field {name}, which this release does not know, has two types in the table's metadata: "
                f"make the next commit with the engine"
            )


def _nullable(expected: Expected) -> Expected:
    return expected if isinstance(expected, Nullable) else Nullable(expected)


def _extended(written: Any, expected: Expected) -> Expected:
    match expected, written:
        case Nullable(inner), _:
            return Nullable(_extended(written, inner))
        case _, ["null", branch] | [branch, "null"]:
            return _extended(branch, expected)
        case ArrayOf(inner), {"type": "array", "items": items}:
            return ArrayOf(_extended(items, inner))
        case _, {"type": dict() | list() as inner}:
            return _extended(inner, expected)
        case RecordOf(), _:
            return _extended_record(written, expected)
        case _:
            return expected


def _extended_record(written: Any, expected: RecordOf) -> RecordOf:
    match written:
        case ["null", record] | [record, "null"] | {"type": dict() | list() as record}:
            return _extended_record(record, expected)
    types = {field["name"]: field["type"] for field in written["fields"]}
    fields = {
        name: _extended(types[name], inner) if name in types else inner
        for name, inner in expected.fields.items()
    }
    return RecordOf(fields | {name: _unknown(types[name]) for name in types if name not in fields})


def _unknown(written: Any) -> Expected:
    match written:
        case ["null", branch] | [branch, "null"]:
            return Nullable(_unknown(branch))
        case {"type": "array", "items": items}:
            return ArrayOf(_unknown(items))
        case {"type": "record", "fields": [*fields]}:
            return RecordOf({field["name"]: _unknown(field["type"]) for field in fields})
        case {"type": dict() | list() as inner}:
            return _unknown(inner)
        case _:
            return AsWritten(orjson.dumps(written, option=orjson.OPT_SORT_KEYS))


def _is_unknown(expected: Expected) -> bool:
    match expected:
        case AsWritten():
            return True
        case Nullable(inner) | ArrayOf(inner):
            return _is_unknown(inner)
        case RecordOf(fields):
            return any(map(_is_unknown, fields.values()))
        case _:
            return False


def decode_block(block: AvroBlock, schema: bytes) -> Iterator[tuple[Record, int]]:
    """Yield the records of a block, each with its end in the expanded block."""
    stream, end = io.BytesIO(block.expanded), 0
    for _ in range(block.count):
        try:
            record: Any = fastavro.schemaless_reader(stream, parsed(schema), None)
        except Exception as error:
            raise CorruptMetadataError(f"records cannot be decoded: {error}", offset=block.offset) from error
        end = stream.tell()
        yield record, end
    if end != len(block.expanded):
        raise CorruptMetadataError("a block has more than the records it claims", offset=block.offset)


@lru_cache(maxsize=64)
def parsed(schema: bytes) -> Any:
    """Parse a schema for fastavro."""
    return fastavro.parse_schema(orjson.loads(schema))

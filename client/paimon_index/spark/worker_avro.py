"""Code for Spark's Python workers: Avro data files, block after block.

Pickled by value together with :mod:`paimon_index.spark.worker`. pyarrow decompresses blocks, and fastavro is
imported only to read an Avro file.

The records of a block are read as one Avro array: the count, the block's bytes, and an end mark. The schema
is the file's own, without logical types except decimals. Arrow then applies these to plain numbers. Paimon
writes these types:

=================================== ========================================================================
Avro                                Arrow
=================================== ========================================================================
boolean, int, long, float, double   bool, int32, int64, float, double
string, bytes                       string, binary
int ``date``                        date32
int ``time-millis``                 time32 of milliseconds
long ``timestamp-millis``           timestamp of milliseconds, of instants and local times alike
long ``timestamp-micros``           timestamp of microseconds, of instants and local times alike
bytes ``decimal``                   decimal128
array                               list
map                                 map of strings
array of records ``key``, ``value`` map of other keys where the column is a map, else list
record                              struct
null or another type                the other type, nullable
=================================== ========================================================================
"""

from __future__ import annotations

import io
import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    _Shaping = Callable[[Any], Any]

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_BUFFER_BYTES: Final = 1 << 20
_LONGEST: Final = 10
"""Most bytes of a 64-bit number."""
_MORE: Final = 0x80
"""Bit that is set in a byte if more bytes of the number follow."""
_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


def avro_blocks(
    source: Any,
    target: pa.Schema,
) -> Iterator[tuple[int, Callable[[], pa.Table]]]:
    """Yield row counts of blocks, and functions that read them in the file's types.

    Columns that the file lacks are omitted. Raises ValueError if it is damaged, or not an Avro file as Paimon
    writes it. Raises ModuleNotFoundError if fastavro is not installed here.
    """
    stream = pa.BufferedInputStream(source, _BUFFER_BYTES)
    if _take(stream, len(_MAGIC)) != _MAGIC:
        raise ValueError("expected an Avro file, which begins with Obj")
    header = _header(stream)
    sync = _take(stream, _SYNC_BYTES)
    schema, codec = json.loads(header.get("avro.schema", b"null")), header.get("avro.codec", b"null").decode()
    decode = _avro_rows(schema, target)
    while (count := _number(stream, may_end=True)) is not None:
        content = _take(stream, _number(stream) or 0)
        if _take(stream, _SYNC_BYTES) != sync:
            raise ValueError("expected the file's sync marker after a block of Avro")

        def load(count: int = count, content: bytes = content) -> pa.Table:
            return decode(count, _expanded(codec, content))

        yield count, load


def _expanded(codec: str, content: bytes) -> bytes:
    match codec:
        case "null":
            return content
        case "deflate":
            return zlib.decompress(content, -zlib.MAX_WBITS)
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                return bytes(stream.read())
        case "bzip2":
            with pa.CompressedInputStream(pa.BufferReader(content), "bz2") as stream:
                return bytes(stream.read())
        case "snappy":
            # Snappy begins with the length, seven bits a byte; Avro appends a checksum.
            length = shift = 0
            for byte in content[:_LONGEST]:
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < _MORE:
                    break
            return bytes(pa.decompress(content[:-4], length, "snappy", asbytes=True))
    raise ValueError(f"Avro files compressed as {codec} are not read")


def _header(stream: Any) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    while count := _number(stream) or 0:
        if count < 0:  # its bytes are counted, too
            _number(stream)
        for _ in range(abs(count)):
            name = _take(stream, _number(stream) or 0).decode()
            entries[name] = _take(stream, _number(stream) or 0)
    return entries


def _number(stream: Any, *, may_end: bool = False) -> int | None:
    """Read a number. Return None at the end of the file if ``may_end``."""
    packed = 0
    for place in range(_LONGEST):
        byte: bytes = stream.read(1)
        if not byte and not place and may_end:
            return None
        if not byte:
            break
        packed |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < _MORE:
            return (packed >> 1) ^ -(packed & 1)
    raise ValueError("expected a number in an Avro file, found its end")


def _take(stream: Any, length: int) -> bytes:
    content: bytes = stream.read(length) if length >= 0 else b""
    if length < 0 or len(content) != length:
        raise ValueError(f"expected {length} bytes more in an Avro file, found {len(content)}")
    return content


def _avro_rows(schema: Any, target: pa.Schema) -> Callable[[int, bytes], pa.Table]:
    """Return a function that reads the records of a block from their count and bytes."""
    try:
        import fastavro  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ModuleNotFoundError(
            "the table has Avro data files, which Spark's Python workers read with fastavro: pip install "
            "'fastavro>=1.12' where the workers run"
        ) from error
    record = _of_row(schema)
    present = {field["name"]: field for field in record["fields"]}
    columns = {
        name: _column(present[name]["type"], target.field(name).type)
        for name in target.names
        if name in present
    }
    plain = _plain(record)
    chosen = {**plain, "fields": [each for each in plain["fields"] if each["name"] in columns]}
    # Up to release 1.0 a row is a union of null and a record, with a byte in front that selects the record;
    # none is null.
    in_file, read = (
        fastavro.parse_schema({"type": "array", "items": ["null", each] if record is not schema else each})
        for each in (plain, chosen)
    )

    def decode(count: int, content: bytes) -> pa.Table:
        packed = io.BytesIO(_packed(count) + content + b"\x00")
        rows: Any = fastavro.schemaless_reader(packed, in_file, read) if count else []
        if len(rows) != count or (count and packed.tell() != len(packed.getbuffer())) or None in rows:
            raise ValueError(f"expected {count} rows in a block of Avro of {len(content)} bytes")
        if not columns:
            return pa.table({"": pa.nulls(count)})
        return pa.table(
            {
                name: pa.array(
                    [row[name] if shaped is None else shaped(row[name]) for row in rows], data_type
                )
                for name, (data_type, shaped) in columns.items()
            }
        )

    return decode


def _of_row(schema: Any) -> dict[str, Any]:
    record = _present(schema)
    if not isinstance(record, dict) or record.get("type") != "record":
        raise ValueError("expected an Avro file of records")
    return record


def _present(schema: Any) -> Any:
    if not isinstance(schema, list):
        return schema
    types = [each for each in schema if each != "null"]
    if len(types) != 1:
        raise ValueError(f"expected one type and null in Avro, found {schema!r:.200}")
    return types[0]


def _column(schema: Any, target: pa.DataType) -> tuple[pa.DataType, _Shaping | None]:
    """Return the Arrow type of a column in the file, and a converter of fastavro's values, if any is needed.

    ``target``: the final type. An array of pairs may be a map of it.
    """
    schema = _present(schema)
    match schema:
        case str() if schema in _SIMPLE:
            return _SIMPLE[schema], None
        case {"type": "array", "items": items} if pa.types.is_map(target):
            parts = {field["name"]: field["type"] for field in _of_row(items)["fields"]}
            keys, of_key = _column(parts["key"], target.key_type)
            values, of_value = _column(parts["value"], target.item_type)
            return pa.map_(keys, values), _pairs(of_key, of_value)
        case {"type": "array", "items": items}:
            inner, of_item = _column(items, target.value_type)
            return pa.list_(inner), of_item and (lambda value: value and [of_item(each) for each in value])
        case {"type": "map", "values": values}:
            inner, of_value = _column(values, target.item_type)
            return pa.map_(pa.string(), inner), _pairs(None, of_value)
        case {"type": "record", "fields": fields}:
            columns = {
                field["name"]: _column(field["type"], target.field(field["name"]).type) for field in fields
            }
            changed = {name: shaping for name, (_, shaping) in columns.items() if shaping is not None}
            kind = pa.struct([(name, data_type) for name, (data_type, _) in columns.items()])
            return kind, _fields(changed) if changed else None
        case {"type": "bytes", "logicalType": "decimal", "precision": precision, **rest}:
            return pa.decimal128(precision, rest.get("scale", 0)), None
        case {"type": str() as name, "logicalType": logical} if (name, logical) in _LOGICAL:
            return _LOGICAL[name, logical], None
        case {"type": inner, **rest} if "logicalType" not in rest:
            return _column(inner, target)
    raise ValueError(f"Paimon does not write the Avro type {schema!r:.200}")


def _pairs(of_key: _Shaping | None, of_value: _Shaping | None) -> _Shaping:
    """Make a converter of maps to lists of pairs, which Arrow expects. Null stays null."""

    def shaped(value: Any) -> Any:
        if value is None:
            return None
        pairs = value.items() if isinstance(value, dict) else ((each["key"], each["value"]) for each in value)
        return [((of_key or _same)(key), (of_value or _same)(item)) for key, item in pairs]

    return shaped


def _fields(changed: Mapping[str, _Shaping]) -> _Shaping:
    return lambda row: row and row | {name: shaped(row[name]) for name, shaped in changed.items()}


def _same(value: Any) -> Any:
    return value


def _plain(schema: Any) -> Any:
    """Remove logical types except decimals, for which fastavro would create objects."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] == "record":
        # Defaults are for readers of other schemas.
        return {
            "type": "record",
            "name": schema["name"],
            "fields": [{"name": field["name"], "type": _plain(field["type"])} for field in schema["fields"]],
        }
    attributes = {name: part for name, part in schema.items() if name != "logicalType" or part == "decimal"}
    return {name: _plain(part) if name in ("items", "values") else part for name, part in attributes.items()}


def _packed(number: int) -> bytes:
    rest, content = number << 1, bytearray()
    while rest >= _MORE:
        content.append(rest & 0x7F | _MORE)
        rest >>= 7
    return bytes([*content, rest])

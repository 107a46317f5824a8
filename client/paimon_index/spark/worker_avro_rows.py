"""What runs in Spark's Python workers for Avro data files: records as tables of Arrow, with fastavro.

Pickled by value together with :mod:`paimon_index.spark.worker`. fastavro is imported where an Avro file is
read, and nowhere else.

Records of a block become the items of one Avro array: its count, the block's bytes as they are, and an end.
They are read as the file's own schema says, without its logical types but decimals, which Arrow then puts on
plain numbers. Paimon writes these types:

=================================== ========================================================================
Avro                                Arrow
=================================== ========================================================================
boolean, int, long, float, double   the same
string, bytes                       the same
int ``date``                        date32
int ``time-millis``                 time32 of milliseconds
long ``timestamp-millis``           timestamp of milliseconds, of instants and local times alike
long ``timestamp-micros``           timestamp of microseconds, likewise
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
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    _Shaping = Callable[[Any], Any]

_MORE: Final = 0x80
"""Bit of a byte after which more of a number follow."""
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


def avro_rows(schema: Any, wanted: pa.Schema) -> Callable[[int, bytes], pa.Table]:
    """A function that reads some columns of the records of a block, by their count and their bytes.

    Args:
        schema: of the file.
        wanted: the columns; those that the file lacks are left out. Values come in the file's types.

    Raises:
        ValueError: Paimon writes no such schema, or a block is damaged.
        ModuleNotFoundError: fastavro is not installed here.
    """
    try:
        import fastavro  # noqa: PLC0415 - as above
    except ImportError as error:
        raise ModuleNotFoundError(
            "the table has Avro data files, which Spark's Python workers read with fastavro: pip install "
            "'fastavro>=1.12' where the workers run"
        ) from error
    record = _of_row(schema)
    there = {field["name"]: field for field in record["fields"]}
    columns = {
        name: _column(there[name]["type"], wanted.field(name).type) for name in wanted.names if name in there
    }
    plain = _plain(record)
    chosen = {**plain, "fields": [each for each in plain["fields"] if each["name"] in columns]}
    # Up to release 1.0 a row is one of null or a record, told by a byte in front of it; none is null.
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
    """A type without null as its alternative."""
    if not isinstance(schema, list):
        return schema
    others = [each for each in schema if each != "null"]
    if len(others) != 1:
        raise ValueError(f"expected one type and null in Avro, found {schema!r:.200}")
    return others[0]


def _column(schema: Any, wanted: pa.DataType) -> tuple[pa.DataType, _Shaping | None]:
    """The Arrow type of a column in the file, and what makes Arrow's values of fastavro's where they differ.

    Args:
        schema: its Avro type.
        wanted: the type that it is to have in the end; an array of pairs may be a map of it.
    """
    schema = _present(schema)
    match schema:
        case str() if schema in _SIMPLE:
            return _SIMPLE[schema], None
        case {"type": "array", "items": items} if pa.types.is_map(wanted):
            parts = {field["name"]: field["type"] for field in _of_row(items)["fields"]}
            keys, of_key = _column(parts["key"], wanted.key_type)
            values, of_value = _column(parts["value"], wanted.item_type)
            return pa.map_(keys, values), _Pairs(of_key, of_value)
        case {"type": "array", "items": items}:
            inner, of_item = _column(items, wanted.value_type)
            return pa.list_(inner), None if of_item is None else _Items(of_item)
        case {"type": "map", "values": values}:
            inner, of_value = _column(values, wanted.item_type)
            return pa.map_(pa.string(), inner), _Pairs(None, of_value)
        case {"type": "record", "fields": fields}:
            columns = {
                field["name"]: _column(field["type"], wanted.field(field["name"]).type) for field in fields
            }
            changed = {name: shaping for name, (_, shaping) in columns.items() if shaping is not None}
            kind = pa.struct([(name, data_type) for name, (data_type, _) in columns.items()])
            return kind, _Fields(changed) if changed else None
        case {"type": "bytes", "logicalType": "decimal", "precision": precision, **rest}:
            return pa.decimal128(precision, rest.get("scale", 0)), None
        case {"type": str() as name, "logicalType": logical} if (name, logical) in _LOGICAL:
            return _LOGICAL[name, logical], None
        case {"type": inner, **rest} if "logicalType" not in rest:
            return _column(inner, wanted)
    raise ValueError(f"Paimon does not write the Avro type {schema!r:.200}")


class _Pairs:
    """A map is a list of pairs to Arrow; null stays null here and below."""

    def __init__(self, of_key: _Shaping | None, of_value: _Shaping | None) -> None:
        self._of_key, self._of_value = of_key or _same, of_value or _same

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        pairs = value.items() if isinstance(value, dict) else ((each["key"], each["value"]) for each in value)
        return [(self._of_key(key), self._of_value(each)) for key, each in pairs]


class _Items:
    """An array of what has maps in it."""

    def __init__(self, of_item: _Shaping) -> None:
        self._of_item = of_item

    def __call__(self, value: Any) -> Any:
        return None if value is None else [self._of_item(each) for each in value]


class _Fields:
    """A row with fields that have maps in them."""

    def __init__(self, of_fields: dict[str, _Shaping]) -> None:
        self._of_fields = of_fields

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        return value | {name: shaping(value[name]) for name, shaping in self._of_fields.items()}


def _same(value: Any) -> Any:
    return value


def _plain(schema: Any) -> Any:
    """A type without logical types but decimals, whose values fastavro would make objects of."""
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
    kept = {name: part for name, part in schema.items() if name != "logicalType" or part == "decimal"}
    return {name: _plain(part) if name in ("items", "values") else part for name, part in kept.items()}


def _packed(number: int) -> bytes:
    left, content = number << 1, bytearray()
    while left >= _MORE:
        content.append(left & 0x7F | _MORE)
        left >>= 7
    return bytes([*content, left])

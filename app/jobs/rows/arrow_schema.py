"""The Arrow schema of the engine's Parquet files.

=========================================  ===============================================================
column                                     field id
=========================================  ===============================================================
``_KEY_<column>`` of the trimmed key       1073741823 + the column's
``_SEQUENCE_NUMBER`` BIGINT                2147483646
``_VALUE_KIND`` TINYINT                    2147483645; 0 ``+I``, 1 ``-U``, 2 ``+U``, 3 ``-D``
every column of the table                  the column's
element of an array at depth d             536870911 + 1024 * the column's + d
key of a map at depth d                    536870911 - 1024 * the column's - d
value of a map at depth d                  536870911 + 1024 * the column's + d
field of a row                             its own
=========================================  ===============================================================

The first three only in files of tables with a primary key.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from app.table.schema.schema import TableSchema
from app.types import DataType
from app.types.data_types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, TypeRoot

_FIELD_ID: Final = b"PARQUET:field_id"
_KEY_ID: Final = 0x3FFFFFFF
_SEQUENCE_ID: Final = 0x7FFFFFFE
_KIND_ID: Final = 0x7FFFFFFD
_NESTED_ID: Final = 0x1FFFFFFF
_DEPTHS: Final = 1024
_SIMPLE: Final = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    **dict.fromkeys(STRING_ROOTS, pa.string()),
    **dict.fromkeys(BINARY_ROOTS, pa.binary()),
}


def file_schema(schema: TableSchema) -> pa.Schema:
    """The schema of new data files.

    Args:
        schema: of the table; its columns have types that can be written.
    """
    fields = [_field(column.name, column.type, column.id) for column in schema.fields]
    if not schema.primary_keys:
        return pa.schema(fields)
    keys = [
        _with_id(f"_KEY_{column.name}", arrow_type(column.type, column.id), _KEY_ID + column.id)
        for column in schema.trimmed_primary_keys
    ]
    system = [
        _with_id("_SEQUENCE_NUMBER", pa.int64(), _SEQUENCE_ID),
        _with_id("_VALUE_KIND", pa.int8(), _KIND_ID),
    ]
    return pa.schema([*keys, *system, *fields])


def arrow_type(data_type: DataType, field_id: int, depth: int = 1) -> pa.DataType:
    """The Arrow type of a column or of a part of it.

    Args:
        data_type: Paimon's.
        field_id: of the column or field that it is the type of, or stands in.
        depth: of what stands right inside of it.
    """
    root = data_type.root
    nested_id = field_id * _DEPTHS + depth
    match root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(data_type.precision, data_type.scale)
        case TypeRoot.ARRAY:
            (element,) = data_type.children
            inner = arrow_type(element, field_id, depth + 1)
            return pa.list_(_with_id("element", inner, _NESTED_ID + nested_id, nullable=element.nullable))
        case TypeRoot.MAP:
            key, value = data_type.children
            return pa.map_(
                _with_id("key", arrow_type(key, field_id, depth + 1), _NESTED_ID - nested_id),
                _with_id(
                    "value",
                    arrow_type(value, field_id, depth + 1),
                    _NESTED_ID + nested_id,
                    nullable=value.nullable,
                ),
            )
        case TypeRoot.ROW:
            return pa.struct([_field(each.name, each.type, each.id) for each in data_type.fields])
        case _ if root in TIMESTAMP_ROOTS:
            zone = "UTC" if root is TypeRoot.TIMESTAMP_LTZ else None
            return pa.timestamp("ms" if data_type.is_compact_timestamp else "us", zone)
        case _:
            return _SIMPLE[root]


def _field(name: str, data_type: DataType, field_id: int) -> pa.Field:
    return _with_id(name, arrow_type(data_type, field_id), field_id, nullable=data_type.nullable)


def _with_id(name: str, data_type: pa.DataType, field_id: int, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, data_type, nullable=nullable, metadata={_FIELD_ID: str(field_id).encode()})

"""Paimon's data types, their values, and the order of values."""

from app.types.bytes_column import NULL_LENGTH, BytesColumn, own_bytes
from app.types.data_types import (
    BINARY_ROOTS,
    FLOATING_ROOTS,
    INTEGER_BITS,
    NESTED_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    WHOLE_ROOTS,
    DataField,
    DataType,
    TypeRoot,
    parse_type,
)
from app.types.json_answers import Json, to_json, type_json
from app.types.json_values import parse_json
from app.types.values import Value, sql_key

__all__ = [
    # BINARY, VARBINARY and BYTES.
    "BINARY_ROOTS",
    # FLOAT and DOUBLE.
    "FLOATING_ROOTS",
    # The whole-number types with their widths in bits.
    "INTEGER_BITS",
    # ARRAY, MULTISET, MAP and ROW, and types without values in this release.
    "NESTED_ROOTS",
    # The length that stands for NULL.
    "NULL_LENGTH",
    # CHAR and VARCHAR, which includes STRING.
    "STRING_ROOTS",
    # TIMESTAMP with and without local time zone.
    "TIMESTAMP_ROOTS",
    # Types of whole numbers that fit 64 bits, without timestamps and decimals.
    "WHOLE_ROOTS",
    # Many byte strings as one column.
    "BytesColumn",
    # A column: its id, name and type.
    "DataField",
    # A type with its parameters.
    "DataType",
    # A parsed JSON value.
    "Json",
    # The kind of a type, without its parameters.
    "TypeRoot",
    # A value of a column that is not NULL.
    "Value",
    # Memory of an array, without mapped files.
    "own_bytes",
    # Reads a JSON value as a value of a type.
    "parse_json",
    # Reads a type from its text or JSON form.
    "parse_type",
    # The key function under which values of a type compare as Spark SQL compares them.
    "sql_key",
    # The form that a value has in answers.
    "to_json",
    # The form that a type has in answers.
    "type_json",
]

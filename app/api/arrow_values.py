"""Partition values in Arrow's types.

==================================  ============================================================
column's type                       Arrow's
==================================  ============================================================
BOOLEAN                             bool
TINYINT, SMALLINT, INT, BIGINT      int8, int16, int32, int64
FLOAT, DOUBLE                       float, double
DECIMAL(p, s)                       decimal128(p, s)
CHAR, VARCHAR, STRING               string
BINARY, VARBINARY, BYTES            binary
DATE                                date32
TIME                                time32, milliseconds
TIMESTAMP(p), p up to 6             timestamp, microseconds, without a zone
TIMESTAMP_LTZ(p), p up to 6         timestamp, microseconds, UTC
timestamps with p of 7 to 9         string, as in JSON: 64 bits of nanoseconds end in the year 2262
==================================  ============================================================
"""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa

from app.types import DataType, Json, TypeRoot, parse_json
from app.types.time_units import NANOS_PER_MICRO

_TYPES = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}
_TIMESTAMPS = {
    TypeRoot.TIMESTAMP: pa.timestamp("us"),
    TypeRoot.TIMESTAMP_LTZ: pa.timestamp("us", tz="UTC"),
}
_MICROSECONDS = 6
_EXACT = decimal.Context(prec=100)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that values of a partition column get."""
    if data_type.root is TypeRoot.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.root in _TIMESTAMPS and data_type.precision <= _MICROSECONDS:
        return _TIMESTAMPS[data_type.root]
    return _TYPES.get(data_type.root, pa.string())


def arrow_value(value: Json, data_type: DataType) -> Any:  # noqa: ANN401 - what pyarrow takes for the type
    """A partition value of an answer as pyarrow takes it for :func:`arrow_type`."""
    if value is None:
        return None
    if arrow_type(data_type) == pa.string():
        return value
    held = parse_json(value, data_type)
    match data_type.root:
        case TypeRoot.DECIMAL if isinstance(held, int):
            return decimal.Decimal(held).scaleb(-data_type.scale, _EXACT)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if isinstance(held, int):
            return held // NANOS_PER_MICRO
        case _:
            return held

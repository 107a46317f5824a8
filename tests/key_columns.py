"""Columns to be indexed, made of values in the form of :mod:`app.types.values`."""

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Final

import pyarrow as pa

from app.file_index.keys.key_column import KeyColumn
from app.types import DataType, TypeRoot, Value
from app.types.civil_time import NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.data_types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS

_ENOUGH: Final = Context(prec=40)
_ARROW_TYPES: Final = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.int32(),
    TypeRoot.TIME: pa.int32(),
}


def arrow_array(values: Sequence[Value | None], data_type: DataType) -> pa.Array:
    """Return an array of some values, as a reader of data files would give it."""
    root = data_type.root
    if root in STRING_ROOTS:
        return pa.array(values, pa.binary()).cast(pa.string())
    if root in BINARY_ROOTS:
        return pa.array(values, pa.binary())
    if root in TIMESTAMP_ROOTS:
        # Nanoseconds do not reach far; the units of the keys do.
        unit, nanos = ("ms", NANOS_PER_MILLI) if data_type.is_compact_timestamp else ("us", NANOS_PER_MICRO)
        units = [None if value is None else int(value) // nanos for value in values]
        return pa.array(units, pa.timestamp(unit))
    if root is TypeRoot.DECIMAL:
        decimals = [
            None if value is None else Decimal(int(value)).scaleb(-data_type.scale, _ENOUGH)
            for value in values
        ]
        return pa.array(decimals, pa.decimal128(data_type.precision, data_type.scale))
    return pa.array(values, _ARROW_TYPES[root])


def key_column(values: Sequence[Value | None], data_type: DataType, name: str = "c") -> KeyColumn:
    return KeyColumn.of(arrow_array(values, data_type), data_type, name)

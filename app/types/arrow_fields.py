"""Converts Arrow arrays to fields of binary rows, in the forms of :mod:`app.types.values`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.types.binary_row.rows import FieldValues, write_rows
from app.types.civil_time import NANOS_PER_UNIT
from app.types.data_types import (
    BINARY_ROOTS,
    FLOATING_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from app.types.values import INT64, Values

_WORD: Final = np.dtype("<i8")
_ARITY: Final = np.dtype(">i4")


def field_values(array: pa.Array, data_type: DataType) -> FieldValues:
    """Convert an array, with or without nulls, to a field of rows.

    ``array`` is, as ``data_type`` requires, of bool, integers, float, double, decimal128 of the type's scale,
    string, binary, date32, time32 or timestamps. Nested types are not supported.
    """
    return FieldValues(data_type, _values(array, data_type), np.asarray(array.is_null()))


def serialized_rows(fields: Sequence[FieldValues], count: int) -> pa.BinaryArray:
    """Serialize rows, each after its number of fields, shape (count,). Each field has ``count`` values."""
    arity = np.array([len(fields)], _ARITY).view(np.uint8)
    parts, positions = [], []
    for group in write_rows(fields, count):
        head = np.broadcast_to(arity, (len(group.rows), arity.size))
        rows = np.ascontiguousarray(np.concatenate([head, group.rows], axis=1))
        fixed = pa.Array.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows)])
        parts.append(fixed.cast(pa.binary()))
        positions.append(group.positions)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(positions))))


def _values(array: pa.Array, data_type: DataType) -> Values:
    root = data_type.root
    if root in STRING_ROOTS | BINARY_ROOTS:
        return array.cast(pa.binary()).cast(pa.large_binary())
    if root is TypeRoot.BOOLEAN:
        return np.asarray(array.cast(pa.int8()).fill_null(0)).astype(np.bool_)
    if root in FLOATING_ROOTS:
        return np.asarray(array.fill_null(0.0)).astype(np.float64)
    if root is TypeRoot.DECIMAL:
        return _unscaled(array)
    if root in TIMESTAMP_ROOTS:
        return _scaled(np.asarray(array.cast(pa.int64()).fill_null(0)), NANOS_PER_UNIT[array.type.unit])
    if root in (TypeRoot.DATE, TypeRoot.TIME):
        array = array.cast(pa.int32())
    return np.asarray(array.fill_null(0)).astype(np.int64)


def _scaled(numbers: NDArray[np.int64], factor: int) -> NDArray[Any]:
    limit = INT64.max // factor
    if len(numbers) and (numbers.min() < -limit or numbers.max() > limit):
        return numbers.astype(object) * factor
    return numbers * factor


def _unscaled(array: pa.Array) -> NDArray[Any]:
    words = np.frombuffer(array.buffers()[1] or b"", _WORD).reshape(-1, 2)
    words = words[array.offset : array.offset + len(array)]
    is_null = np.asarray(array.is_null())
    lower, upper = np.where(is_null, 0, words[:, 0]), np.where(is_null, 0, words[:, 1])
    if np.array_equal(upper, lower >> 63):
        return lower
    boxed: NDArray[np.object_] = (upper.astype(object) << 64) + lower.view(np.uint64).astype(object)
    return boxed

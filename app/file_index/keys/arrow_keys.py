"""The keys of an Arrow array, as Parquet, ORC and Avro readers give them for each of Paimon's types.

=========================================  =================================================================
type                                       Arrow types
=========================================  =================================================================
BOOLEAN                                    bool
TINYINT, SMALLINT, INT, BIGINT             integers of any width
FLOAT; DOUBLE                              float; double
DECIMAL(p, s)                              decimals of scale s and any width
CHAR, VARCHAR                              string, large_string, string_view
BINARY, VARBINARY                          binary, large_binary, binary_view, fixed_size_binary
DATE                                       date32, int32 (days)
TIME                                       time32, time64, int32 (milliseconds)
TIMESTAMP, TIMESTAMP_LTZ                   timestamp of any unit, with and without a zone
=========================================  =================================================================

Dictionaries of these are accepted too, and so is the null type if no row has a value. Zones change nothing:
Arrow counts from the epoch with and without one, as Paimon does. Timestamps finer than their keys are cut, as
the engine cuts them. Any other value that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from app.file_index.keys.keys import FloatingKeys, IntegerKeys, KeySpace
from app.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    BytesColumn,
    DataType,
    TypeRoot,
)
from app.types.civil_time import NANOS_PER_MILLI, NANOS_PER_UNIT
from app.types.values import INT64

Integers: TypeAlias = "NDArray[np.signedinteger[Any]]"

ArrowKeys: TypeAlias = "Integers | BytesColumn"
"""Keys of many rows: integers in the width of a stored key, or byte strings without nulls."""

Refuse: TypeAlias = "Callable[[int, str], NoReturn]"
"""Raises the error about the value at an index, given the range that would have fitted."""

_TESTS: Final[dict[TypeRoot, tuple[Callable[[pa.DataType], bool], ...]]] = {
    **dict.fromkeys(INTEGER_BITS, (types.is_integer,)),
    **dict.fromkeys(TIMESTAMP_ROOTS, (types.is_timestamp,)),
    **dict.fromkeys(STRING_ROOTS, (types.is_string, types.is_large_string, types.is_string_view)),
    **dict.fromkeys(
        BINARY_ROOTS,
        (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
    ),
    TypeRoot.BOOLEAN: (types.is_boolean,),
    TypeRoot.FLOAT: (types.is_float32,),
    TypeRoot.DOUBLE: (types.is_float64,),
    TypeRoot.DATE: (types.is_date32, types.is_int32),
    TypeRoot.TIME: (types.is_time, types.is_int32),
    TypeRoot.DECIMAL: (types.is_decimal,),
}


def accepts(array_type: pa.DataType, data_type: DataType) -> bool:
    """Return True if arrays of an Arrow type can hold the values of a type."""
    if types.is_dictionary(array_type):
        array_type = array_type.value_type
    if types.is_decimal(array_type) and array_type.scale != data_type.scale:
        return False
    return types.is_null(array_type) or any(test(array_type) for test in _TESTS.get(data_type.root, ()))


def read_keys(chunks: Sequence[pa.Array], data_type: DataType, space: KeySpace, refuse: Refuse) -> ArrowKeys:
    """Read the keys of all values of an array, in order.

    ``chunks``: arrays of one accepted type, no dictionaries. Nulls are skipped. ``refuse``: called for a
    value that does not fit the type, with its index among the values.
    """
    parts = [chunk.drop_null() for chunk in chunks if chunk.null_count < len(chunk)]
    match space:
        case IntegerKeys() | FloatingKeys():
            stored = np.dtype(space.stored.format).newbyteorder("=")
            numbers = _concat([_numbers(part) for part in parts]) if parts else np.zeros(0, stored)
            keys = _fit(numbers, parts, data_type, space, refuse)
            return keys.astype(stored, copy=False)
        case _:
            return BytesColumn.concat([_strings(part) for part in parts] or [BytesColumn.of([])])


def _concat(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _strings(part: pa.Array) -> BytesColumn:
    # Views, and strings of one width, have no offsets to share.
    has_offsets = types.is_binary(part.type) or types.is_string(part.type)
    is_large = types.is_large_binary(part.type) or types.is_large_string(part.type)
    return BytesColumn.from_arrow(part if has_offsets or is_large else part.cast(pa.large_binary()))


def _numbers(part: pa.Array) -> NDArray[Any]:
    """Return the integers that Arrow stores, shape (n,). For decimals, return words, lowest first: (n, w)."""
    if types.is_boolean(part.type):
        part = part.cast(pa.int8())
    if types.is_integer(part.type):
        return np.asarray(part)
    # NumPy has no decimals, and Arrow's dates and times are needed as plain integers.
    word = np.dtype(f"<i{min(part.type.byte_width, 8)}")
    words = np.frombuffer(part.buffers()[1], word).reshape(-1, part.type.byte_width // word.itemsize)
    words = words[part.offset : part.offset + len(part)]
    return words if types.is_decimal(part.type) else words[:, 0]


def _fit(
    numbers: NDArray[Any],
    parts: Sequence[pa.Array],
    data_type: DataType,
    space: IntegerKeys | FloatingKeys,
    refuse: Refuse,
) -> NDArray[Any]:
    if not parts:
        return numbers
    if isinstance(space, FloatingKeys):
        keys = space.reorder(numbers)
        # All NaNs share one key, as in Java.
        return np.where((keys < ~space.infinity) | (keys > space.infinity), space.nan, keys)
    array_type = parts[0].type
    if data_type.root is TypeRoot.DECIMAL:
        return _decimals(numbers, data_type, refuse)
    if types.is_timestamp(array_type):
        return _rescaled(numbers, NANOS_PER_UNIT[array_type.unit], space.unit, refuse)
    if types.is_time(array_type):
        in_millis = _rescaled(numbers, NANOS_PER_UNIT[array_type.unit], NANOS_PER_MILLI, refuse)
        back = _rescaled(in_millis, NANOS_PER_MILLI, NANOS_PER_UNIT[array_type.unit], refuse)
        _check(back == numbers, "whole milliseconds", refuse)
        return in_millis
    bounds = np.iinfo(np.dtype(space.stored.format))
    _check_bounds(numbers, bounds.min, bounds.max, refuse)
    return numbers


def _decimals(words: NDArray[Any], data_type: DataType, refuse: Refuse) -> NDArray[Any]:
    unscaled, above = words[:, 0], words[:, 1:]
    if above.shape[1]:
        sign = unscaled >> (8 * unscaled.itemsize - 1)
        _check((above == sign[:, None]).all(axis=1), "an unscaled value of 64 bits", refuse)
    if data_type.is_compact_decimal:
        largest = 10**data_type.precision - 1
        _check_bounds(unscaled, -largest, largest, refuse)
    return unscaled


def _rescaled(
    numbers: NDArray[Any], nanos_from: int, nanos_to: int, refuse: Refuse
) -> NDArray[np.signedinteger[Any]]:
    if nanos_from <= nanos_to:
        return numbers if nanos_from == nanos_to else numbers // (nanos_to // nanos_from)
    factor = nanos_from // nanos_to
    _check_bounds(numbers, -(-INT64.min // factor), INT64.max // factor, refuse)
    return numbers.astype(np.int64) * factor


def _check_bounds(numbers: NDArray[Any], low: int, high: int, refuse: Refuse) -> None:
    if len(numbers) and (numbers.min() < low or numbers.max() > high):
        _check((numbers >= low) & (numbers <= high), f"{low} to {high}", refuse)


def _check(fits: NDArray[np.bool_], expected: str, refuse: Refuse) -> None:
    if not fits.all():
        refuse(int(np.argmin(fits)), expected)

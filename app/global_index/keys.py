"""Keys of global indexes: the serialized form of values, and their order in files.

========================================  ================================================================
type                                      serialized, little endian
========================================  ================================================================
BOOLEAN                                   1 byte
TINYINT, SMALLINT, INT, BIGINT            1, 2, 4, 8 bytes
DATE, TIME                                4 bytes: days, milliseconds
FLOAT, DOUBLE                             4, 8 bytes: the IEEE bits
DECIMAL of up to 18 digits                8 bytes: the unscaled value
DECIMAL of more digits                    the unscaled value, big endian, as short as can be
TIMESTAMP, TIMESTAMP_LTZ with p <= 3      8 bytes: milliseconds
TIMESTAMP, TIMESTAMP_LTZ with p > 3       8 bytes: milliseconds; varint: nanoseconds within them
CHAR, VARCHAR                             UTF-8
========================================  ================================================================

In memory they are the keys of file indexes (:mod:`app.file_index.keys.keys`), except that both zeros are 0:
the engine orders -0.0 below 0.0, but pypaimon writes them as one key. Keys of timestamps finer than
microseconds are lossy, since pypaimon cuts them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.keys import FloatingKeys, Key, key_space
from app.global_index.blocks import read_varints, write_varint
from app.types import STRING_ROOTS, TIMESTAMP_ROOTS, DataType, TypeRoot
from app.types.civil_time import NANOS_PER_MICRO, NANOS_PER_MILLI

_WIDTHS: Final = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DECIMAL: 8,
}
_MILLIS: Final = struct.Struct("<q")
_MICROS_PER_MILLI: Final = NANOS_PER_MILLI // NANOS_PER_MICRO
_INT64: Final = np.iinfo(np.int64)

Keys = NDArray[Any]
"""Keys of many entries: int64, or objects where they are byte strings or may be larger integers."""


def takes(data_type: DataType) -> bool:
    """Return True if global indexes hold values of a type."""
    return data_type.root in _WIDTHS or data_type.root in STRING_ROOTS or data_type.root in TIMESTAMP_ROOTS


def same_keys(one: DataType, other: DataType) -> bool:
    """Return True if equal serialized keys of both types mean equal values."""
    is_text = one.root is other.root is TypeRoot.VARCHAR
    return is_text or (one.root, one.precision, one.scale) == (other.root, other.precision, other.scale)


def read_keys(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], data_type: DataType
) -> Keys:
    """Decode the keys at given places. Raises CorruptIndexError if one is not a key of the type."""
    if data_type.root in STRING_ROOTS or _is_wide(data_type):
        stored = data.tobytes()
        texts = [stored[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        keys = np.empty(len(texts), object)
        keys[:] = (
            [int.from_bytes(text, "big", signed=True) for text in texts] if _is_wide(data_type) else texts
        )
        return keys
    is_timestamp = data_type.root in TIMESTAMP_ROOTS
    width = _MILLIS.size if is_timestamp else _WIDTHS[data_type.root]
    is_split = is_timestamp and not data_type.is_compact_timestamp
    lengths = ends - starts
    if (lengths <= width if is_split else lengths != width).any():
        raise CorruptIndexError(f"expected keys of {width} bytes for {data_type}, found others")
    numbers = np.zeros(0, np.int64)
    if len(starts):
        # Overlapping integers, one that starts at each byte: a key is the integer at its start.
        views: Keys = np.ndarray(len(data) - width + 1, f"<i{width}", np.ascontiguousarray(data), 0, 1)
        numbers = views[starts].astype(np.int64)
    space = key_space(data_type)
    if isinstance(space, FloatingKeys):
        numbers = space.reorder(numbers)
        is_nan = (numbers < ~space.infinity) | (numbers > space.infinity)
        numbers[numbers == -1] = 0
        numbers[is_nan] = space.nan
        return numbers
    if is_split:
        nanos, behind = read_varints(data, starts + width)
        if (behind != ends).any() or (nanos >= NANOS_PER_MILLI).any():
            raise CorruptIndexError("expected nanoseconds of a millisecond in keys, found others")
        return numbers * _MICROS_PER_MILLI + nanos // NANOS_PER_MICRO
    if data_type.root is TypeRoot.BOOLEAN:
        numbers = (numbers == 1).astype(np.int64)
    return numbers


def read_key(stored: bytes, data_type: DataType) -> Key:
    """Decode one key. Raises CorruptIndexError if it is not a key of the type."""
    start, end = np.zeros(1, np.int64), np.array([len(stored)], np.int64)
    key: Key = read_keys(np.frombuffer(stored, np.uint8), start, end, data_type)[0]
    return key if isinstance(key, bytes) else int(key)


def _is_wide(data_type: DataType) -> bool:
    return data_type.root is TypeRoot.DECIMAL and not data_type.is_compact_decimal


def check_ascending(keys: Keys) -> None:
    """Raise CorruptIndexError if keys do not ascend. They may repeat."""
    if len(keys) > 1 and not bool((keys[:-1] <= keys[1:]).all()):
        raise CorruptIndexError("expected keys in their order, found others")


def array_of(keys: Sequence[Key], like: Keys) -> Keys:
    """Put ascending keys into an array of the type of ``like``, without integers that do not fit it."""
    if like.dtype == object:
        array = np.empty(len(keys), object)
        array[:] = keys
        return array
    return np.array([key for key in keys if _INT64.min <= int(key) <= _INT64.max], np.int64)


def place_of(keys: Keys, key: Key | None, otherwise: int) -> int:
    """Return the number of ascending ``keys`` below ``key``, or ``otherwise`` if it is None."""
    if key is None:
        return otherwise
    literal = array_of((key,), keys)
    if not len(literal):
        return len(keys) if int(key) > 0 else 0
    return int(keys.searchsorted(literal)[0])


def is_one_of(keys: Keys, literals: Keys) -> NDArray[np.bool_]:
    """Mark the keys that are among the literals."""
    if keys.dtype == object:
        distinct = frozenset(literals.tolist())
        return np.fromiter((key in distinct for key in keys), np.bool_, len(keys))
    return np.isin(keys, literals)


def stored_forms(keys: Sequence[Key], data_type: DataType) -> list[bytes] | None:
    """List every form in which writers serialize ``keys``. Return None if a key has too many forms."""
    space = key_space(data_type)
    if data_type.root in STRING_ROOTS:
        return [bytes(key) for key in keys]
    if _is_wide(data_type):
        numbers = [int(key) for key in keys]
        return [
            number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
            for number in numbers
        ]
    if isinstance(space, FloatingKeys):
        if space.nan in keys:
            return None
        # Key 0 stands for both zeros. The stored form of -0.0 is that of key -1.
        with_zeros = {*keys, -1} if 0 in keys else keys
        return [space.stored.pack(space.reorder(int(key)))[::-1] for key in with_zeros]
    if data_type.root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
        if space is None or space.lossy:
            return None
        parts = [divmod(int(key), _MICROS_PER_MILLI) for key in keys]
        return [_MILLIS.pack(millis) + write_varint(micros * NANOS_PER_MICRO) for millis, micros in parts]
    width = _WIDTHS.get(data_type.root, _MILLIS.size)
    return [
        int(key).to_bytes(width, "little", signed=True)
        for key in keys
        if -1 << 8 * width - 1 <= int(key) < 1 << 8 * width - 1
    ]


def between(keys: Sequence[Key], low: Key | None, high: Key | None) -> Sequence[Key]:
    """Cut ascending keys to those from ``low`` to ``high``, both included. None leaves a side open."""
    start = 0 if low is None else bisect_left(keys, low)
    stop = len(keys) if high is None else bisect_right(keys, high)
    return keys[start:stop]

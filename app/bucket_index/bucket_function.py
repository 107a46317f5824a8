"""Maps a bucket key to one of a fixed number of buckets.

=========  ============================================================================================
function   bucket of n
=========  ============================================================================================
default    ``|hash % n|`` of the key's row hash, the remainder truncated towards zero
mod        the value modulo n, never negative; one key column of type INT or BIGINT
hive       ``(h & 0x7fffffff) % n`` where h starts at 0 and is ``31 * h + hash(field)`` per field
=========  ============================================================================================

Hash of one field under ``hive``, in wrapping 32-bit arithmetic. A null of any type hashes to 0:

===============================  ======================================================================
type                             hash
===============================  ======================================================================
BOOLEAN                          1 or 0
TINYINT, SMALLINT, INT           the value
DATE, TIME                       days, milliseconds
BIGINT                           low half XOR high half
FLOAT, DOUBLE                    the bits (DOUBLE: like BIGINT), -0.0 as 0.0, every NaN alike
strings, binaries                h from 0, then ``31 * h + byte`` per signed byte
DECIMAL                          without trailing zeros in its fraction: ``31 * hash(unscaled) + scale``,
                                 where an unscaled value hashes as Java's BigInteger does
timestamps                       none: the engine refuses them
===============================  ======================================================================
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes
from app.bucket_index.key_batch import key_hashes
from app.errors import FilterError
from app.types import DataType, TypeRoot, Value
from app.types.binary_row import FieldValues

_MASK32: Final = 0xFFFFFFFF
_MASK31: Final = 0x7FFFFFFF
_FLOAT: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")


class BucketFunction(StrEnum):
    """Values of the option ``bucket-function.type``."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


def buckets_of(
    function: BucketFunction, fields: Sequence[FieldValues], count: int, buckets: int
) -> NDArray[np.int64]:
    """Map ``count`` bucket keys to buckets, in order.

    Raises FilterError if the function does not accept keys of these types.
    """
    types = [field.type for field in fields]
    match function:
        case BucketFunction.DEFAULT:
            return hashed_buckets(key_hashes(fields, count), buckets)
        case BucketFunction.MOD:
            _check_mod(types)
            (field,) = fields
            return np.where(field.is_null, 0, field.values).astype(np.int64) % buckets
        case BucketFunction.HIVE:
            keys = zip(*(field.tolist() for field in fields), strict=True)
            return np.fromiter((_hive(key, types) % buckets for key in keys), np.int64, count)
        case _:
            assert_never(function)


def hashed_buckets(hashes: Hashes, buckets: int) -> NDArray[np.int64]:
    """Map key hashes to buckets by the default function."""
    # Java's remainder keeps the sign of the hash, so its absolute value is the remainder of the magnitude.
    return np.abs(hashes.astype(np.int64)) % buckets


def _check_mod(types: Sequence[DataType]) -> None:
    if len(types) != 1:
        raise FilterError(f"the mod bucket function takes one key column, not {len(types)}")
    if types[0].root not in (TypeRoot.INT, TypeRoot.BIGINT):
        raise FilterError(f"the mod bucket function takes a key of type INT or BIGINT, not {types[0]}")


def _hive(key: Sequence[Value | None], types: Sequence[DataType]) -> int:
    total = 0
    for value, data_type in zip(key, types, strict=True):
        total = (31 * total + (0 if value is None else _hive_field(value, data_type))) & _MASK32
    return total & _MASK31


def _hive_field(value: Value, data_type: DataType) -> int:
    if isinstance(value, bytes):
        return _hive_bytes(value)
    match data_type.root:
        case (
            TypeRoot.BOOLEAN
            | TypeRoot.TINYINT
            | TypeRoot.SMALLINT
            | TypeRoot.INT
            | TypeRoot.DATE
            | TypeRoot.TIME
        ):
            return int(value)
        case TypeRoot.BIGINT:
            return _fold(int(value))
        case TypeRoot.FLOAT:
            return int.from_bytes(_FLOAT.pack(_canonical(float(value))), "big")
        case TypeRoot.DOUBLE:
            return _fold(int.from_bytes(_DOUBLE.pack(_canonical(float(value))), "big"))
        case TypeRoot.DECIMAL:
            return _hive_decimal(int(value), data_type.scale)
        case _:
            raise FilterError(f"the hive bucket function does not take keys of type {data_type}")


def _fold(bits: int) -> int:
    return (bits ^ (bits >> 32)) & _MASK32


def _canonical(number: float) -> float:
    return math.nan if math.isnan(number) else number + 0.0


def _hive_bytes(value: bytes) -> int:
    total = 0
    for byte in value:
        total = (31 * total + (byte ^ 0x80) - 0x80) & _MASK32
    return total


def _hive_decimal(unscaled: int, scale: int) -> int:
    while scale > 0 and unscaled % 10 == 0:
        unscaled //= 10
        scale -= 1
    return 31 * _big_integer_hash(unscaled) + scale


def _big_integer_hash(number: int) -> int:
    """Hash like a Java BigInteger: 32-bit words of the magnitude, highest first, and the sign."""
    magnitude = abs(number)
    total = 0
    for shift in range((magnitude.bit_length() - 1) // 32 * 32, -1, -32):
        total = (31 * total + (magnitude >> shift & _MASK32)) & _MASK32
    return total if number >= 0 else -total

"""How values of each type are held in memory, and in which order they stand.

=====================================  ==========================================================
type                                   held as
=====================================  ==========================================================
BOOLEAN                                ``bool``
TINYINT, SMALLINT, INT, BIGINT         ``int``
FLOAT, DOUBLE                          ``float`` (a FLOAT is a 32-bit value widened)
DECIMAL(p, s)                          ``int``, the unscaled value at scale ``s``
CHAR, VARCHAR, STRING                  ``bytes``, UTF-8 as stored, no padding added or removed
BINARY, VARBINARY, BYTES               ``bytes``
DATE                                   ``int``, days since 1970-01-01
TIME                                   ``int``, milliseconds of the day
TIMESTAMP, TIMESTAMP_LTZ               ``int``, nanoseconds since 1970-01-01T00:00 (wall clock, UTC)
NULL of any type                       ``None``
=====================================  ==========================================================

With these forms Python's own order is SQL's order (bytes compare unsigned, which for UTF-8 is code point
order), except for floating point: SQL holds NaN equal to itself and above everything, and -0.0 equal to
0.0; :func:`sql_key` maps a value to a key that orders so.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from app.types.data_types import FLOATING_ROOTS, INTEGER_BITS, DataType, TypeRoot

Value: TypeAlias = bool | int | float | bytes
"""A non-null value in the form of the table above."""

_FLOAT32 = struct.Struct("<f")
_BITS32 = struct.Struct("<I")
_SMALLEST_FLOAT32 = 2.0**-149


def integer_range(data_type: DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = INTEGER_BITS[data_type.root]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def to_float32(value: float) -> float:
    """The nearest 32-bit float, widened; values beyond its range become infinite."""
    try:
        return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def nearest_float32(number: Fraction) -> float:
    """The 32-bit float nearest to an exact number, widened; rounded once, ties to even."""
    try:
        guess = to_float32(float(number))
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    if math.isinf(guess):
        return guess
    # Rounding to 64 bits first can end on a tie that the number itself is not.
    around = (guess, next_float32(guess, -math.inf), next_float32(guess, math.inf))
    return min(
        (candidate for candidate in around if math.isfinite(candidate)),
        key=lambda candidate: abs(Fraction(candidate) - number),
    )


def next_float32(value: float, towards: float) -> float:
    """The 32-bit float next to a 32-bit ``value`` in the direction of plus or minus infinity."""
    if value == towards or math.isnan(value):
        return value
    if value == 0:
        return math.copysign(_SMALLEST_FLOAT32, towards)
    bits = _BITS32.unpack(_FLOAT32.pack(value))[0]
    away_from_zero = (value > 0) == (towards > 0)
    return float(_FLOAT32.unpack(_BITS32.pack(bits + (1 if away_from_zero else -1)))[0])


def _floating_key(value: Value) -> tuple[bool, float]:
    number = float(value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _identity(value: Value) -> Value:
    return value


def sql_key(data_type: DataType) -> Callable[[Value], tuple[bool, float] | Value]:
    """A key function under which values of ``data_type`` compare as Spark SQL compares them.

    CHAR compares as it is stored; predicates are bound to all forms in which a value may be stored.
    """
    return _floating_key if data_type.root in FLOATING_ROOTS else _identity


def same_in_sql(data_type: DataType, one: Value, other: Value) -> bool:
    """Whether Spark SQL's ``=`` holds: of two CHAR values, whatever they were padded to."""
    if data_type.root is TypeRoot.CHAR and isinstance(one, bytes) and isinstance(other, bytes):
        return one.rstrip(b" ") == other.rstrip(b" ")
    key = sql_key(data_type)
    return key(one) == key(other)


def is_comparable(data_type: DataType) -> bool:
    """Whether values of the type can be literals, statistics or index entries at all."""
    return data_type.root in _COMPARABLE


_COMPARABLE = frozenset(TypeRoot) - {
    TypeRoot.ARRAY,
    TypeRoot.MULTISET,
    TypeRoot.MAP,
    TypeRoot.ROW,
    TypeRoot.OTHER,
}

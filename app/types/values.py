"""In-memory form of the values of each type, and their order.

=====================================  ==========================================================
type                                   Python value
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

Python's order of these values is SQL's order (bytes compare unsigned, which for UTF-8 is code point order),
except for floating point: in SQL NaN equals itself and exceeds everything, and -0.0 equals 0.0.
:func:`sql_key` maps a value to a key with that order.

Many values of one type form an array. It does not mark NULLs: its owner has a mask, and masked values are
undefined.

===============================================  ====================================================
type                                             array
===============================================  ====================================================
BOOLEAN                                          ``bool``
TINYINT, SMALLINT, INT, BIGINT, DATE, TIME       ``int64``
DECIMAL, TIMESTAMP, TIMESTAMP_LTZ                ``int64``; Python integers (``object``) if one of
                                                 them does not fit
FLOAT, DOUBLE                                    ``float64``
strings and binaries                             ``pyarrow.LargeBinaryArray``
===============================================  ====================================================
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.types.bytes_column import own_bytes
from app.types.data_types import BINARY_ROOTS, FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, DataType, TypeRoot

# A non-null value in the form of the first table above.
Value: TypeAlias = bool | int | float | bytes

_FLOAT32 = struct.Struct("<f")
_BITS32 = struct.Struct("<I")
_SMALLEST_FLOAT32 = 2.0**-149

_COMPARABLE = frozenset(TypeRoot) - {
    TypeRoot.ARRAY,
    TypeRoot.MULTISET,
    TypeRoot.MAP,
    TypeRoot.ROW,
    TypeRoot.OTHER,
}

# Values in a form of the second table above.
Values: TypeAlias = "NDArray[Any] | pa.LargeBinaryArray"

# Limits of the integers in an `int64` array.
INT64: Final = np.iinfo(np.int64)

_Side: TypeAlias = Literal["left", "right"]
_MEMORY_PER_OBJECT: Final = 56


def integer_range(data_type: DataType) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type."""
    bits = INTEGER_BITS[data_type.root]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def to_float32(value: float) -> float:
    """Round to the nearest 32-bit float, widened. Values beyond its range become infinite."""
    try:
        return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def nearest_float32(number: Fraction) -> float:
    """Round an exact number once to the nearest 32-bit float, widened. Ties go to even."""
    try:
        guess = to_float32(float(number))
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    if math.isinf(guess):
        return guess
    # Rounding to 64 bits first can create a tie where the number has none.
    around = (guess, next_float32(guess, -math.inf), next_float32(guess, math.inf))
    return min(
        (candidate for candidate in around if math.isfinite(candidate)),
        key=lambda candidate: abs(Fraction(candidate) - number),
    )


def next_float32(value: float, towards: float) -> float:
    """Return the neighbour of a 32-bit ``value`` towards plus or minus infinity."""
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
    """Return a key function under which values of a type compare as in Spark SQL.

    CHAR compares as stored. Predicates are bound to every form in which a value may be stored.
    """
    return _floating_key if data_type.root in FLOATING_ROOTS else _identity


def same_in_sql(data_type: DataType, one: Value, other: Value) -> bool:
    """Evaluate Spark SQL's ``=``. Padding of CHAR values does not matter."""
    if data_type.root is TypeRoot.CHAR and isinstance(one, bytes) and isinstance(other, bytes):
        return one.rstrip(b" ") == other.rstrip(b" ")
    key = sql_key(data_type)
    return key(one) == key(other)


def is_comparable(data_type: DataType) -> bool:
    """Return True if values of a type can be literals, statistics or index entries."""
    return data_type.root in _COMPARABLE


def placeholders(data_type: DataType, count: int) -> Values:
    """Return an array in the form of a type, for ``count`` places without a value."""
    if data_type.root in STRING_ROOTS | BINARY_ROOTS:
        return pa.nulls(count, pa.large_binary())
    if data_type.root in FLOATING_ROOTS:
        return np.zeros(count, np.float64)
    return np.zeros(count, np.bool_ if data_type.root is TypeRoot.BOOLEAN else np.int64)


def concat(parts: Sequence[Values]) -> Values:
    """Concatenate one or more arrays of one type."""
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


def memory_bytes(values: Values) -> int:
    """Return the approximate bytes of memory of an array, without mapped parts."""
    if not isinstance(values, np.ndarray):
        return int(values.nbytes)
    return own_bytes(values) + (_MEMORY_PER_OBJECT * len(values) if values.dtype == object else 0)


def less(left: Values | Value, right: Values | Value) -> NDArray[np.bool_]:
    """Compare ``left < right``, element by element. One side may be a single value."""
    if _is_binary(left):
        return _truths(pc.less(_binary(left), _binary(right)))
    below: NDArray[np.bool_] = np.less(left, right)
    return below | (_is_nan(right) & ~_is_nan(left)) if _is_floating(left) else below


def equal(left: Values, right: Values) -> NDArray[np.bool_]:
    """Compare ``left = right``, element by element."""
    if _is_binary(left):
        return _truths(pc.equal(left, right))
    equal: NDArray[np.bool_] = np.equal(left, right)
    return equal | (_is_nan(left) & _is_nan(right)) if _is_floating(left) else equal


def starts_with(strings: pa.LargeBinaryArray, prefix: bytes) -> NDArray[np.bool_]:
    """Mask strings that begin with ``prefix``."""
    return _truths(pc.starts_with(strings, pattern=prefix))


def count_below(values: Values, literals: Sequence[Value]) -> NDArray[np.int64]:
    """Count the literals less than each value, shape (n,). Literals ascend in SQL's order."""
    return _search(values, literals, "left")


def count_up_to(values: Values, literals: Sequence[Value]) -> NDArray[np.int64]:
    """Count the literals less than or equal to each value, shape (n,). Literals ascend in SQL's order."""
    return _search(values, literals, "right")


def _search(values: Values, literals: Sequence[Value], side: _Side) -> NDArray[np.int64]:
    if isinstance(values, pa.LargeBinaryArray):
        return _search_binary(values, literals, side)
    before = 0
    if values.dtype == np.int64:
        # An int64 array cannot have literals beyond its range. Those below the range are below every value.
        before = bisect_left(literals, INT64.min)
        literals = literals[before : bisect_right(literals, INT64.max)]
    # NumPy sorts floating point as SQL does: zeros are equal, NaN is equal to itself and comes last.
    return before + np.array(literals, values.dtype).searchsorted(values, side)


def _search_binary(values: pa.LargeBinaryArray, literals: Sequence[Value], side: _Side) -> NDArray[np.int64]:
    sorted_literals = pa.array(literals, pa.large_binary())
    low, high = np.zeros(len(values), np.int64), np.full(len(values), len(literals), np.int64)
    for _ in range(len(literals).bit_length()):
        middle = (low + high) >> 1
        sample = sorted_literals.take(pa.array(np.minimum(middle, len(literals) - 1)))
        behind = less(sample, values) if side == "left" else ~less(values, sample)
        behind &= low < high
        low, high = np.where(behind, middle + 1, low), np.where(behind, high, middle)
    return low


def _is_binary(side: Values | Value) -> bool:
    return isinstance(side, bytes | pa.LargeBinaryArray)


def _binary(side: Values | Value) -> Values | pa.LargeBinaryScalar:
    return pa.scalar(side, pa.large_binary()) if isinstance(side, bytes) else side


def _is_floating(side: Values | Value) -> bool:
    return isinstance(side, float) or (isinstance(side, np.ndarray) and side.dtype == np.float64)


def _is_nan(side: Any) -> Any:
    return np.isnan(side)


def _truths(answers: pa.BooleanArray) -> NDArray[np.bool_]:
    # A null result means that one side is null. It does not count as true.
    return np.asarray(answers.fill_null(False))  # noqa: FBT003 - Arrow's own signature


def group_rows(*codes: NDArray[np.integer] | NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Group rows with equal codes. Return the rows of each group, ascending.

    ``codes`` are one or more columns of numbers or booleans, each of shape (n,).
    """
    differing = [column_codes for column_codes in codes if (column_codes != column_codes[:1]).any()]
    if not differing:
        # The usual case: files of a table have one schema, and those of a plan one filter.
        return [np.arange(len(codes[0]))] if len(codes[0]) else []
    order = np.lexsort(differing)
    changes = np.zeros(len(order) - 1, np.bool_)
    for column_codes in differing:
        changes |= column_codes[order[1:]] != column_codes[order[:-1]]
    return np.split(order, np.flatnonzero(changes) + 1)

"""Index keys: the form of a value inside an index, its stored bytes, and its order.

========================================  =====================  ==========================================
type                                      key                    stored as (big endian)
========================================  =====================  ==========================================
BOOLEAN                                   0 or 1                 1 byte
TINYINT, SMALLINT, INT, BIGINT            the value              1, 2, 4, 8 bytes
DATE, TIME                                days, milliseconds     4 bytes
DECIMAL                                   the unscaled value     8 bytes
TIMESTAMP, TIMESTAMP_LTZ with p <= 3      epoch milliseconds     8 bytes
TIMESTAMP, TIMESTAMP_LTZ with p > 3       epoch microseconds     8 bytes
FLOAT, DOUBLE                             see below              4, 8 bytes: the IEEE bits
CHAR, VARCHAR, BINARY, VARBINARY          the bytes              i32 length, then the bytes
========================================  =====================  ==========================================

In memory every key is an ``int`` or ``bytes``, so that Python's order is the index's order and every key has
a successor. Floating point values become the integer that orders their bits as Java's ``compare`` does: -0.0
right below 0.0, one NaN above everything. SQL holds the zeros equal, so a value may have two keys.

Timestamps above microseconds are *lossy*: values that differ share a key.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from app.errors import CorruptIndexError, FilterError
from app.types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, TypeRoot, Value
from app.types.civil_time import NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.roaring import Buffer

_Bits = TypeVar("_Bits", int, NDArray[np.signedinteger[Any]])

Key: TypeAlias = int | bytes

_FINEST_EXACT_PRECISION = 6
_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


def after(key: Key) -> Key:
    """Return the smallest key above ``key``."""
    return key + b"\0" if isinstance(key, bytes) else key + 1


class KeySpace(Protocol):
    """The keys of one type."""

    __slots__ = ()

    @property
    def width(self) -> int | None:
        """Bytes of a stored key. None if they vary."""

    @property
    def lossy(self) -> bool:
        """True if different values may share a key."""

    def key(self, value: Value) -> Key:
        """Return the key under which the index holds a row of this value."""

    def value(self, key: Key) -> Value:
        """Return a value that has this key."""

    def equal_keys(self, value: Value) -> tuple[Key, ...]:
        """Return keys of all rows that SQL holds equal to ``value``, ascending."""

    def keys_of(self, values: Sequence[Value]) -> tuple[Key, ...]:
        """Return keys of all rows that SQL holds equal to one of ``values``, distinct and ascending."""

    def edge(self, value: Value, *, behind: bool) -> tuple[Key, Key]:
        """Return the cut right before ``value``, or right after it if ``behind``, in terms of keys.

        Return the first key that rows above the cut can have, and the key after the last one that rows below
        it can have. They differ if rows of both sides share a lossy key.
        """

    def read(self, buffer: Buffer, at: int) -> tuple[Key, int]:
        """Read the key at ``at``. Return it with the offset after it, or raise CorruptIndexError."""

    def write(self, key: Key) -> bytes:
        """Encode a key."""


@dataclass(frozen=True, slots=True)
class IntegerKeys(KeySpace):
    """Keys of values that are integers. ``unit`` is larger than 1 for timestamps only."""

    stored: struct.Struct
    unit: int = 1
    lossy: bool = False
    boolean: bool = False

    @property
    @override
    def width(self) -> int:
        return self.stored.size

    @override
    def key(self, value: Value) -> int:
        return int(value) // self.unit

    @override
    def value(self, key: Key) -> Value:
        number = int(key) * self.unit
        return bool(number) if self.boolean else number

    @override
    def equal_keys(self, value: Value) -> tuple[Key, ...]:
        key, rest = divmod(int(value), self.unit)
        return (key,) if self.lossy or rest == 0 else ()

    @override
    def keys_of(self, values: Sequence[Value]) -> tuple[Key, ...]:
        # This spares long lists of integers, the common case, a call for each value.
        if self.unit == 1 and not self.boolean:
            return tuple(values)  # type: ignore[arg-type] # integers are their own keys
        return tuple(dict.fromkeys(key for value in values for key in self.equal_keys(value)))

    @override
    def edge(self, value: Value, *, behind: bool) -> tuple[Key, Key]:
        place = int(value) + behind
        above = -(-place // self.unit)
        return (place // self.unit if self.lossy else above), above

    @override
    def read(self, buffer: Buffer, at: int) -> tuple[int, int]:
        return _read_fixed(self.stored, buffer, at)

    @override
    def write(self, key: Key) -> bytes:
        return self.stored.pack(key)


@dataclass(frozen=True, slots=True)
class FloatingKeys(KeySpace):
    """IEEE values as the integers that order their bits. ``infinity`` and ``nan`` are keys."""

    values: struct.Struct
    stored: struct.Struct
    infinity: int
    nan: int

    @property
    @override
    def width(self) -> int:
        return self.stored.size

    @property
    @override
    def lossy(self) -> bool:
        return False

    @override
    def key(self, value: Value) -> int:
        if math.isnan(value):  # type: ignore[arg-type] # a float, by the type of this key space
            return self.nan
        bits: int = self.stored.unpack(self.values.pack(value))[0]
        return self.reorder(bits)

    @override
    def value(self, key: Key) -> float:
        return float(self.values.unpack(self.stored.pack(self.reorder(int(key))))[0])

    def reorder(self, bits: _Bits) -> _Bits:
        """Turn signed bits into a key, or a key into signed bits, for one value or an array."""
        value_bits = 8 * self.width - 1
        return bits ^ (bits >> value_bits & (1 << value_bits) - 1)

    @override
    def equal_keys(self, value: Value) -> tuple[Key, ...]:
        return (-1, 0) if value == 0 else (self.key(value),)

    @override
    def keys_of(self, values: Sequence[Value]) -> tuple[Key, ...]:
        return tuple(key for value in values for key in self.equal_keys(value))

    @override
    def edge(self, value: Value, *, behind: bool) -> tuple[Key, Key]:
        keys = self.equal_keys(value)
        cut = after(keys[-1]) if behind else keys[0]
        return cut, cut

    @override
    def read(self, buffer: Buffer, at: int) -> tuple[int, int]:
        bits, end = _read_fixed(self.stored, buffer, at)
        key = self.reorder(bits)
        return (key if ~self.infinity <= key <= self.infinity else self.nan), end

    @override
    def write(self, key: Key) -> bytes:
        return self.stored.pack(self.reorder(int(key)))


@dataclass(frozen=True, slots=True)
class ByteKeys(KeySpace):
    """Texts and binaries, which are their own keys."""

    @property
    @override
    def width(self) -> None:
        return None

    @property
    @override
    def lossy(self) -> bool:
        return False

    @override
    def key(self, value: Value) -> bytes:
        if not isinstance(value, bytes):
            raise FilterError(f"expected bytes as a key, found {value!r:.100}")
        return value

    @override
    def value(self, key: Key) -> Value:
        return key

    @override
    def equal_keys(self, value: Value) -> tuple[Key, ...]:
        return (self.key(value),)

    @override
    def keys_of(self, values: Sequence[Value]) -> tuple[Key, ...]:
        return tuple(map(self.key, values))

    @override
    def edge(self, value: Value, *, behind: bool) -> tuple[Key, Key]:
        key = self.key(value)
        cut = after(key) if behind else key
        return cut, cut

    @override
    def read(self, buffer: Buffer, at: int) -> tuple[bytes, int]:
        length, start = _read_fixed(_I32, buffer, at)
        end = start + length
        if length < 0 or end > len(buffer):
            raise CorruptIndexError(
                f"expected a key of {length} bytes, found {len(buffer) - start} bytes", offset=at
            )
        return bytes(buffer[start:end]), end

    @override
    def write(self, key: Key) -> bytes:
        stored = self.key(key)
        return _I32.pack(len(stored)) + stored


def key_bytes(buffer: Buffer, at: int) -> int:
    """Return the number of bytes of the stored key of varying width at ``at``, which must be there."""
    length: int = _I32.unpack_from(buffer, at)[0]
    return _I32.size + length


def _read_fixed(form: struct.Struct, buffer: Buffer, at: int) -> tuple[int, int]:
    end = at + form.size
    if not 0 <= at <= end <= len(buffer):
        raise CorruptIndexError(
            f"expected {form.size} bytes of a key within {len(buffer)} bytes, found it at {at}"
        )
    number: int = form.unpack_from(buffer, at)[0]
    return number, end


_BYTE_KEYS = ByteKeys()
_FIXED_KEYS: dict[TypeRoot, KeySpace] = {
    TypeRoot.BOOLEAN: IntegerKeys(_I8, boolean=True),
    TypeRoot.TINYINT: IntegerKeys(_I8),
    TypeRoot.SMALLINT: IntegerKeys(_I16),
    TypeRoot.INT: IntegerKeys(_I32),
    TypeRoot.DATE: IntegerKeys(_I32),
    TypeRoot.TIME: IntegerKeys(_I32),
    TypeRoot.BIGINT: IntegerKeys(_I64),
    TypeRoot.DECIMAL: IntegerKeys(_I64),
    TypeRoot.FLOAT: FloatingKeys(struct.Struct(">f"), _I32, infinity=0x7F80_0000, nan=0x7FC0_0000),
    TypeRoot.DOUBLE: FloatingKeys(struct.Struct(">d"), _I64, infinity=0x7FF << 52, nan=0x7FF8 << 48),
}
_MILLISECONDS = IntegerKeys(_I64, NANOS_PER_MILLI)
_MICROSECONDS = IntegerKeys(_I64, NANOS_PER_MICRO)
_LOSSY_MICROSECONDS = IntegerKeys(_I64, NANOS_PER_MICRO, lossy=True)


def key_space(data_type: DataType) -> KeySpace | None:
    """Return the keys of a type. Return None if no index holds the type."""
    if data_type.root in TIMESTAMP_ROOTS:
        if data_type.is_compact_timestamp:
            return _MILLISECONDS
        return _MICROSECONDS if data_type.precision <= _FINEST_EXACT_PRECISION else _LOSSY_MICROSECONDS
    if data_type.root in STRING_ROOTS or data_type.root in BINARY_ROOTS:
        return _BYTE_KEYS
    return _FIXED_KEYS.get(data_type.root)

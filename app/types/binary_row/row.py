"""Reads and writes one binary row.

A *row* (all little endian; ``B = 8 * ((fields + 71) // 64)``):

==============  =========  ==========================================================================
offset          width      meaning
==============  =========  ==========================================================================
0               1          row kind; 0 in stored rows, and not read
1               B - 1      null bits: field ``i`` is bit ``i + 8``; bit ``n`` is byte ``n >> 3``,
                           mask ``1 << (n & 7)``
B               8 a field  slots
B + 8 * fields             variable part in field order, each piece padded to 8 bytes with zeros
==============  =========  ==========================================================================

A *serialized row*, which is what manifests hold, puts the number of fields as i32 **big** endian in front.
Offsets inside a row count from its own start, after that number. Slots, unused bytes 0:

===================================  ================================================================
type                                 slot
===================================  ================================================================
BOOLEAN, TINYINT                     1 byte
SMALLINT                             2 bytes
INT, DATE, TIME, FLOAT               4 bytes, without sign extension
BIGINT, DOUBLE                       8 bytes
DECIMAL, at most 18 digits           i64 unscaled value
timestamps, at most 3 digits         i64 milliseconds
strings, binaries up to 7 bytes      the bytes, zeros, and 0x80 + length as last byte
longer strings, binaries             i32 length, i32 offset
DECIMAL, more than 18 digits         i32 length, i32 offset; always 16 bytes of variable part: unscaled
                                     value as shortest two's complement, big endian, zeros behind
timestamps, more than 3 digits       i32 nanoseconds of the millisecond, i32 offset of i64 milliseconds
===================================  ================================================================

The last two are fixed-length in the engine, so that they can be updated in place: their **nulls** keep both
the offset and the (zeroed) variable bytes, and so hash differently from nulls of other types, which are a
zero slot.

pypaimon up to 1.4.2 writes values of these two types into their slots, like shorter ones. They cannot be
restored from there.

The hash of a row is Murmur3 (32 bits, seed 42) over the row without the number of fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import mmh3

from app.errors import CorruptMetadataError
from app.types.civil_time import NANOS_PER_MILLI
from app.types.data_types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, TypeRoot
from app.types.values import Value

# Width of the number of fields in front of a serialized row.
ARITY_BYTES: Final = 4
SLOT_BYTES: Final = 8
LONG_BYTES: Final = 8
# Length of the longest string inside its slot.
INLINE_BYTES: Final = 7
INLINE_MARK: Final = 0x80
DECIMAL_BYTES: Final = 16
HASH_SEED: Final = 42
# Ending of messages about variable parts outside the row.
WRITTEN_BY_PYTHON: Final = (
    "; pypaimon up to 1.4.2 writes DECIMAL of more than 18 digits and timestamps of more than 3 so, which "
    "nobody can read"
)

# Little-endian types at the start of a slot, in the letters that struct and numpy share.
SLOT_CODES: Final = {
    TypeRoot.BOOLEAN: "B",
    TypeRoot.TINYINT: "b",
    TypeRoot.SMALLINT: "h",
    TypeRoot.INT: "i",
    TypeRoot.BIGINT: "q",
    TypeRoot.FLOAT: "f",
    TypeRoot.DOUBLE: "d",
    TypeRoot.DATE: "i",
    TypeRoot.TIME: "i",
}

_Buffer: TypeAlias = bytes | bytearray | memoryview

_ARITY: Final = struct.Struct(">i")
_LONG: Final = struct.Struct("<q")
_PIECE: Final = struct.Struct("<ii")
_SLOTS: Final = {
    root: struct.Struct(f"<{code}{SLOT_BYTES - struct.calcsize(code)}x") for root, code in SLOT_CODES.items()
}
_ZERO_SLOT: Final = bytes(SLOT_BYTES)


def slots_start(fields: int) -> int:
    """Return the offset of the slots: the bytes of row kind and null bits."""
    return (fields + 71) // 64 * 8


def slot_start(fields: int, index: int) -> int:
    """Return the offset of a field's slot."""
    return slots_start(fields) + SLOT_BYTES * index


def null_bit(index: int) -> tuple[int, int]:
    """Return ``(byte of the row, mask)`` of the bit that marks a field as null."""
    bit = index + 8
    return bit >> 3, 1 << (bit & 7)


def row_hash(row: _Buffer) -> int:
    """Hash a row without its number of fields, as the engine does, to a signed 32-bit integer."""
    return mmh3.hash(bytes(row), HASH_SEED, signed=True)


def read_row(buffer: _Buffer, types: Sequence[DataType]) -> tuple[Value | None, ...]:
    """Read one serialized row, which begins with its number of fields.

    Fields of types without values here (ARRAY, MAP, ROW, ...) are read as None. Raises CorruptMetadataError
    if the row has another number of fields than ``types``, or a value is invalid or outside the row.
    """
    row = read_row_bytes(buffer, len(types))
    null_bits = int.from_bytes(row[: slots_start(len(types))], "little") >> 8
    at, end = slots_start(len(types)), slot_start(len(types), len(types))
    values: list[Value | None] = []
    for data_type in types:
        reader = None if null_bits & 1 else _READERS.get(data_type.root)
        values.append(None if reader is None else reader(row, at, data_type, end))
        null_bits >>= 1
        at += SLOT_BYTES
    return tuple(values)


def read_row_bytes(buffer: _Buffer, fields: int) -> bytes:
    """Return the row inside a serialized row. Check that it has ``fields`` fields and a slot for each.

    Raises CorruptMetadataError for another number of fields, or bytes that end before the last slot.
    """
    if len(buffer) < _ARITY.size:
        raise CorruptMetadataError(
            f"a row needs 4 bytes for its number of fields, found {len(buffer)}", offset=0
        )
    (arity,) = _ARITY.unpack_from(buffer)
    if arity != fields:
        raise CorruptMetadataError(f"expected a row of {fields} fields, found {arity}", offset=0)
    needed = slot_start(fields, fields)
    row = bytes(buffer[_ARITY.size :])
    if len(row) < needed:
        raise CorruptMetadataError(
            f"a row of {fields} fields takes at least {needed} bytes, found {len(row)}", offset=_ARITY.size
        )
    return row


def serialize_row(values: Sequence[Value | None], types: Sequence[DataType]) -> bytes:
    """Serialize a row as manifests hold it: the number of fields, then :func:`write_row`."""
    return _ARITY.pack(len(types)) + write_row(values, types)


def write_row(values: Sequence[Value | None], types: Sequence[DataType]) -> bytes:
    """Write a row without its number of fields, byte for byte as the engine does.

    ``values`` has a value or None per type, each in the type's range. Types without values here take None.
    """
    slots_at = slots_start(len(types))
    row = bytearray(slots_at + SLOT_BYTES * len(types))
    for index, (value, data_type) in enumerate(zip(values, types, strict=True)):
        if value is None:
            byte, mask = null_bit(index)
            row[byte] |= mask
        slot, piece = _encode(value, data_type, len(row))
        at = slots_at + SLOT_BYTES * index
        row[at : at + SLOT_BYTES] = slot
        row += piece
    return bytes(row)


def _encode(value: Value | None, data_type: DataType, end: int) -> tuple[bytes, bytes]:
    """Return ``(slot, variable bytes)`` of a value in a row that is ``end`` bytes long so far."""
    root = data_type.root
    if root is TypeRoot.DECIMAL and not data_type.is_compact_decimal:
        unscaled = b"" if value is None else shortest_twos_complement(int(value))
        return _PIECE.pack(len(unscaled), end), unscaled.ljust(DECIMAL_BYTES, b"\0")
    if root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
        millis, nanos = divmod(0 if value is None else int(value), NANOS_PER_MILLI)
        return _PIECE.pack(nanos, end), _LONG.pack(millis)
    if value is None:
        return _ZERO_SLOT, b""
    if isinstance(value, bytes):
        return _encode_bytes(value, end)
    if root in TIMESTAMP_ROOTS:
        return _LONG.pack(int(value) // NANOS_PER_MILLI), b""
    return _SLOTS.get(root, _LONG).pack(value), b""


def _encode_bytes(value: bytes, end: int) -> tuple[bytes, bytes]:
    if len(value) <= INLINE_BYTES:
        return value.ljust(INLINE_BYTES, b"\0") + bytes((INLINE_MARK | len(value),)), b""
    return _PIECE.pack(len(value), end), value + bytes(-len(value) % SLOT_BYTES)


def shortest_twos_complement(number: int) -> bytes:
    """Encode a number in the fewest bytes that hold it with its sign, big endian."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _read_slot(row: bytes, at: int, data_type: DataType, _: int) -> Value:
    value: int | float = _SLOTS[data_type.root].unpack_from(row, at)[0]
    return bool(value) if data_type.root is TypeRoot.BOOLEAN else value


def _read_bytes(row: bytes, at: int, _: DataType, end: int) -> bytes:
    mark = row[at + INLINE_BYTES]
    if mark & INLINE_MARK:
        length = mark & ~INLINE_MARK
        if length > INLINE_BYTES:
            raise _corrupt(f"a value inside its slot has at most {INLINE_BYTES} bytes, found {length}", at)
        return row[at : at + length]
    length, offset = _PIECE.unpack_from(row, at)
    return _piece(row, offset, length, at, end)


def _read_decimal(row: bytes, at: int, data_type: DataType, end: int) -> int:
    if data_type.is_compact_decimal:
        return int(_LONG.unpack_from(row, at)[0])
    length, offset = _PIECE.unpack_from(row, at)
    if not 1 <= length <= DECIMAL_BYTES:
        expectation = f"{data_type} takes 1 to {DECIMAL_BYTES} bytes, found {length}{WRITTEN_BY_PYTHON}"
        raise _corrupt(expectation, at)
    return int.from_bytes(_piece(row, offset, length, at, end), "big", signed=True)


def _read_timestamp(row: bytes, at: int, data_type: DataType, end: int) -> int:
    if data_type.is_compact_timestamp:
        return int(_LONG.unpack_from(row, at)[0]) * NANOS_PER_MILLI
    nanos, offset = _PIECE.unpack_from(row, at)
    if not 0 <= nanos < NANOS_PER_MILLI:
        expectation = f"a millisecond has nanoseconds 0 to 999999, found {nanos}{WRITTEN_BY_PYTHON}"
        raise _corrupt(expectation, at)
    (millis,) = _LONG.unpack(_piece(row, offset, _LONG.size, at, end))
    return int(millis) * NANOS_PER_MILLI + int(nanos)


def _piece(row: bytes, offset: int, length: int, slot: int, end: int) -> bytes:
    if offset < end or length < 0 or offset + length > len(row):
        raise _corrupt(
            f"{length} bytes at {offset} are not between the slots' end at {end} and the row's end at "
            f"{len(row)}{WRITTEN_BY_PYTHON}",
            slot,
        )
    return row[offset : offset + length]


def _corrupt(expectation: str, slot: int) -> CorruptMetadataError:
    return CorruptMetadataError(expectation, offset=_ARITY.size + slot)


_READERS: Final[dict[TypeRoot, Callable[[bytes, int, DataType, int], Value]]] = {
    **dict.fromkeys(_SLOTS, _read_slot),
    **dict.fromkeys(STRING_ROOTS | BINARY_ROOTS, _read_bytes),
    **dict.fromkeys(TIMESTAMP_ROOTS, _read_timestamp),
    TypeRoot.DECIMAL: _read_decimal,
}

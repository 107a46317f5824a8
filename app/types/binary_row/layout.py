"""The layout of a BinaryRow.

A *row* (all little endian; ``B = 8 * ((fields + 71) // 64)``):

==============  =========  ==========================================================================
offset          width      meaning
==============  =========  ==========================================================================
0               1          row kind; 0 in everything that is stored, and not looked at
1               B - 1      null bits: field ``i`` is bit ``i + 8``; bit ``n`` is byte ``n >> 3``,
                           mask ``1 << (n & 7)``
B               8 a field  slots
B + 8 * fields             variable part in field order, each piece padded to 8 bytes with zeros
==============  =========  ==========================================================================

A *serialized row*, which is what manifests hold, puts the number of fields as i32 **big** endian in front.
Offsets inside a row count from its own start, behind that number. Slots, unused bytes 0:

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
the offset and the (zeroed) variable bytes, and therefore hash otherwise than nulls of other types, which are
a zero slot.

The hash of a row is Murmur3 (32 bits, seed 42) over the row without the number of fields.
"""

from __future__ import annotations

from typing import Final

from app.types.data_types import TypeRoot

ARITY_BYTES: Final = 4
"""The number of fields in front of a serialized row."""
SLOT_BYTES: Final = 8
LONG_BYTES: Final = 8
INLINE_BYTES: Final = 7
"""Longest string that lies in its slot."""
INLINE_MARK: Final = 0x80
DECIMAL_BYTES: Final = 16
HASH_SEED: Final = 42

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
"""What stands at the beginning of a slot, little endian, in the letters that struct and numpy share."""


def slots_start(fields: int) -> int:
    """Where the slots of a row begin: the bytes of its row kind and its null bits."""
    return (fields + 71) // 64 * 8


def slot_start(fields: int, index: int) -> int:
    """Where the slot of a field begins in a row of so many fields."""
    return slots_start(fields) + SLOT_BYTES * index


def null_bit(index: int) -> tuple[int, int]:
    """``(byte of the row, mask)`` of the bit that is set where a field is null."""
    bit = index + 8
    return bit >> 3, 1 << (bit & 7)

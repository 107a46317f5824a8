"""Structs of Thrift's compact protocol, as headers of Parquet pages are written.

A struct is a series of fields and a zero. A field begins with a byte: the type in its lower four bits, in the
upper ones how much its id is above the one before; 0 there: the id follows, zigzag.

=====  ================================================
type   value
=====  ================================================
1, 2   true, false: no bytes
3      one byte
4-6    integer of 16, 32 or 64 bits: zigzag
7      double, 8 bytes
8      its length, and that many bytes
9, 10  list or set: a byte with number (upper half; 15: it follows) and type of the items, and the items
12     struct
=====  ================================================

Zigzag numbers have seven bits a byte, as in Avro.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from app.errors import CorruptMetadataError

if TYPE_CHECKING:
    from app.table.avro import AvroCursor

Value: TypeAlias = "int | bytes | Struct | None"
Struct: TypeAlias = "dict[int, Value]"

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS: Final = frozenset({4, 5, 6})
_HALF: Final = 0x0F
_FOLLOWS: Final = 15
_DOUBLE_BYTES: Final = 8
_MAX_DEPTH: Final = 8


def read_struct(cursor: AvroCursor, depth: int = 0) -> Struct:
    """The struct that stands here: numbers, bytes and structs by field id; lists are passed over as None.

    Raises:
        CorruptMetadataError: it does not end, has a field twice or of no known type, or is nested deeply.
    """
    found: Struct = {}
    number = 0
    while (head := cursor.take(1, "a field")[0]) != 0:
        step, kind = head >> 4, head & _HALF
        number = number + step if step else cursor.long()
        # Readers differ in which of two fields they take.
        if number in found:
            raise CorruptMetadataError(f"a page header with two fields {number}", offset=cursor.at)
        found[number] = _value(cursor, kind, depth)
    return found


def _value(cursor: AvroCursor, kind: int, depth: int) -> Value:
    if depth > _MAX_DEPTH:
        raise CorruptMetadataError("a page header nested too deeply", offset=cursor.at)
    if kind in (_TRUE, _FALSE):
        return int(kind == _TRUE)
    if kind == _BYTE:
        return cursor.take(1, "a byte")[0]
    if kind in _INTEGERS:
        return cursor.long()
    if kind == _DOUBLE:
        return bytes(cursor.take(_DOUBLE_BYTES, "a double"))
    if kind == _BINARY:
        return bytes(cursor.take(_unsigned(cursor), "a value"))
    if kind in (_LIST, _SET):
        _pass_list(cursor, depth)
        return None
    if kind == _STRUCT:
        return read_struct(cursor, depth + 1)
    raise CorruptMetadataError(f"a page header with a field of type {kind}", offset=cursor.at)


def _pass_list(cursor: AvroCursor, depth: int) -> None:
    head = cursor.take(1, "a list")[0]
    count, kind = head >> 4, head & _HALF
    if count == _FOLLOWS:
        count = _unsigned(cursor)
    for _ in range(count):
        # In a list, truth values have a byte each.
        _value(cursor, _BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)


def _unsigned(cursor: AvroCursor) -> int:
    zigzag = cursor.long()
    return zigzag << 1 if zigzag >= 0 else ~zigzag << 1 | 1

"""Structs of Thrift's compact protocol, which the footer and the headers of pages of a Parquet file are.

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

Zigzag numbers have seven bits a byte, as in Avro. Readers pass over a field whose type is not the one that
they know, so a field is looked for under its id and type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from app.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.table.records.cursor import VarintCursor

MOST_ITEMS: Final = 10_000
"""No list has more."""

_TRUE, _FALSE, _BYTE, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 12
_INTEGERS: Final = frozenset({4, _INT, _LONG})
_HALF: Final = 0x0F
_FOLLOWS: Final = 15
_DOUBLE_BYTES: Final = 8
_MAX_DEPTH: Final = 12
_MAX_ID: Final = (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct.

    Attributes:
        offset: where it begins.
        fields: by id and type: numbers, bytes, structs, and lists of these.
    """

    offset: int
    fields: Mapping[tuple[int, int], Any]

    def integer(self, number: int) -> int:
        """An integer of 32 bits.

        Raises:
            CorruptMetadataError: it is absent, or below zero.
        """
        return self._natural(self.fields.get((number, _INT)), number)

    def long(self, number: int) -> int:
        """An integer of 64 bits.

        Raises:
            CorruptMetadataError: it is absent, or below zero.
        """
        return self._natural(self.fields.get((number, _LONG)), number)

    def long_or_zero(self, number: int) -> int:
        """An integer of 64 bits; 0 where it is absent.

        Raises:
            CorruptMetadataError: it is below zero.
        """
        return self._natural(self.fields.get((number, _LONG), 0), number)

    def text(self, number: int) -> str:
        """A text; empty where it is absent."""
        found: bytes = self.fields.get((number, _BINARY), b"")
        return found.decode(errors="replace")

    def struct(self, number: int) -> Struct:
        """A struct inside of it.

        Raises:
            CorruptMetadataError: it is absent.
        """
        found = self.fields.get((number, _STRUCT))
        if not isinstance(found, Struct):
            raise CorruptMetadataError(f"expected a struct in field {number}, found none", offset=self.offset)
        return found

    def structs(self, number: int) -> list[Struct]:
        """A list of structs; empty where it is absent.

        Raises:
            CorruptMetadataError: it is one of something else.
        """
        found: list[Any] = self.fields.get((number, _LIST), [])
        if not all(isinstance(each, Struct) for each in found):
            raise CorruptMetadataError(f"expected structs in field {number}", offset=self.offset)
        return found

    def has(self, number: int) -> bool:
        """Whether there is an integer of 32 bits."""
        return (number, _INT) in self.fields

    def _natural(self, found: int | None, number: int) -> int:
        if found is None or found < 0:
            raise CorruptMetadataError(
                f"expected a number in field {number} of a struct, found {found}", offset=self.offset
            )
        return found


def read_struct(cursor: VarintCursor, depth: int = 0) -> Struct:
    """The struct that stands here.

    Raises:
        CorruptMetadataError: it does not end, has a field twice or of no known type, or is nested deeply.
    """
    offset = cursor.at
    found: dict[tuple[int, int], Any] = {}
    met: set[int] = set()
    number = 0
    while (head := cursor.take(1, "a field")[0]) != 0:
        step, kind = head >> 4, head & _HALF
        number = number + step if step else cursor.long()
        # Readers differ in which of two fields they take, and in ids of more than 16 bits.
        if number in met or not 0 <= number <= _MAX_ID:
            raise CorruptMetadataError(
                f"a struct with two fields {number}, or an impossible one", offset=offset
            )
        met.add(number)
        found[number, kind] = _value(cursor, kind, depth)
    return Struct(offset, found)


def _value(cursor: VarintCursor, kind: int, depth: int) -> Any:  # noqa: ANN401 - whatever a field has
    if depth > _MAX_DEPTH:
        raise CorruptMetadataError("a struct nested too deeply", offset=cursor.at)
    if kind in _INTEGERS:
        return cursor.long()
    if kind == _BINARY:
        return bytes(cursor.take(_unsigned(cursor), "a value"))
    if kind == _STRUCT:
        return read_struct(cursor, depth + 1)
    if kind in (_LIST, _SET):
        return _items(cursor, depth)
    if kind in (_TRUE, _FALSE):
        return int(kind == _TRUE)
    if kind == _BYTE:
        return cursor.take(1, "a byte")[0]
    if kind == _DOUBLE:
        return bytes(cursor.take(_DOUBLE_BYTES, "a double"))
    raise CorruptMetadataError(f"a struct with a field of type {kind}", offset=cursor.at)


def _items(cursor: VarintCursor, depth: int) -> list[Any]:
    head = cursor.take(1, "a list")[0]
    count, kind = head >> 4, head & _HALF
    if count == _FOLLOWS:
        count = _unsigned(cursor)
    if count > min(cursor.left, MOST_ITEMS):
        raise CorruptMetadataError(f"a list of {count} items", offset=cursor.at)
    # In a list, truth values have a byte each.
    item_kind = _BYTE if kind in (_TRUE, _FALSE) else kind
    return [_value(cursor, item_kind, depth + 1) for _ in range(count)]


def _unsigned(cursor: VarintCursor) -> int:
    zigzag = cursor.long()
    return zigzag << 1 if zigzag >= 0 else ~zigzag << 1 | 1

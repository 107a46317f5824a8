"""The messages of an ORC file's tail, which are Protocol Buffers.

A message is a series of fields, each a number (id times eight, plus how it is written) and a value:

===  ==========================
how  value
===  ==========================
0    number, seven bits a byte
1    8 bytes
2    its length and its bytes: text, a message, or numbers
5    4 bytes
===  ==========================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from app.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.types.roaring import Buffer

_NUMBER, _SIZED = 0, 2
_FIXED: Final[Mapping[int, int]] = {1: 8, 5: 4}
_MAX_BITS: Final = 70


@dataclass(frozen=True, slots=True)
class Message:
    """The numbers and bytes of a message by field id, in their order."""

    fields: Mapping[int, Sequence[int | bytes]]

    @classmethod
    def read(cls, data: Buffer) -> Self:
        """Reads a message.

        Raises:
            CorruptMetadataError: the bytes are none.
        """
        found: dict[int, list[int | bytes]] = {}
        at = 0
        while at < len(data):
            head, at = _number(data, at)
            how = head & 7
            if how == _NUMBER:
                value, at = _number(data, at)
                found.setdefault(head >> 3, []).append(value)
                continue
            if how == _SIZED:
                length, at = _number(data, at)
            elif how in _FIXED:
                length = _FIXED[how]
            else:
                raise CorruptMetadataError(f"a message with a field that is written as type {how}")
            if length > len(data) - at:
                raise CorruptMetadataError(f"a message with a field of {length} bytes beyond its end")
            found.setdefault(head >> 3, []).append(bytes(data[at : at + length]))
            at += length
        return cls(found)

    def number(self, field: int) -> int:
        """A number; 0 if it is absent.

        Raises:
            CorruptMetadataError: it is there more than once, or is no number.
        """
        found = self.fields.get(field, (0,))
        if len(found) != 1 or not isinstance(found[0], int):
            raise CorruptMetadataError(f"expected one number in field {field} of a message")
        return found[0]

    def messages(self, field: int) -> list[Message]:
        """Messages inside of it.

        Raises:
            CorruptMetadataError: one is none.
        """
        return [Message.read(each) for each in self.sized(field)]

    def sized(self, field: int) -> list[bytes]:
        """Byte strings.

        Raises:
            CorruptMetadataError: one is a number.
        """
        found = self.fields.get(field, ())
        strings = [each for each in found if isinstance(each, bytes)]
        if len(strings) != len(found):
            raise CorruptMetadataError(f"expected bytes in field {field} of a message")
        return strings

    def numbers(self, field: int) -> list[int]:
        """Numbers, one by one or several together.

        Raises:
            CorruptMetadataError: their bytes do not end with one.
        """
        found: list[int] = []
        for each in self.fields.get(field, ()):
            found += [each] if isinstance(each, int) else _numbers(each)
        return found


def _numbers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = _number(data, at)
        yield number


def _number(data: Buffer, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while at < len(data) and shift < _MAX_BITS:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
    raise CorruptMetadataError("expected a number of at most ten bytes in a message")

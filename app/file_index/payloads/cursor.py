"""Reading a payload front to back without ever reading beyond its end, and putting one together."""

from __future__ import annotations

import struct
from collections import deque
from io import BytesIO

from app.errors import CorruptIndexError
from app.types.roaring import Buffer


def join_parts(parts: deque[Buffer]) -> bytes:
    """The parts one behind the other; they go from the queue while the payload grows."""
    payload = BytesIO()
    while parts:
        payload.write(parts.popleft())
    return payload.getvalue()


_I8 = struct.Struct(">b")
_U16 = struct.Struct(">H")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class Cursor:
    """A place in a buffer of big-endian fields; each read moves it forward.

    Every method raises :class:`CorruptIndexError` where the buffer ends too early.

    Attributes:
        position: offset of the next byte.
    """

    __slots__ = ("buffer", "position")

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position

    @property
    def remaining(self) -> int:
        """Bytes between the position and the end."""
        return len(self.buffer) - self.position

    def i8(self, what: str) -> int:
        """A signed byte."""
        return self._number(_I8, what)

    def u16(self, what: str) -> int:
        """An unsigned 16-bit integer."""
        return self._number(_U16, what)

    def i32(self, what: str) -> int:
        """A signed 32-bit integer."""
        return self._number(_I32, what)

    def i64(self, what: str) -> int:
        """A signed 64-bit integer."""
        return self._number(_I64, what)

    def count(self, what: str, *, each_bytes: int = 0) -> int:
        """A 32-bit integer that counts something.

        Args:
            each_bytes: fewest bytes that each of them still takes in this buffer.
        """
        start = self.position
        number = self._number(_I32, what)
        if number < 0 or number * each_bytes > self.remaining:
            raise CorruptIndexError(
                f"expected the {what} to fit the {self.remaining} bytes that are left, found {number}",
                offset=start,
            )
        return number

    def flag(self, what: str) -> bool:
        """A byte that is 0 or 1."""
        start = self.position
        number = self._number(_I8, what)
        if number not in (0, 1):
            raise CorruptIndexError(f"expected 0 or 1 as {what}, found {number}", offset=start)
        return number == 1

    def take(self, size: int, what: str) -> Buffer:
        """The next ``size`` bytes."""
        start, end = self.position, self.position + size
        if size < 0 or end > len(self.buffer):
            raise CorruptIndexError(
                f"expected {what} of {size} bytes, found {len(self.buffer) - start}", offset=start
            )
        self.position = end
        return self.buffer[start:end]

    def version(self, what: str, *supported: int) -> int:
        """A version byte that is one of ``supported``."""
        start = self.position
        version = self._number(_I8, f"version of the {what}")
        if version not in supported:
            known = " or ".join(map(str, supported))
            raise CorruptIndexError(f"expected version {known} of the {what}, found {version}", offset=start)
        return version

    def _number(self, form: struct.Struct, what: str) -> int:
        start, end = self.position, self.position + form.size
        if not 0 <= start <= end <= len(self.buffer):
            raise CorruptIndexError(
                f"expected the {what} ({form.size} bytes), found {max(0, len(self.buffer) - start)} bytes",
                offset=start,
            )
        self.position = end
        number: int = form.unpack_from(self.buffer, start)[0]
        return number

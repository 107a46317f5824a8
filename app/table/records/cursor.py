"""Reading a file front to back without ever reading beyond its end.

Numbers are zigzag numbers of seven bits a byte, lowest first, as in Avro and in Thrift's compact protocol.
"""

from __future__ import annotations

from app.errors import CorruptMetadataError

_MAX_LONG_BYTES = 10


class VarintCursor:
    """A position in a file; every step is checked against what is left."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return len(self.data) - self.at

    def take(self, length: int, what: str) -> memoryview:
        """The next ``length`` bytes, not copied."""
        if not 0 <= length <= self.left:
            raise CorruptMetadataError(
                f"expected {what} of {length} bytes, found {self.left} to the end", offset=self.at
            )
        taken = self.data[self.at : self.at + length]
        self.at += length
        return taken

    def long(self) -> int:
        """The number that stands here."""
        value = 0
        for position in range(min(_MAX_LONG_BYTES, self.left)):
            byte = self.data[self.at + position]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                self.at += position + 1
                return (value >> 1) ^ -(value & 1)
        raise CorruptMetadataError("expected a number of at most ten bytes", offset=self.at)

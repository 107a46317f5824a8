"""How much memory the bytes of a metadata file may become.

A codec makes gigabytes of a few kilobytes, and so do runs of equal values. So every reader adds up what a
file claims before it expands anything, and stops where that is more than a file of its size has ever
needed.
"""

from __future__ import annotations

from typing import Final

from app.errors import CorruptMetadataError

# A file may expand to this multiple of itself, or to this many bytes if that is more, but never to more than
# the last: decoding takes several times as much memory.
_MAX_EXPANSION: Final = 64
_ALWAYS_ALLOWED_BYTES: Final = 256 << 20
_MAX_EXPANDED_BYTES: Final = 1 << 30


def allowed_bytes(size: int) -> int:
    """Bytes that a file of ``size`` bytes may expand to."""
    return min(max(_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION * size), _MAX_EXPANDED_BYTES)


class Allowance:
    """What is left of the memory that a file may take.

    Args:
        size: bytes of the file.
    """

    def __init__(self, size: int) -> None:
        self.left = allowed_bytes(size)

    def take(self, claimed: int, what: str, offset: int | None = None) -> None:
        """Uses up some bytes.

        Args:
            claimed: how many.
            what: takes them, for the message.
            offset: where the file claims them.

        Raises:
            CorruptMetadataError: it is less than nothing, or more than there is left.
        """
        self.require(claimed, what, offset)
        self.left -= claimed

    def require(self, claimed: int, what: str, offset: int | None = None) -> None:
        """Makes sure that there are some bytes, for as long as they are needed.

        Raises:
            CorruptMetadataError: as of :meth:`take`.
        """
        if not 0 <= claimed <= self.left:
            raise CorruptMetadataError(
                f"{what} would take {claimed} bytes of memory; a file this small has {self.left} left",
                offset=offset,
            )

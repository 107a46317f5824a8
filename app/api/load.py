"""What bodies take while they are being received, or read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.errors import MemoryShortError

_ALWAYS_TAKEN_BYTES: Final = 1 << 16
"""Bodies of so few bytes are received whatever others hold; the number of requests bounds them."""


class Bodies:
    """Bounds the bytes of all bodies that are being received, or read, together; of the event loop alone.

    Args:
        limit: bytes.

    Attributes:
        held: bytes at the moment.
    """

    def __init__(self, limit: int) -> None:
        self.held = 0
        self._limit = limit

    @contextmanager
    def one_more(self) -> Iterator[HeldBody]:
        """The account of one body, which is closed with the block."""
        body = HeldBody(self)
        try:
            yield body
        finally:
            self.held -= body.size

    def take(self, size: int, *, whole: int) -> None:
        """Takes ``size`` bytes for a body that then has ``whole``.

        Raises:
            MemoryShortError: all bodies together would be over the limit.
        """
        if self.held + size > self._limit and whole > _ALWAYS_TAKEN_BYTES:
            raise MemoryShortError(
                f"bodies of other requests hold {self.held} of the {self._limit} bytes that all of them may: "
                f"ask again in a moment"
            )
        self.held += size


class HeldBody:
    """What one body holds.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, bodies: Bodies) -> None:
        self.size = 0
        self._bodies = bodies

    def grow(self, size: int) -> None:
        """Adds ``size`` bytes that have arrived.

        Raises:
            MemoryShortError: all bodies together would be over their limit.
        """
        self._bodies.take(size, whole=self.size + size)
        self.size += size

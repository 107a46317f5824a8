"""How much memory the bytes of a metadata file may become.

A codec makes gigabytes of a few kilobytes, and so do runs of equal values. So every reader adds up what a
file claims before it expands anything, and stops where that is more than a file of its size has ever
needed.

What it claims it also asks for: whoever has a file decoded says of whom (:func:`asking`), and a file that is
harmless by itself may have to wait for others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, TypeAlias

from app.errors import CorruptMetadataError
from app.observation import bound

AskMemory: TypeAlias = Callable[[int], None]
"""Takes the bytes that decoding holds by now, and returns once it may."""

# A file may expand to this multiple of itself, or to this many bytes if that is more, but never to more than
# the last: decoding takes several times as much memory.
MAX_EXPANSION: Final = 64
_ALWAYS_ALLOWED_BYTES: Final = 256 << 20
_MAX_EXPANDED_BYTES: Final = 1 << 30


def _ask_nobody(_: int) -> None:
    """Tools that decode one file after the other need nobody's leave."""


_ask: ContextVar[AskMemory] = ContextVar("ask", default=_ask_nobody)


def asking(ask: AskMemory) -> AbstractContextManager[None]:
    """Inside the block decoders report growing memory to ``ask``, which may raise."""
    return bound(_ask, ask)


def allowed_bytes(size: int, always: int = _ALWAYS_ALLOWED_BYTES) -> int:
    """Bytes that a file of ``size`` bytes may expand to; ``always`` is what the smallest file may."""
    return min(max(always, MAX_EXPANSION * size), _MAX_EXPANDED_BYTES)


class ExpansionLimit:
    """What is left of the memory that a file may take."""

    def __init__(self, size: int) -> None:
        self.left = allowed_bytes(size)
        self._taken = 0
        self._ask = _ask.get()

    def take(self, claimed: int, what: str, offset: int | None = None) -> None:
        """Uses up some bytes."""
        self.require(claimed, what, offset)
        self.left -= claimed
        self._taken += claimed

    def require(self, claimed: int, what: str, offset: int | None = None) -> None:
        """Makes sure that there are some bytes, for as long as they are needed."""
        if not 0 <= claimed <= self.left:
            raise CorruptMetadataError(
                f"{what} would take {claimed} bytes of memory; a file this small has {self.left} left",
                offset=offset,
            )
        self.hold(claimed)

    def hold(self, size: int) -> None:
        """Asks for bytes that are needed for a moment only, whatever the file may take."""
        self._ask(self._taken + size)

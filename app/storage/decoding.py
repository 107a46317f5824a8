"""Memory for decoding: whoever expands a file claims bytes first, against one budget for the process.

A claim grows while its file is decoded, since nobody knows before how much that takes. A claim that finds no
room waits for others to end. The *eldest* claim never waits: it goes over the budget rather than stand still
with what it holds, so that two claims cannot wait for each other.

================================ =================================================================
what is asked for                what happens
================================ =================================================================
fits into the budget             it is claimed
does not fit, the claim is       it waits until others end or it is the eldest itself; after
not the eldest                   :data:`PATIENCE_SECONDS` it is refused
a large piece, and the process   it is refused, whatever the budget has
would leave its memory limit
================================ =================================================================
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.errors import MemoryShortError
from app.storage.deadline import check_deadline, glance_seconds
from app.storage.process_memory import PROCESS_MEMORY
from app.storage.slots import waiting

DEFAULT_BYTES: Final = 256 << 20
PATIENCE_SECONDS: Final = 10.0

LARGE_BYTES: Final = 8 << 20
"""Smaller growth does not take a process over its limit before somebody looks at it again."""


class DecodingMemory:
    """The budget of one process.

    Args:
        limit: bytes of all claims together, but for what the eldest takes beyond it.
        patience_seconds: how long a claim waits for room.

    Attributes:
        claimed: bytes at the moment.
    """

    def __init__(self, limit: int = DEFAULT_BYTES, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.claimed = 0
        self._limit = limit
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        self._claims: list[Claim] = []

    @contextmanager
    def claim(self) -> Iterator[Claim]:
        """A claim of nothing yet, which ends with the block."""
        claim = Claim(self)
        with self._changed:
            self._claims.append(claim)
        try:
            yield claim
        finally:
            with self._changed:
                self._claims.remove(claim)
                self.claimed -= claim.held
                self._changed.notify_all()

    def grow(self, claim: Claim, size: int) -> None:
        """Adds ``size`` bytes to a claim, once there is room; see :meth:`Claim.grow_to` for errors."""
        if size >= LARGE_BYTES:
            PROCESS_MEMORY.require(size, "decoding a file")
        with self._changed:
            if self._grown(claim, size):
                return
        with waiting(), self._changed:
            give_up = time.monotonic() + self._patience_seconds
            while not self._grown(claim, size):
                check_deadline()
                if time.monotonic() >= give_up:
                    raise MemoryShortError(
                        f"memory is short: decoding a file needs {size} bytes beside the {self.claimed} that "
                        f"are claimed, of {self._limit}; ask again in a moment"
                    )
                glance = glance_seconds()
                left = give_up - time.monotonic()
                self._changed.wait(left if glance is None else min(glance, left))

    def _grown(self, claim: Claim, size: int) -> bool:
        """Whether there was room; whoever calls it holds the lock."""
        if self.claimed + size > self._limit and self._claims[0] is not claim:
            return False
        self.claimed += size
        claim.held += size
        return True


class Claim:
    """What the decoding of one file has claimed; of one thread alone.

    Attributes:
        held: bytes so far.
    """

    def __init__(self, memory: DecodingMemory) -> None:
        self.held = 0
        self._memory = memory

    def grow_to(self, total: int) -> None:
        """Claims as much as is missing to ``total`` bytes; a claim never shrinks before its end.

        Raises:
            MemoryShortError: there was no room for a while, or the process would leave its limit.
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        if total > self.held:
            self._memory.grow(self, total - self.held)

"""Slots for threads that compute, as many as there are cores; threads that wait for something hold none.

More threads that compute at once finish nothing sooner, since Python runs one of them at a time: each takes
longer, all of them hold their memory, and the event loop waits for its turn among them.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Held(threading.local):
    slots: Slots | None = None


_held = _Held()


class Slots:
    """Bounds how many threads compute at one time.

    Args:
        count: how many; one per core unless given.
    """

    def __init__(self, count: int | None = None) -> None:
        self._free = threading.Semaphore(count or os.cpu_count() or 1)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The block runs in a slot, except where it waits."""
        self.take_back()
        try:
            yield
        finally:
            self.give_back()

    def take_back(self) -> None:
        """Waits for a slot again after :func:`give_away`; whoever calls it holds no lock."""
        self._free.acquire()
        _held.slots = self

    def give_back(self) -> None:
        """Frees the slot of this thread."""
        _held.slots = None
        self._free.release()


def give_away() -> Slots | None:
    """Frees the slot of this thread before it waits; what to :meth:`Slots.take_back` from afterwards."""
    slots = _held.slots
    if slots is not None:
        slots.give_back()
    return slots


@contextmanager
def waiting() -> Iterator[None]:
    """The block waits for storage or for another thread: meanwhile the slot of this thread is another's."""
    slots = give_away()
    try:
        yield
    finally:
        if slots is not None:
            slots.take_back()

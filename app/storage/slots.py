"""Slots for threads that compute, as many as there are cores; threads that wait for something hold none.

More threads that compute at once finish nothing sooner, since Python runs one of them at a time: each takes
longer, all of them hold their memory, and the event loop waits for its turn among them.

Who has computed before goes first, in the order of asking, so that what is begun is finished; of those who
begin, the newest goes first, since its caller will still be there.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class _Thread(threading.local):
    slots: Slots | None = None


_thread = _Thread()


class Slots:
    """Bounds how many threads compute at one time."""

    def __init__(self, count: int | None = None) -> None:
        self._lock = threading.Lock()
        self._free = count or os.cpu_count() or 1
        # Each waits for a lock of its own, which whoever gives it a slot lets go.
        self._resuming: deque[threading.Lock] = deque()
        self._beginning: list[threading.Lock] = []

    @property
    def waiting(self) -> int:
        """How many threads wait for a slot."""
        return len(self._resuming) + len(self._beginning)

    @contextmanager
    def computing(self, *, is_begun: bool = False) -> Iterator[None]:
        """The block runs in a slot, except where it waits; what ``is_begun`` goes before what is not.

        A thread that has a slot keeps it.
        """
        if _thread.slots is not None:
            yield
            return
        self._take(self._resuming if is_begun else self._beginning)
        try:
            yield
        finally:
            self.give_back()

    def take_back(self) -> None:
        """Waits for a slot again."""
        self._take(self._resuming)

    def give_back(self) -> None:
        """Frees the slot of this thread."""
        _thread.slots = None
        with self._lock:
            if self._resuming:
                self._resuming.popleft().release()
            elif self._beginning:
                self._beginning.pop().release()
            else:
                self._free += 1

    def _take(self, line: deque[threading.Lock] | list[threading.Lock]) -> None:
        turn = threading.Lock()
        with self._lock:
            if self._free:
                self._free -= 1
            else:
                turn.acquire()
                line.append(turn)
        turn.acquire()
        _thread.slots = self


@contextmanager
def waiting() -> Iterator[None]:
    """Releases this thread's slot while the block waits for storage or for another thread.

    Whoever enters it holds no lock that those who compute may wait for.
    """
    slots = _thread.slots
    if slots is None:
        yield
        return
    slots.give_back()
    try:
        yield
    finally:
        slots.take_back()


CORES: Final = Slots()
"""Those of this machine, for whatever this process computes."""

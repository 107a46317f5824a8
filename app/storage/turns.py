"""Waiting in line for a share of something that is bounded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from app.storage.deadline import check_deadline, glance_seconds
from app.storage.slots import give_away

Taken = TypeVar("Taken")


class Line:
    """Threads that wait for a share, served in the order of their coming: a large share is never passed over.

    Args:
        lock: guards what is shared out; whoever calls a method holds it.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._changed = threading.Condition(lock)
        self._waiting: deque[object] = deque()

    def take(self, attempt: Callable[[], Taken | None]) -> Taken:
        """What ``attempt`` takes, once it is this thread's turn and the attempt is not in vain (``None``).

        The lock may be let go in between.

        Raises:
            DeadlineExceededError: the request's time was used up before, or its caller went away.
        """
        if not self._waiting and (taken := attempt()) is not None:
            return taken
        place = object()
        self._waiting.append(place)
        slots = give_away()
        try:
            while True:
                taken = attempt() if self._waiting[0] is place else None
                if taken is not None:
                    return taken
                check_deadline()
                self._changed.wait(glance_seconds())
        finally:
            self._waiting.remove(place)
            self.changed()
            if slots is not None:
                # Those who compute may wait for the lock.
                self._lock.release()
                slots.take_back()
                self._lock.acquire()

    def changed(self) -> None:
        """Something was given back, or somebody left the line."""
        if self._waiting:
            self._changed.notify_all()


class ByteBudget:
    """Bytes that may be under way at once, over all threads.

    Args:
        limit: what is never passed, unless one share alone is larger: it is taken when there is no other.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._lock = threading.Lock()
        self._line = Line(self._lock)

    def take(self, size: int) -> None:
        """Takes ``size`` bytes of the budget, once they are there.

        Raises:
            DeadlineExceededError: the request's time was used up in the line, or its caller went away.
        """

        def attempt() -> bool | None:
            if self._taken and self._taken + size > self._limit:
                return None
            self._taken += size
            return True

        with self._lock:
            self._line.take(attempt)

    def give_back(self, size: int) -> None:
        """Returns what was taken."""
        with self._lock:
            self._taken -= size
            self._line.changed()

"""The machine's cores, shared by threads that compute. A thread that waits holds none.

More threads would finish nothing sooner, since Python runs one at a time: each takes longer, all hold their
memory, and the event loop waits for its turn among them.

Each warehouse has a line, so that many or expensive requests of one leave others their share of the cores:

* A line without a computing thread starts one at once, up to two threads a core in all. The system shares the
cores among them.
* A free core goes to the line that has computed least lately. A thread that has computed for
:data:`TURN_SECONDS` yields to a line that has computed less, at its next
:func:`~app.work.deadline.check_deadline`.
* Within a line, threads that resume go first, in order of arrival, so that started work is finished. Of new
threads the latest goes first, since its caller is the least likely to have given up.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from app.observation import bound

TURN_SECONDS: Final = 0.02
"""Seconds that a thread computes before it yields; switching threads takes some ten microseconds."""

_line: ContextVar[str | None] = ContextVar("line", default=None)


@dataclass(slots=True, eq=False)
class _Line:
    """Threads of one warehouse that compute or wait. Handing a core to a waiting thread releases its lock."""

    seconds: float = 0.0  # Time computed so far.
    computing: int = 0
    resuming: deque[threading.Lock] = field(default_factory=deque)
    beginning: list[threading.Lock] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return len(self.resuming) + len(self.beginning)


@dataclass(frozen=True, slots=True)
class _Turn:
    cores: Cores
    line: _Line
    since: float

    @property
    def computed(self) -> float:
        """Seconds that the line has computed, including this turn."""
        return self.line.seconds + time.monotonic() - self.since


class _Thread(threading.local):
    turn: _Turn | None = None


_thread = _Thread()


class Cores:
    """Bounds the number of threads that compute at once.

    ``count``: total up to which a line that computes already gets another core, by default the machine's
    cores. ``most``: total up to which an idle line gets its first one, by default twice as many.
    """

    def __init__(self, count: int | None = None, most: int | None = None) -> None:
        self._lock = threading.Lock()
        self._count = count or os.cpu_count() or 1
        self._most = most or 2 * self._count
        self._lines: dict[str | None, _Line] = {}
        self._computing = 0
        self._waiting = 0
        self._latest = 0.0

    @property
    def waiting(self) -> int:
        """Number of threads that wait for a core."""
        return self._waiting

    @contextmanager
    def computing(self, line: str | None = None, *, is_begun: bool = False) -> Iterator[None]:
        """Acquire a core for the block, except while the block waits. A thread that has one keeps it.

        ``line``: by default that of the enclosing block, which threads with a copy of its context share.
        ``is_begun``: goes before new work.
        """
        if _thread.turn is not None:
            yield
            return
        name = _line.get() if line is None else line
        with self._lock:
            entered = self._lines.setdefault(name, _Line())
        self._take(entered, is_resuming=is_begun)
        try:
            with bound(_line, name):
                yield
        finally:
            self._release()

    def resume(self, line: _Line) -> None:
        """Acquire a core again, before new threads of the line."""
        self._take(line, is_resuming=True)

    def pause(self) -> _Line:
        """Release this thread's core. Return the line to resume in."""
        return self._release()

    def give_way(self, turn: _Turn) -> None:
        """Release the core of a finished turn for a line that has computed less, and queue again."""
        computed = turn.computed
        with self._lock:
            lines = [line for line in self._lines.values() if line.waiting and line is not turn.line]
        if any(line.seconds < computed for line in lines):
            self.resume(self.pause())

    def _take(self, line: _Line, *, is_resuming: bool) -> None:
        handed_over = threading.Lock()
        with self._lock:
            if not line.computing and not line.waiting:
                # A line that was idle starts at what others have used, so that it cannot save up time.
                line.seconds = max(line.seconds, self._latest)
            if self._may_begin(line):
                self._begin(line)
            else:
                handed_over.acquire()
                (line.resuming if is_resuming else line.beginning).append(handed_over)
                self._waiting += 1
        handed_over.acquire()
        _thread.turn = _Turn(self, line, time.monotonic())

    def _release(self) -> _Line:
        turn = _thread.turn
        assert turn is not None  # noqa: S101 - only a thread that has a core releases one
        _thread.turn = None
        with self._lock:
            turn.line.seconds = turn.computed
            turn.line.computing -= 1
            self._computing -= 1
            while lines := [line for line in self._lines.values() if line.waiting and self._may_begin(line)]:
                following = min(lines, key=lambda line: (line.seconds, line.computing))
                self._waiting -= 1
                self._begin(following)
                (following.resuming.popleft() if following.resuming else following.beginning.pop()).release()
        return turn.line

    def _may_begin(self, line: _Line) -> bool:
        return self._computing < (self._most if not line.computing else self._count)

    def _begin(self, line: _Line) -> None:
        line.computing += 1
        self._computing += 1
        self._latest = max(self._latest, line.seconds)


def line_of_work() -> str | None:
    """Return the warehouse that this thread works for, if any."""
    return _line.get()


@contextmanager
def waiting() -> Iterator[None]:
    """Release this thread's core while the block waits for storage or another thread.

    The caller must hold no lock that a computing thread may wait for.
    """
    turn = _thread.turn
    if turn is None:
        yield
        return
    line = turn.cores.pause()
    try:
        yield
    finally:
        turn.cores.resume(line)


def give_way() -> None:
    """Yield the core if this thread's turn is over. The caller holds no locks, as for :func:`waiting`."""
    turn = _thread.turn
    if turn is not None and turn.cores.waiting and time.monotonic() - turn.since > TURN_SECONDS:
        turn.cores.give_way(turn)


CORES: Final = Cores()
"""The cores of this machine, for this process."""

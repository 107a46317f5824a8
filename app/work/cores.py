"""The machine's cores, shared by threads that compute; a thread that waits for something holds none.

More threads that compute at once finish nothing sooner, since Python runs one of them at a time: each takes
longer, all of them hold their memory, and the event loop waits for its turn among them.

Threads stand in a line for each warehouse, so that requests of one, however many and dear, leave others their
part of the cores:

* A line of which no thread computes goes on at once, as long as no more than two threads a core compute; the
  system then shares the cores out.
* A core goes to the line that has computed least of late. A thread that has computed for :data:`TURN_SECONDS`
  gives its core to a line that has computed less, at its next :func:`~app.work.deadline.check_deadline`.
* In a line, who has computed before goes first, in the order of asking, so that what is begun is finished; of
  those who begin, the newest goes first, since its caller will still be there.
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
"""How long a thread computes before it gives way; to change threads takes some ten microseconds."""


@dataclass(slots=True, eq=False)
class _Line:
    """Threads that compute for one warehouse, or wait to.

    ``seconds``: what it has computed, raised to what others had when it came back from having nothing to do,
    so that nobody saves up time. Each thread that waits has a lock, which whoever gives it a core releases.
    """

    seconds: float = 0.0
    computing: int = 0
    resuming: deque[threading.Lock] = field(default_factory=deque)
    beginning: list[threading.Lock] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return len(self.resuming) + len(self.beginning)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A core that a thread has, and since when."""

    cores: Cores
    line: _Line
    since: float

    @property
    def computed(self) -> float:
        """Seconds of the line, this turn included."""
        return self.line.seconds + time.monotonic() - self.since


class _Thread(threading.local):
    turn: _Turn | None = None


_thread = _Thread()
_line: ContextVar[str | None] = ContextVar("line", default=None)


class Cores:
    """Bounds how many threads compute at one time.

    Args:
        count: threads of one line, and of all lines but for those of which no thread computes; as many as the
            machine has cores unless given.
        most: threads of all lines together; twice as many unless given.
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
        """How many threads wait for a core."""
        return self._waiting

    @contextmanager
    def computing(self, line: str | None = None, *, is_begun: bool = False) -> Iterator[None]:
        """The block has a core, except where it waits; a thread that has one keeps it.

        Args:
            line: that of the enclosing block, which threads with a copy of its context share, unless given.
            is_begun: goes before what is not.
        """
        if _thread.turn is not None:
            yield
            return
        name = _line.get() if line is None else line
        with self._lock:
            at = self._lines.setdefault(name, _Line())
        self._take(at, is_resuming=is_begun)
        try:
            with bound(_line, name):
                yield
        finally:
            self._release()

    def resume(self, line: _Line) -> None:
        """Waits for a core again, before those of the line who begin."""
        self._take(line, is_resuming=True)

    def pause(self) -> _Line:
        """Frees the core of this thread; returns the line to resume in."""
        return self._release()

    def give_way(self, turn: _Turn) -> None:
        """Lets a line compute that has computed less than that of a thread whose turn is over."""
        computed = turn.computed
        with self._lock:
            lines = [line for line in self._lines.values() if line.waiting and line is not turn.line]
        if any(line.seconds < computed for line in lines):
            self.resume(self.pause())

    def _take(self, line: _Line, *, is_resuming: bool) -> None:
        handed_over = threading.Lock()
        with self._lock:
            if not line.computing and not line.waiting:
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
    """The warehouse that this thread works for, if it is one's work."""
    return _line.get()


@contextmanager
def waiting() -> Iterator[None]:
    """Releases this thread's core while the block waits for storage or for another thread.

    Whoever enters it holds no lock that those who compute may wait for.
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
    """Lets others compute where this thread's turn is over; no lock is held, as for :func:`waiting`."""
    turn = _thread.turn
    if turn is not None and turn.cores.waiting and time.monotonic() - turn.since > TURN_SECONDS:
        turn.cores.give_way(turn)


CORES: Final = Cores()
"""Those of this machine, for whatever this process computes."""

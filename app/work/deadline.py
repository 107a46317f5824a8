"""The deadline of the present request, and its cancellation when the caller leaves.

Context variables hold both, so that code between HTTP layer and storage need not pass them on. Threads
started with a copy of the context (such as a web framework's pool) see them, too.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from contextvars import ContextVar
from threading import Event
from typing import TypeVar

from app.errors import DeadlineExceededError, RequestCancelledError
from app.observation import bound
from app.work.cores import give_way, waiting

_Result = TypeVar("_Result")

GLANCE_SECONDS = 0.1
"""Interval at which waiting threads check deadline and caller, since a thread can wait for one thing only."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
_cancellation: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


class Cancellation:
    """Ends the work of one request, in all of its threads."""

    def __init__(self) -> None:
        self.event = Event()

    def cancel(self) -> None:
        """End the work at its next :func:`check_deadline`. Thread-safe and idempotent."""
        self.event.set()


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Limit the block to ``seconds`` from now. An earlier deadline around it stays in force."""
    mine, outer = time.monotonic() + seconds, _deadline.get()
    return bound(_deadline, mine if outer is None else min(mine, outer))


def cancellable(cancellation: Cancellation) -> AbstractContextManager[None]:
    """Let ``cancellation`` end the block, instead of one around it."""
    return bound(_cancellation, cancellation)


def remaining_seconds() -> float | None:
    """Return seconds until the deadline, 0 if it has passed. None without a deadline."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def check_deadline() -> None:
    """Raise if the request is over. Otherwise yield the core if this thread's turn is over.

    The caller must hold no lock that a computing thread may wait for. Raises RequestCancelledError if the
    caller left, DeadlineExceededError if time ran out.
    """
    cancellation = _cancellation.get()
    if cancellation is not None and cancellation.event.is_set():
        raise RequestCancelledError("the caller went away")
    if remaining_seconds() == 0:
        raise DeadlineExceededError("the time given to this request is used up")
    give_way()


def pause(seconds: float) -> None:
    """Sleep, but not past a cancellation."""
    cancellation = _cancellation.get()
    if cancellation is None:
        time.sleep(seconds)
    else:
        with waiting():
            cancellation.event.wait(seconds)


def wait_for(future: Future[_Result]) -> _Result:
    """Wait for another thread's result, which may be an exception of its own.

    Raises DeadlineExceededError if this request's time ran out, or its caller left.
    """
    if future.done():
        return future.result()
    with waiting():
        while not future.done():
            check_deadline()
            wait([future], GLANCE_SECONDS)
    return future.result()

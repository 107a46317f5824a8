"""The time that the present request has left, and whether its caller still waits for the answer.

Both travel in context variables, so that code between the HTTP layer and storage need not pass them on;
threads that are started with a copy of the context (as a web framework's thread pool does) see them too.
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

Result = TypeVar("Result")

GLANCE_SECONDS = 0.1
"""A thread can wait for one thing only, so whoever waits looks this often at its deadline and its caller."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
_cancellation: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


class Cancellation:
    """Tells the work of one request, in whatever threads it is done, that nobody waits for it any more."""

    def __init__(self) -> None:
        self.event = Event()

    def cancel(self) -> None:
        """Ends the work at its next :func:`check_deadline`; may be called from any thread, and again."""
        self.event.set()


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Gives the enclosed work at most ``seconds`` from now; an earlier deadline around it stays in force."""
    mine, outer = time.monotonic() + seconds, _deadline.get()
    return bound(_deadline, mine if outer is None else min(mine, outer))


def cancellable(cancellation: Cancellation) -> AbstractContextManager[None]:
    """Lets ``cancellation`` end the enclosed work; it takes the place of one around it."""
    return bound(_cancellation, cancellation)


def remaining_seconds() -> float | None:
    """Seconds until the deadline, 0 if it has passed; ``None`` without a deadline."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def check_deadline() -> None:
    """Does nothing while the request has time left and a caller who waits; others may compute first.

    Whoever calls it holds no lock that those who compute may wait for.

    Raises:
        RequestCancelledError: the caller went away.
        DeadlineExceededError: the request's time is used up.
    """
    cancellation = _cancellation.get()
    if cancellation is not None and cancellation.event.is_set():
        raise RequestCancelledError("the caller went away")
    if remaining_seconds() == 0:
        raise DeadlineExceededError("the time given to this request is used up")
    give_way()


def pause(seconds: float) -> None:
    """Sleeps, though not after the caller went away."""
    cancellation = _cancellation.get()
    if cancellation is None:
        time.sleep(seconds)
    else:
        with waiting():
            cancellation.event.wait(seconds)


def wait_for(future: Future[Result]) -> Result:
    """What another thread is working on.

    Raises:
        DeadlineExceededError: this request's time was used up before, or its caller went away.
        Exception: whatever the other thread raised.
    """
    if future.done():
        return future.result()
    with waiting():
        while not future.done():
            check_deadline()
            wait([future], GLANCE_SECONDS)
    return future.result()

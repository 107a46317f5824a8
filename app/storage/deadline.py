"""The time that the present request has left.

The deadline travels in a context variable, so that code between the HTTP layer and storage need not pass it
on; threads that are started with a copy of the context (as a web framework's thread pool does) see it too.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from app.errors import DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Gives the enclosed work at most ``seconds``; an earlier deadline around it stays in force."""
    mine, outer = time.monotonic() + seconds, _deadline.get()
    token = _deadline.set(mine if outer is None else min(mine, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining_seconds() -> float | None:
    """Seconds until the deadline, 0 if it has passed; ``None`` without a deadline."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def check_deadline() -> None:
    """Raises :class:`DeadlineExceededError` once the request's time is used up."""
    if remaining_seconds() == 0:
        raise DeadlineExceededError("the time given to this request is used up")

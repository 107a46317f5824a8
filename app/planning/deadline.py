"""The time that one request may take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from app.errors import DeadlineExceededError


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time after which a request's work stops.

    Attributes:
        at: seconds on the monotonic clock.
        seconds: the time that was given, for the message.
    """

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """A deadline ``seconds`` from now."""
        return cls(time.monotonic() + seconds, seconds)

    def check(self) -> None:
        """Raises if the time is up.

        Raises:
            DeadlineExceededError: it is.
        """
        if time.monotonic() > self.at:
            raise DeadlineExceededError(
                f"the request was given {self.seconds:g} s and did not finish: ask for fewer files, "
                "or ask the operator to raise the deadline"
            )

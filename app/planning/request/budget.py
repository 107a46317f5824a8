"""How long a plan may wait for index files before it keeps the files that they are about."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final, Self

from app.storage import remaining_seconds

_SHARE_OF_DEADLINE: Final = 2 / 3


@dataclass(frozen=True, slots=True)
class Budget:
    """The time in which a plan may begin to read index files.

    What was loaded by then, by this plan or by an earlier one, is asked; the other files are kept.

    Attributes:
        ends: when it is used up, on the monotonic clock; None for a plan that waits for all of them.
    """

    ends: float | None = None

    @classmethod
    def begin(cls, milliseconds: int | None) -> Self:
        """A budget that begins now; None for one without an end.

        It leaves a third of what the request has until its deadline to whatever else the answer takes: a
        request that waited for a thread, or for its version, has less time left than its budget says.
        """
        if milliseconds is None:
            return cls(None)
        remaining = remaining_seconds()
        until = math.inf if remaining is None else remaining * _SHARE_OF_DEADLINE
        return cls(time.monotonic() + min(milliseconds / 1000, until))

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be read."""
        return self.ends is not None and time.monotonic() >= self.ends


UNBOUNDED: Final = Budget()
"""For a plan that somebody waits for, whatever it takes."""

YIELDING: Final = Budget(math.inf)
"""For a plan that nobody waits for: it reads in small parts, so that others come in between."""

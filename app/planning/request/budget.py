"""How long a plan may wait for index files before it keeps the files that they are about."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final, Self


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
        """A budget that begins now; None for one without an end."""
        return cls(None if milliseconds is None else time.monotonic() + milliseconds / 1000)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be read."""
        return self.ends is not None and time.monotonic() >= self.ends


UNBOUNDED: Final = Budget()
"""For a plan that somebody waits for, whatever it takes."""

YIELDING: Final = Budget(math.inf)
"""For a plan that nobody waits for: it reads in small parts, so that others come in between."""

"""How long a plan may read index files, and ask them long lists of values.

A list of 100,000 values asks the indexes of 100,000 files ten thousand million questions. Its first values
(:data:`~app.file_index.answers.SHORT_LIST`) are asked of every index; further ones while there is
time. Files that are not asked are kept.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final, Self

from app.file_index.answers import SHORT_LIST
from app.planning.request.limits import SHARE_OF_DEADLINE
from app.predicates.model import BoundLeaf, BoundPredicate, leaves
from app.work import check_deadline, remaining_seconds


@dataclass(frozen=True, slots=True)
class Budget:
    """The time in which a plan may begin to read index files, and ask them long lists.

    ``ends``: when it is used up, on the monotonic clock; None for a plan that waits for all index files.
    """

    ends: float | None = None

    @classmethod
    def begin(cls, milliseconds: int | None) -> Self:
        """A budget that begins now, and ends before the deadline; None for one without an end."""
        if milliseconds is None:
            return cls(None)
        return cls(time.monotonic() + milliseconds / 1000).before_deadline()

    def before_deadline(self) -> Self:
        """The same, ending at the latest after two thirds of the time until the request's deadline."""
        remaining = remaining_seconds()
        until = math.inf if remaining is None else time.monotonic() + remaining * SHARE_OF_DEADLINE
        return type(self)(until if self.ends is None else min(self.ends, until))

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be read."""
        return self.ends is not None and time.monotonic() >= self.ends

    def out_of_time(self) -> bool:
        """Whether no more values of long lists are to be asked.

        Raises DeadlineExceededError: the request's time ran out.
        """
        check_deadline()
        return self.is_spent


UNBOUNDED: Final = Budget()
"""For a plan that somebody waits for, whatever it takes."""

BACKGROUND: Final = Budget(math.inf)
"""For a plan that nobody waits for: it reads in small parts, so that others come in between."""


def asks_much(predicate: BoundPredicate) -> bool:
    """Whether a filter has more values and tests than are asked whatever time is left."""
    tests = (leaf for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf))
    return sum(max(1, len(leaf.literals)) for leaf in tests) > SHORT_LIST


def unasked_warnings(files: int) -> list[str]:
    """What the caller has to know of files that were not asked every value."""
    if not files:
        return []
    warning = (
        f"{files} files are not asked every value of the filter's long lists, since the plan's budget of "
        "time (budget_ms) was used up: shorter lists or a larger budget narrow the answer"
    )
    return [warning]

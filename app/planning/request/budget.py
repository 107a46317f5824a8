"""Limits of the time in which a plan reads index files and looks up long lists of values in them."""

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
    """The time in which a plan may begin to read index files, and to look up long lists in them."""

    ends: float | None = None  # On the monotonic clock. None waits for all index files.

    @classmethod
    def begin(cls, milliseconds: int | None) -> Self:
        """Start a budget that ends before the request's deadline. None makes one without an end."""
        if milliseconds is None:
            return cls(None)
        return cls(time.monotonic() + milliseconds / 1000).before_deadline()

    def before_deadline(self) -> Self:
        """Cap the budget at two thirds of the time that remains until the request's deadline."""
        remaining = remaining_seconds()
        until = math.inf if remaining is None else time.monotonic() + remaining * SHARE_OF_DEADLINE
        return type(self)(until if self.ends is None else min(self.ends, until))

    @property
    def is_spent(self) -> bool:
        """True once no more index files may be read."""
        return self.ends is not None and time.monotonic() >= self.ends

    def out_of_time(self) -> bool:
        """Return :attr:`is_spent`. Raises DeadlineExceededError if the request's time ran out."""
        check_deadline()
        return self.is_spent


UNBOUNDED: Final = Budget()
"""For a plan whose caller waits, however long it takes."""

BACKGROUND: Final = Budget(math.inf)
"""For a plan without a caller: it reads in small parts, so that requests get their turn in between."""


def needs_budget(predicate: BoundPredicate) -> bool:
    """Return True if a filter has so many values and tests that looking them up needs a budget."""
    # 100,000 values in the indexes of 100,000 files are ten thousand million look-ups.
    tests = (leaf for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf))
    return sum(max(1, len(leaf.literals)) for leaf in tests) > SHORT_LIST


def budget_warnings(files: int) -> list[str]:
    """Warn of files whose indexes were not searched for every value."""
    if not files:
        return []
    warning = (
        f"{files} files were not searched for every value of the filter's long lists, since the plan's time "
        "budget (budget_ms) was used up: shorter lists or a larger budget narrow the answer"
    )
    return [warning]

"""How many storage calls may be repeated, so that an outage of a store does not multiply what it is asked.

As in the retry budgets of gRPC and the AWS SDKs: repeating a call takes from the budget, a repeated call
that succeeds gives back what it took, and one that succeeds at once gives a little. While most calls fail,
the budget is spent soon and every call is made once; while few fail, it is never spent.
"""

from __future__ import annotations

import threading
from typing import Final

REPEATED_CALLS: Final = 100
"""That may have failed, more than have succeeded, in one process."""

_FEWEST: Final = 10
_EARNED: Final = 0.1


class RetryBudget:
    """A bucket of repeated calls, for the threads of one process.

    Args:
        most: what it holds at the start and at most.
    """

    def __init__(self, most: float = REPEATED_CALLS) -> None:
        self._most = self._left = float(most)
        self._lock = threading.Lock()

    @classmethod
    def of_each(cls, warehouses: int) -> list[RetryBudget]:
        """A budget for each of so many warehouses, so that none spends what another needs.

        Each gets an equal part of :data:`REPEATED_CALLS`, and at least a tenth.
        """
        return [cls(max(REPEATED_CALLS / warehouses, _FEWEST)) for _ in range(warehouses)]

    def take(self) -> bool:
        """Takes one repeated call, if there is one left."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def succeeded(self, *, is_repeated: bool) -> None:
        """Gives back, or gives, for a call that succeeded."""
        if self._left < self._most:
            with self._lock:
                self._left = min(self._most, self._left + (1 if is_repeated else _EARNED))

"""Second chances for storage calls, and the one place where a library's exceptions become this project's.

Nothing below repeats a call (:mod:`app.storage.stores`), and nothing above does. Which failures are worth
asking again: :func:`~app.storage.stores.failures.is_transient`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from app.errors import (
    DeadlineExceededError,
    FileMissingError,
    PaimonIndexError,
    PathNotAllowedError,
    RequestCancelledError,
    StorageError,
)
from app.observation import StorageCall, StorageOperation, observer
from app.storage.stores.failures import failure_of, is_missing, is_transient
from app.storage.stores.store import Attempt, Result
from app.work import check_deadline, pause, remaining_seconds, waiting

REPEATED_CALLS: Final = 100
"""That may have failed, more than have succeeded, in one process."""

_FEWEST: Final = 10
_EARNED: Final = 0.1


class RetryBudget:
    """How many storage calls may be repeated, so that an outage does not multiply what a store is asked.

    As in the retry budgets of gRPC and the AWS SDKs: repeating a call takes from the budget, a repeated call
    that succeeds gives back what it took, and one that succeeds at once gives a little. While most calls
    fail, the budget is spent soon and every call is made once; while few fail, it is never spent.
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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a storage call is repeated.

    Attributes:
        first_wait_seconds: upper bound of the first wait; it doubles with every attempt, and the wait is
            drawn evenly between zero and the bound, so that many callers do not come back at once.
        max_wait_seconds: no bound grows beyond this.
        budget: of repeated calls, for all that the policy is used for; once it is spent, calls fail at once.
    """

    attempts: int = 4
    first_wait_seconds: float = 0.1
    max_wait_seconds: float = 2.0
    budget: RetryBudget = field(default_factory=RetryBudget)

    def call(
        self,
        path: str,
        operation: Callable[[], Result],
        *,
        kind: StorageOperation = StorageOperation.READ,
        first: Attempt[Result] | None = None,
    ) -> Result:
        """The result of ``operation``, which does to ``path`` what ``kind`` says.

        Args:
            first: the first attempt, where it was made together with others; its error counts as one here.

        Raises:
            FileMissingError: storage says that there is no such file.
            DeadlineExceededError: the request's time is used up, or would be before the next attempt; or its
                caller went away.
            StorageError: every attempt failed, or one failed for good, or the budget is spent.
        """
        made = 0
        while True:
            check_deadline()
            try:
                if first is not None:
                    result = _report_first_attempt(kind, path, first)
                else:
                    with waiting():
                        result = _observed(kind, path, operation, is_repeated=made > 0)
            except PaimonIndexError:
                raise
            except Exception as error:
                if is_missing(error):
                    # Whoever made it may hold it, and its frames hold all that their callers have found.
                    error.__traceback__ = None
                    raise FileMissingError(f"there is no file {path}", path=path) from error
                made, first = made + 1, None
                self._wait_after(error, kind, path, made)
            else:
                self.budget.succeeded(is_repeated=made > 0)
                return result

    def _wait_after(self, error: Exception, kind: StorageOperation, path: str, made: int) -> None:
        """Waits until a call may be made again of which so many were ``made``; raises if it may not."""
        why = f"cannot {kind.verb} {path or 'the root of the warehouse'}: {failure_of(error)}"
        if made >= self.attempts or not is_transient(error):
            raise StorageError(why, path=path) from error
        longest = min(self.first_wait_seconds * 2 ** (made - 1), self.max_wait_seconds)
        seconds, left = random.uniform(0, longest), remaining_seconds()  # noqa: S311 - no secret
        if left is not None and seconds >= left:
            message = f"no time is left to {kind.verb} {path} again after {failure_of(error)}"
            raise DeadlineExceededError(message, path=path) from error
        # Only calls that are made take from it.
        if not self.budget.take():
            raise StorageError(f"{why}; not tried again, since many calls fail", path=path) from error
        pause(seconds)


def _observed(
    kind: StorageOperation, path: str, operation: Callable[[], Result], *, is_repeated: bool
) -> Result:
    began = time.perf_counter()
    try:
        result = operation()
    except BaseException as error:
        seconds = time.perf_counter() - began
        # No second name for the error: one in this frame, which its traceback has, would keep both.
        observer().storage_called(
            StorageCall(
                kind,
                path,
                seconds,
                0,
                # Where nobody waits any more, or nothing was asked, storage did not fail.
                None if isinstance(error, RequestCancelledError | PathNotAllowedError) else error,
                is_repeated,
            )
        )
        raise
    seconds = time.perf_counter() - began
    observer().storage_called(StorageCall(kind, path, seconds, _size(kind, result), None, is_repeated))
    return result


def _report_first_attempt(kind: StorageOperation, path: str, made: Attempt[Result]) -> Result:
    observer().storage_called(StorageCall(kind, path, made.seconds, _size(kind, made.result), made.error))
    if made.error is not None:
        raise made.error
    assert made.result is not None  # noqa: S101 - or it would have an error
    return made.result


def _size(kind: StorageOperation, result: object) -> int:
    """Bytes that were read; readers give them, or how many there were."""
    if kind not in (StorageOperation.READ, StorageOperation.READ_RANGE):
        return 0
    return len(result) if isinstance(result, bytes) else result if isinstance(result, int) else 0

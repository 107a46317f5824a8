"""Second chances for storage calls, and the one place where a library's exceptions become this project's.

Nothing below repeats a call (:mod:`app.storage.libraries`), and nothing above does. Which failures are worth
asking again: :func:`~app.storage.failures.is_transient`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import tenacity

from app.errors import (
    DeadlineExceededError,
    FileMissingError,
    PaimonIndexError,
    RequestCancelledError,
    StorageError,
)
from app.observation import StorageCall, StorageOperation, observer
from app.storage.failures import failure_of, is_missing, is_transient
from app.work.cores import waiting
from app.work.deadline import check_deadline, pause, remaining_seconds

Result = TypeVar("Result")

REPEATED_CALLS: Final = 100
"""That may have failed, more than have succeeded, in one process."""

_FEWEST: Final = 10
_EARNED: Final = 0.1


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Result]):
    """What became of a call that was made already."""

    seconds: float
    result: Result | None = None
    error: Exception | None = None


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
        check_deadline()
        try:
            if first is None:
                with waiting():
                    result = _observed(kind, path, operation)
            else:
                result = _report_first_attempt(kind, path, first)
        except PaimonIndexError:
            raise
        except Exception as error:
            if is_missing(error):
                # Whoever made it may hold it, and its frames hold all that their callers have found.
                error.__traceback__ = None
                raise FileMissingError(f"there is no file {path}", path=path) from error
            result = self._call_again(path, operation, kind, error)
            self.budget.succeeded(is_repeated=True)
            return result
        self.budget.succeeded(is_repeated=False)
        return result

    def _call_again(
        self, path: str, operation: Callable[[], Result], kind: StorageOperation, first: Exception
    ) -> Result:
        """The result of further attempts; made apart, since most calls need but one and tenacity is slow."""
        failed: list[Exception] = [first]
        budget = _SpentBudget(self.budget)

        def attempt() -> Result:
            if failed:
                raise failed.pop()
            check_deadline()
            with waiting():
                return _observed(kind, path, operation, is_repeated=True)

        time_left = remaining_seconds()
        stop: tenacity.stop.stop_base = tenacity.stop_after_attempt(self.attempts)
        if time_left is not None:
            stop |= tenacity.stop_before_delay(time_left)
        retrying = tenacity.Retrying(
            # The budget comes last, so that only calls that are made take from it.
            stop=stop | budget,
            wait=tenacity.wait_random_exponential(self.first_wait_seconds, self.max_wait_seconds),
            retry=tenacity.retry_if_exception(is_transient),
            sleep=pause,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except PaimonIndexError:
            raise
        except Exception as error:
            if is_missing(error):
                raise FileMissingError(f"there is no file {path}", path=path) from error
            why = f"cannot {kind.verb} {path or 'the root of the warehouse'}: {failure_of(error)}"
            if budget.is_spent:
                raise StorageError(f"{why}; not tried again, since many calls fail", path=path) from error
            made = retrying.statistics.get("attempt_number", 1)
            if is_transient(error) and made < self.attempts:
                message = f"no time is left to {kind.verb} {path} again after {failure_of(error)}"
                raise DeadlineExceededError(message, path=path) from error
            raise StorageError(why, path=path) from error


class _SpentBudget(tenacity.stop.stop_base):
    def __init__(self, budget: RetryBudget) -> None:
        self.is_spent = False
        self._budget = budget

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:  # noqa: ARG002 - tenacity's way to ask
        self.is_spent = not self._budget.take()
        return self.is_spent


def _observed(
    kind: StorageOperation, path: str, operation: Callable[[], Result], *, is_repeated: bool = False
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
                # Where nobody waits any more, storage did not fail.
                None if isinstance(error, RequestCancelledError) else error,
                is_repeated,
            )
        )
        raise
    if result is None:
        # A reader that found out that it is not the one to ask.
        return result
    seconds = time.perf_counter() - began
    observer().storage_called(StorageCall(kind, path, seconds, _size(result), None, is_repeated))
    return result


def _report_first_attempt(kind: StorageOperation, path: str, made: Attempt[Result]) -> Result:
    observer().storage_called(StorageCall(kind, path, made.seconds, _size(made.result), made.error))
    if made.error is not None:
        raise made.error
    assert made.result is not None  # noqa: S101 - or it would have an error
    return made.result


def _size(result: object) -> int:
    """Readers give bytes, or how many there were."""
    return len(result) if isinstance(result, bytes) else result if isinstance(result, int) else 0

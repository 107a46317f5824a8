"""Retries storage calls, and turns every library's exceptions into this project's.

No other layer repeats a call. :func:`~app.storage.stores.failures.is_transient` decides which failures are
retried.
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
from app.storage.stores.store import Attempt, _Result
from app.work import check_deadline, pause, remaining_seconds, waiting

REPEATED_CALLS: Final = 100
"""Retries that one process may spend beyond those that succeed."""

_FEWEST: Final = 10
_EARNED: Final = 0.1


class RetryBudget:
    """Bounds retries, so that an outage does not multiply the load of a store.

    As in gRPC and the AWS SDKs: a retry takes from the budget, a successful retry returns what it took, and a
    call that succeeds at once adds a little. While most calls fail, the budget is soon spent, and every call
    is made once.
    """

    def __init__(self, most: float = REPEATED_CALLS) -> None:
        self._most = self._remaining = float(most)
        self._lock = threading.Lock()

    @classmethod
    def of_each(cls, warehouses: int) -> list[RetryBudget]:
        """Split :data:`REPEATED_CALLS` by warehouse, at least a tenth each, so that none spends it all."""
        return [cls(max(REPEATED_CALLS / warehouses, _FEWEST)) for _ in range(warehouses)]

    def take(self) -> bool:
        """Take one retry, if any remains."""
        with self._lock:
            if self._remaining < 1:
                return False
            self._remaining -= 1
            return True

    def succeeded(self, *, is_repeated: bool) -> None:
        """Add to the budget for a successful call."""
        if self._remaining < self._most:
            with self._lock:
                self._remaining = min(self._most, self._remaining + (1 if is_repeated else _EARNED))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of attempts of a storage call, and their backoff."""

    attempts: int = 4
    # Doubles with every attempt; the backoff is drawn evenly from zero up to it.
    first_wait_seconds: float = 0.1
    max_wait_seconds: float = 2.0  # Limit of that bound.
    budget: RetryBudget = field(default_factory=RetryBudget)  # Once it is spent, calls fail at once.

    def call(
        self,
        path: str,
        operation: Callable[[], _Result],
        *,
        kind: StorageOperation = StorageOperation.READ,
        first: Attempt[_Result] | None = None,
    ) -> _Result:
        """Return the result of ``operation``, an operation of ``kind`` on ``path``.

        ``first``: the first attempt, if it was made in a batch. Its error counts as if raised here.

        Raises FileMissingError if storage reports that the file does not exist. Raises DeadlineExceededError
        if time ran out, or would before the next attempt, or the caller left. Raises StorageError if every
        attempt failed, or one failed for good, or the budget is spent.
        """
        attempts_made = 0
        while True:
            check_deadline()
            try:
                if first is not None:
                    result = _report_first_attempt(kind, path, first)
                else:
                    with waiting():
                        result = _observed(kind, path, operation, is_repeated=attempts_made > 0)
            except PaimonIndexError:
                raise
            except Exception as error:
                if is_missing(error):
                    # A library may keep the error, and the traceback holds what the callers have loaded.
                    error.__traceback__ = None
                    raise FileMissingError(f"there is no file {path}", path=path) from error
                attempts_made, first = attempts_made + 1, None
                self._wait_after(error, kind, path, attempts_made)
            else:
                self.budget.succeeded(is_repeated=attempts_made > 0)
                return result

    def _wait_after(self, error: Exception, kind: StorageOperation, path: str, attempts_made: int) -> None:
        why = f"cannot {kind.verb} {path or 'the root of the warehouse'}: {failure_of(error)}"
        if attempts_made >= self.attempts or not is_transient(error):
            raise StorageError(why, path=path) from error
        longest = min(self.first_wait_seconds * 2 ** (attempts_made - 1), self.max_wait_seconds)
        seconds, remaining = random.uniform(0, longest), remaining_seconds()  # noqa: S311 - no secret
        if remaining is not None and seconds >= remaining:
            message = f"no time is left to {kind.verb} {path} again after {failure_of(error)}"
            raise DeadlineExceededError(message, path=path) from error
        # Checked last, so that only retries that are made take from the budget.
        if not self.budget.take():
            raise StorageError(f"{why}; not tried again, since many calls fail", path=path) from error
        pause(seconds)


def _observed(
    kind: StorageOperation, path: str, operation: Callable[[], _Result], *, is_repeated: bool
) -> _Result:
    began = time.perf_counter()
    try:
        result = operation()
    except BaseException as error:
        seconds = time.perf_counter() - began
        # A variable for the error would make a cycle: its traceback has this frame.
        observer().storage_called(
            StorageCall(
                kind,
                path,
                seconds,
                0,
                # A cancelled request, or a refused path, is not a failure of storage.
                None if isinstance(error, RequestCancelledError | PathNotAllowedError) else error,
                is_repeated,
            )
        )
        raise
    seconds = time.perf_counter() - began
    observer().storage_called(StorageCall(kind, path, seconds, _size(kind, result), None, is_repeated))
    return result


def _report_first_attempt(kind: StorageOperation, path: str, made: Attempt[_Result]) -> _Result:
    observer().storage_called(StorageCall(kind, path, made.seconds, _size(kind, made.result), made.error))
    if made.error is not None:
        raise made.error
    assert made.result is not None  # noqa: S101 - or it would have an error
    return made.result


def _size(kind: StorageOperation, result: object) -> int:
    """Return the bytes read: readers return them, or their number."""
    if kind not in (StorageOperation.READ, StorageOperation.READ_RANGE):
        return 0
    return len(result) if isinstance(result, bytes) else result if isinstance(result, int) else 0

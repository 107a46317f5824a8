"""Second chances for storage calls, and the one place where a library's exceptions become this project's.

Nothing below repeats a call (:mod:`app.storage.libraries`), and nothing above does. Which failures are worth
asking again: :func:`is_transient`.

The libraries' own texts name endpoints, buckets, absolute paths and sometimes credentials. What our
exceptions say instead is the kind of the exception, the error code of an object store (``SlowDown``,
``InvalidAccessKeyId``) and its HTTP status.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
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
from app.work.cores import waiting
from app.work.deadline import check_deadline, pause, remaining_seconds

_RANGE_NOT_SATISFIABLE: Final = 416
_HTTP_STATUSES: Final = range(100, 600)

_PASSING_CODES: Final = frozenset(
    {
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "InternalError",
        "ServerBusy",
        "OperationTimedOut",
    }
)
_PASSING_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
# By name, as not every library is there. What they raise as OSError needs no name here.
_BROKEN_OFF: Final = frozenset(
    {
        "aiohttp.ClientConnectionError",
        "aiohttp.ClientPayloadError",
        "asyncio.IncompleteReadError",
        "azure.IncompleteReadError",
        "azure.ServiceRequestError",
        "azure.ServiceResponseError",
        "gcsfs.ChecksumError",
        "google.TransportError",
        "http.IncompleteRead",
        "httpx.TransportError",
        "oss2.RequestError",
        "urllib3.HTTPError",
    }
)
_SILENCES: Final = frozenset(
    {
        "azure.ServiceRequestTimeoutError",
        "azure.ServiceResponseTimeoutError",
    }
)
_MISSING: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_REFUSED: Final = (PermissionError, FileExistsError)
_REFUSALS: Final = (errno.EINVAL, errno.ENAMETOOLONG)


class StoreAnswerError(OSError):
    """What a store answered in place of what it was asked for."""

    def __init__(self, code: str | None, status: int) -> None:
        super().__init__(f"the store answered {code or ''} {status}")
        self.code = code
        self.status = status


def failure_of(error: BaseException) -> str:
    """The kind of a failure: ``PermissionError (InvalidAccessKeyId, HTTP 403)``."""
    code, status = _answer_of(error)
    known = [] if code is None else [code]
    if status is not None:
        known.append(f"HTTP {status}")
    if not known and isinstance(error, OSError) and error.errno is not None:
        known.append(errno.errorcode.get(error.errno, f"errno {error.errno}"))
    name = type(error).__name__
    return f"{name} ({', '.join(known)})" if known else name


def is_missing(error: BaseException) -> bool:
    """Whether storage says that there is no such file."""
    # No file has a name that its file system cannot hold.
    is_said = isinstance(error, _MISSING) or getattr(error, "errno", None) == errno.ENAMETOOLONG
    return is_said and not _is_guessed(error)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed in a moment.

    What a store answered decides; without an answer, the kind of the exception.
    """
    if _is_broken_off(error) or _is_guessed(error):
        return True
    code, status = _answer_of(error)
    if code in _PASSING_CODES:
        return True
    if status is not None:
        return status in _PASSING_STATUSES
    if isinstance(error, OSError):
        return not isinstance(error, (*_MISSING, *_REFUSED)) and error.errno not in _REFUSALS
    return False


def is_timeout(error: BaseException) -> bool:
    """Whether storage was silent for too long."""
    return isinstance(error, TimeoutError) or not _SILENCES.isdisjoint(_names_of(error))


def is_behind_the_end(error: BaseException) -> bool:
    """Whether a store refused a range because the file ends before it."""
    code, status = _answer_of(error)
    return code == "InvalidRange" or status == _RANGE_NOT_SATISFIABLE


def _is_guessed(error: BaseException) -> bool:
    """Whether a library takes what may pass for a missing file, as fsspec does over HTTP."""
    cause = error.__cause__
    return isinstance(error, FileNotFoundError) and cause is not None and is_transient(cause)


def _is_broken_off(error: BaseException) -> bool:
    return not _BROKEN_OFF.isdisjoint(_names_of(error))


def _names_of(error: BaseException) -> Iterator[str]:
    """The kinds of an exception, each with the library that it is of: ``botocore.HTTPClientError``."""
    return (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__)


def _answer_of(error: BaseException) -> tuple[str | None, int | None]:
    """The error code and HTTP status that a store answered, as far as the exceptions tell."""
    if _is_broken_off(error):
        # Parsers of HTTP give numbers to what breaks off: of an error that no store answered.
        return None, None
    for each in _chain(error):
        if isinstance(each, StoreAnswerError):
            return each.code, each.status
        for name in ("status", "status_code", "code"):
            status = getattr(each, name, None)
            # A library may have numbers of its own for what is no answer.
            if isinstance(status, int) and status in _HTTP_STATUSES:
                return _code_of(each), int(status)
    return None, None


def _code_of(error: BaseException) -> str | None:
    code = getattr(error, "error_code", None)
    text = getattr(code, "value", code)
    return text if isinstance(text, str) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that it was made from."""
    at: BaseException | None = error
    for _ in range(8):
        if at is None:
            return
        yield at
        at = at.__cause__


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

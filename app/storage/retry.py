"""Second chances for storage calls, and the one place where a library's exceptions become this project's.

What storage libraries raise for a moment's trouble (resets, timeouts, throttling) is an ``OSError``; the
kinds of ``OSError`` that state a fact are not worth asking again.
"""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import tenacity

from app.errors import DeadlineExceededError, FileMissingError, PaimonIndexError, StorageError
from app.observation import StorageOperation, observer
from app.storage.deadline import check_deadline, pause, remaining_seconds
from app.storage.failures import failure_of
from app.storage.slots import waiting

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_FINAL = (PermissionError, FileExistsError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a storage call is repeated.

    Attributes:
        attempts: calls in all, the first one included.
        first_wait_seconds: upper bound of the first wait; it doubles with every attempt, and the wait is
            drawn evenly between zero and the bound, so that many callers do not come back at once.
        max_wait_seconds: no bound grows beyond this.
    """

    attempts: int = 4
    first_wait_seconds: float = 0.1
    max_wait_seconds: float = 2.0

    def call(
        self,
        path: str,
        operation: Callable[[], Result],
        *,
        kind: StorageOperation = StorageOperation.READ,
    ) -> Result:
        """The result of ``operation``, which does to ``path`` what ``kind`` says.

        Raises:
            FileMissingError: storage says that there is no such file.
            DeadlineExceededError: the request's time is used up, or would be before the next attempt; or its
                caller went away.
            StorageError: every attempt failed, or one failed for good.
        """
        check_deadline()
        try:
            with waiting():
                return _observed(kind, path, operation)
        except PaimonIndexError:
            raise
        except Exception as error:
            if _is_missing(error):
                raise FileMissingError(f"there is no file {path}", path=path) from error
            return self._call_again(path, operation, kind, error)

    def _call_again(
        self, path: str, operation: Callable[[], Result], kind: StorageOperation, first: Exception
    ) -> Result:
        """The result of further attempts; made apart, since most calls need but one and tenacity is slow."""
        failed: list[Exception] = [first]

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
            stop=stop,
            wait=tenacity.wait_random_exponential(self.first_wait_seconds, self.max_wait_seconds),
            retry=tenacity.retry_if_exception(_is_transient),
            sleep=pause,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except PaimonIndexError:
            raise
        except Exception as error:
            if _is_missing(error):
                raise FileMissingError(f"there is no file {path}", path=path) from error
            made = retrying.statistics.get("attempt_number", 1)
            if _is_transient(error) and made < self.attempts:
                message = f"no time is left to {kind.verb} {path} again after {failure_of(error)}"
                raise DeadlineExceededError(message, path=path) from error
            raise StorageError(f"cannot {kind.verb} {path}: {failure_of(error)}", path=path) from error


def _is_missing(error: BaseException) -> bool:
    # No file has a name that its file system cannot hold.
    too_long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
    return too_long or isinstance(error, _MISSING)


def _observed(
    kind: StorageOperation, path: str, operation: Callable[[], Result], *, is_repeated: bool = False
) -> Result:
    """One call, of which the observer is told."""
    began = time.perf_counter()
    try:
        result = operation()
    except BaseException as error:
        seconds = time.perf_counter() - began
        observer().storage_called(kind, path, seconds, 0, error=error, is_repeated=is_repeated)
        raise
    if result is None:
        # A reader that found out that it is not the one to ask.
        return result
    seconds = time.perf_counter() - began
    # Readers give bytes, or how many there were.
    size = len(result) if isinstance(result, bytes) else result if isinstance(result, int) else 0
    observer().storage_called(kind, path, seconds, size, error=None, is_repeated=is_repeated)
    return result


def _is_transient(error: BaseException) -> bool:
    is_refusal = isinstance(error, _FINAL) or getattr(error, "errno", None) == errno.EINVAL
    return isinstance(error, OSError) and not is_refusal and not _is_missing(error)

"""Failures of storage, whichever library raises them: which are worth asking again, and what they are called.

The libraries' own texts name endpoints, buckets, absolute paths and sometimes credentials. What our
exceptions say instead is the kind of the exception, the error code of an object store (``SlowDown``,
``InvalidAccessKeyId``) and its HTTP status.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final

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

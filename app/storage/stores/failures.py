"""Classifies failures of storage libraries: which are worth a retry, and how messages name them.

The libraries' own texts name endpoints, buckets, absolute paths and sometimes credentials. Messages here have
the exception's kind, an object store's error code (``SlowDown``, ``InvalidAccessKeyId``) and the HTTP status
instead.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final

# Raised by our store for S3, and by boto3 for a profile.
_NO_CREDENTIALS: Final = "NoCredentialsError"
_S3_CREDENTIALS: Final = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
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
# By name, since not every library is installed. Subclasses of OSError need no entry.
_DISCONNECTS: Final = frozenset(
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
    """A store's error answer."""

    def __init__(self, code: str | None, status: int) -> None:
        super().__init__(f"the store answered {code or ''} {status}")
        self.code = code
        self.status = status


def failure_of(error: BaseException) -> str:
    """Name the kind of a failure: ``PermissionError (InvalidAccessKeyId, HTTP 403)``."""
    code, status = _answer_of(error)
    details = [] if code is None else [code]
    if status is not None:
        details.append(f"HTTP {status}")
    if not details and isinstance(error, OSError) and error.errno is not None:
        details.append(errno.errorcode.get(error.errno, f"errno {error.errno}"))
    name = type(error).__name__
    if name == _NO_CREDENTIALS:
        details = [_S3_CREDENTIALS]
    return f"{name} ({', '.join(details)})" if details else name


def is_missing(error: BaseException) -> bool:
    """Return True if storage reports that the file does not exist."""
    # A name that the file system cannot hold is a missing file, not a failure.
    is_said = isinstance(error, _MISSING) or getattr(error, "errno", None) == errno.ENAMETOOLONG
    return is_said and not _is_false_missing(error)


def is_transient(error: BaseException) -> bool:
    """Return True if a retry may succeed: by the store's answer or, without one, the exception's kind."""
    if _is_disconnected(error) or _is_false_missing(error):
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
    """Return True if storage was silent for too long."""
    return isinstance(error, TimeoutError) or not _SILENCES.isdisjoint(_names_of(error))


def is_behind_the_end(error: BaseException) -> bool:
    """Return True if a store refused a range because the file ends before it."""
    code, status = _answer_of(error)
    return code == "InvalidRange" or status == _RANGE_NOT_SATISFIABLE


def _is_false_missing(error: BaseException) -> bool:
    """Return True if a library turned a transient failure into a missing file, as fsspec does over HTTP."""
    cause = error.__cause__
    return isinstance(error, FileNotFoundError) and cause is not None and is_transient(cause)


def _is_disconnected(error: BaseException) -> bool:
    return not _DISCONNECTS.isdisjoint(_names_of(error))


def _names_of(error: BaseException) -> Iterator[str]:
    """Name the kinds of an exception with their library: ``botocore.HTTPClientError``."""
    return (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__)


def _answer_of(error: BaseException) -> tuple[str | None, int | None]:
    """Return the error code and HTTP status of a store's answer, as far as exceptions have them."""
    if _is_disconnected(error):
        # HTTP parsers attach a status to broken connections, which no store answered.
        return None, None
    for each in _chain(error):
        if isinstance(each, StoreAnswerError):
            return each.code, each.status
        for name in ("status", "status_code", "code"):
            status = getattr(each, name, None)
            # Some libraries number errors that are not answers.
            if isinstance(status, int) and status in _HTTP_STATUSES:
                return _code_of(each), int(status)
    return None, None


def _code_of(error: BaseException) -> str | None:
    code = getattr(error, "error_code", None)
    text = getattr(code, "value", code)
    return text if isinstance(text, str) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    for _ in range(8):
        if at is None:
            return
        yield at
        at = at.__cause__

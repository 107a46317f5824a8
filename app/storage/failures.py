"""What a storage library's exception says, in words that may leave the service.

Their own texts name endpoints, buckets, absolute paths and sometimes credentials. What is told instead is the
kind of the exception, the error code of an object store (``SlowDown``, ``InvalidAccessKeyId``) and its HTTP
status.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_RANGE_NOT_SATISFIABLE: Final = 416


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


def is_behind_the_end(error: OSError) -> bool:
    """Whether a store refused a range because the file ends before it."""
    code, status = _answer_of(error)
    return code == "InvalidRange" or status == _RANGE_NOT_SATISFIABLE


def _answer_of(error: BaseException) -> tuple[str | None, int | None]:
    """The error code and HTTP status that a store answered, as far as the exceptions tell."""
    for each in _chain(error):
        # As botocore has them; the code may be the status once more.
        answer = getattr(each, "response", None)
        if isinstance(answer, dict):
            code = answer.get("Error", {}).get("Code")
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status is None and isinstance(code, str) and code.isdecimal():
                status = int(code)
            is_code = isinstance(code, str) and _CODE.fullmatch(code)
            return code if is_code else None, status if isinstance(status, int) else None
        for name in ("status", "status_code", "code"):
            status = getattr(each, name, None)
            if isinstance(status, int):
                return None, status
    return None, None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that it was made from."""
    at: BaseException | None = error
    for _ in range(8):
        if at is None:
            return
        yield at
        at = at.__cause__

"""What both clients know of HTTP: their settings, requests as httpx wants them, its errors as ours."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import httpx

from paimon_index.attempts import Attempts, Failure, Replicas
from paimon_index.errors import IncompleteAnswerError, PaimonIndexError, UnavailableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from paimon_index.requests import Request

MOST_ERROR_BYTES: Final = 64 << 10
"""Of the body of an answer that is an error."""
_CONNECT_SECONDS: Final = 5.0
"""A host that drops packets is left for the next base URL after this long."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Whom a client asks, and how long it waits.

    Attributes:
        deadline_seconds: for an answer, all of its pages and attempts together; of a plan, up to its first
            files, and then for each further piece.
        retries: how often a base URL is asked again after every one was asked once.
    """

    replicas: Replicas
    deadline_seconds: float
    retries: int

    @classmethod
    def of(cls, base_urls: str | Sequence[str], deadline_seconds: float, retries: int) -> Settings:
        """Checked settings.

        Raises:
            ValueError: a base URL, the deadline or the number of retries is none.
        """
        if deadline_seconds <= 0 or retries < 0:
            raise ValueError("deadline_seconds is more than 0, and retries is at least 0")
        return cls(Replicas(base_urls), deadline_seconds, retries)

    def ends(self) -> float:
        """When the time for an answer that is asked now is used up, on the monotonic clock."""
        return time.monotonic() + self.deadline_seconds

    def attempts(self, request: Request, ends: float) -> Attempts:
        """The attempts of one request of an answer, of :meth:`ends`."""
        return Attempts(self.replicas, request, ends, self.deadline_seconds, self.retries)


def transport(token: str | None, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """The arguments of httpx's clients.

    Raises:
        ValueError: the token has a character that no header may have, such as the end of its file's line.
    """
    # Plans are binary and networks of clusters fast, so compressing them would cost more than it saves.
    headers = {"Accept-Encoding": "identity", "User-Agent": "paimon-index-client"}
    if token is not None:
        if not (token.isascii() and token.isprintable()):
            # The message of whoever sends it would have the token.
            raise ValueError("the token has characters that no header may have: give it without its line end")
        headers["Authorization"] = f"Bearer {token}"
    if tls is None:
        tls = _usual_checks(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return {"headers": headers, "verify": tls}


@lru_cache(maxsize=1)
def _usual_checks(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """The checks of certificates that httpx makes, which go by these variables.

    Loading the certificates takes longer than a plan, so clients share them.
    """
    return httpx.create_ssl_context()


def arguments(request: Request, attempts: Attempts) -> dict[str, Any]:
    """The arguments of ``build_request`` for the next attempt.

    Raises:
        DeadlineError: no time is left for it.
    """
    remaining = attempts.remaining_seconds()
    headers = {"Accept": request.accept}
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    return {
        "method": request.method,
        "url": attempts.base_url + request.path,
        "params": request.parameters or None,
        "content": request.body,
        "headers": headers,
        "timeout": httpx.Timeout(remaining, connect=min(remaining, _CONNECT_SECONDS)),
    }


def failure_of(error: httpx.HTTPError, attempts: Attempts) -> Failure:
    """What went wrong before an answer began."""
    where = attempts.base_url
    match error:
        case httpx.ReadTimeout() | httpx.WriteTimeout() | httpx.PoolTimeout():
            return Failure(attempts.timed_out())
        case httpx.TransportError():
            return Failure(
                UnavailableError(f"{where} cannot be reached: {error}; does the service run there?")
            )
    return Failure(PaimonIndexError(f"{where} cannot be asked: {error}"))


def broken_off(error: httpx.HTTPError, attempts: Attempts) -> PaimonIndexError:
    """What went wrong within an answer."""
    if isinstance(error, httpx.TimeoutException):
        return attempts.timed_out()
    return IncompleteAnswerError(f"the answer of {attempts.base_url} was cut: {error}; ask again")

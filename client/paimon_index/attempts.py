"""Retries: the base URL, time and form of each attempt, without any network access, for both clients.

A hash of the table's name chooses the base URL for its requests, so that its indexes are decoded there. If
that one is down or answers 503, the next one is tried at once. A busy one (429) is tried again after a
backoff, since the caches of others would be cold.
"""

from __future__ import annotations

import email.utils
import hashlib
import math
import os
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx

from paimon_index.errors import (
    DeadlineError,
    IncompleteAnswerError,
    PaimonIndexError,
    ServiceUnavailableError,
    UnavailableError,
    service_error,
)
from paimon_index.requests import key_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from paimon_index.requests import Request

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_DOWN_SECONDS: Final = 10.0
"""Time for which a base URL that failed is tried last."""
_TOO_MANY_REQUESTS: Final = 429
_TIMED_OUT: Final = 504
GRACE_SECONDS: Final = 0.1
"""Extra time for work to raise an error of its own, which says what took so long."""
MOST_ERROR_BYTES: Final = 64 << 10
"""Bytes of the body of an error that are read."""
_CONNECT_SECONDS: Final = 5.0
"""Time after which a host that drops packets is given up for the next base URL."""


@dataclass(slots=True)
class Failure:
    """A failed attempt: its error if it is the last, and the wait that the service requests."""

    error: PaimonIndexError
    retry_after_seconds: float = 0.0

    @classmethod
    def of_answer(cls, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Make the failure of an answer with an error status."""
        return cls(service_error(status, body), _seconds(headers.get("Retry-After", "")))


class Replicas:
    """Base URLs of one service. Safe to share between threads.

    Raises ValueError if there is none, or one is not ``http(s)://host[:port][/path]``. Raises TypeError if
    one is not text.
    """

    def __init__(self, base_urls: str | Sequence[str]) -> None:
        if not isinstance(base_urls, Iterable):
            raise TypeError(f"a base URL is a text such as 'http://localhost:8080', found {base_urls!r}")
        given = [base_urls] if isinstance(base_urls, str) else list(base_urls)
        self.base_urls = tuple(map(_checked, given))
        if not self.base_urls:
            raise ValueError("no base URL is given")
        self._down_until: dict[str, float] = {}

    def in_order(self, key: str) -> list[str]:
        """Return all base URLs in the order in which to ask them. Equal in every process."""
        now = time.monotonic()

        def rank(url: str) -> tuple[bool, bytes]:
            is_down = self._down_until.get(url, 0.0) > now
            return is_down, hashlib.sha256(f"{key}\n{url}".encode()).digest()

        return sorted(self.base_urls, key=rank)

    def mark_down(self, base_url: str) -> None:
        """Move a base URL to the end of the order for a while."""
        self._down_until[base_url] = time.monotonic() + _DOWN_SECONDS


@dataclass(frozen=True, slots=True)
class Settings:
    """Base URLs and time limits of a client. See :class:`paimon_index.Client`."""

    replicas: Replicas
    deadline_seconds: float
    retries: int

    @classmethod
    def of(cls, base_urls: str | Sequence[str], deadline_seconds: float, retries: int) -> Settings:
        """Check settings. Raises ValueError for an invalid one, TypeError for one of another type."""
        check_seconds("deadline_seconds", deadline_seconds)
        if retries < 0:
            raise ValueError(f"retries is at least 0, found {retries}")
        return cls(Replicas(base_urls), deadline_seconds, retries)

    def timed_out(self, base_url: str) -> DeadlineError:
        """Return the exception if a base URL gives no answer in time."""
        return DeadlineError(
            f"{base_url} gave no answer within {self.deadline_seconds:g} s; allow more (deadline_seconds), "
            f"or see the service's log"
        )

    def ends(self) -> float:
        """Return the monotonic time at which an answer that is requested now is late."""
        return time.monotonic() + self.deadline_seconds


class Attempts:
    """Attempts of one request whose answer is due at ``ends``, see :meth:`Settings.ends`."""

    def __init__(self, settings: Settings, request: Request, ends: float) -> None:
        self._request = request
        self._replicas = settings.replicas
        self._order = settings.replicas.in_order(key_of(request))
        self._ends = ends
        self._settings = settings
        self._retries_left = settings.retries + len(self._order) - 1
        self._at = self._pauses = 0

    @property
    def base_url(self) -> str:
        """Base URL of the next attempt."""
        return self._order[self._at % len(self._order)]

    def remaining_seconds(self) -> float:
        """Return the time that remains for the answer. Raises :class:`DeadlineError` if there is none."""
        remaining = self._ends - time.monotonic()
        if remaining <= 0:
            raise self._timed_out()
        return remaining

    def _timed_out(self) -> DeadlineError:
        return self._settings.timed_out(self.base_url)

    def arguments(self) -> dict[str, Any]:
        """Return arguments of ``build_request`` for the next attempt.

        Raises :class:`DeadlineError` if late.
        """
        remaining = self.remaining_seconds()
        headers = {"Accept": self._request.accept}
        if self._request.body is not None:
            headers["Content-Type"] = "application/json"
        return {
            "method": self._request.method,
            "url": self.base_url + self._request.path,
            "params": self._request.parameters or None,
            "content": self._request.body,
            "headers": headers,
            "timeout": httpx.Timeout(remaining, connect=min(remaining, _CONNECT_SECONDS)),
        }

    def failure_of(self, error: httpx.HTTPError) -> Failure:
        """Classify an error before an answer began."""
        match error:
            case httpx.ReadTimeout() | httpx.WriteTimeout() | httpx.PoolTimeout():
                return Failure(self._timed_out())
            case httpx.TransportError():
                return Failure(
                    UnavailableError(
                        f"{self.base_url} cannot be reached: {error}; does the service run there?"
                    )
                )
        return Failure(PaimonIndexError(f"{self.base_url} cannot be reached: {error}"))

    def broken_off(self, error: httpx.HTTPError) -> PaimonIndexError:
        """Classify an error within an answer."""
        if isinstance(error, httpx.TimeoutException):
            return self._timed_out()
        return IncompleteAnswerError(f"the answer of {self.base_url} was cut: {error}; ask again")

    def pause_after(self, failure: Failure) -> float:
        """Return seconds of backoff before the next attempt, which then uses :attr:`base_url`.

        Raises the failure if another attempt is useless or would be late.
        """
        error = failure.error
        is_transient = isinstance(error, UnavailableError) and not isinstance(error, DeadlineError)
        status = error.problem.status if isinstance(error, ServiceUnavailableError) else None
        if not is_transient or status == _TIMED_OUT or self._retries_left == 0:
            raise error
        self._retries_left -= 1
        # A busy service is tried again, since the caches of others are cold for the table.
        if status != _TOO_MANY_REQUESTS:
            self._replicas.mark_down(self.base_url)
            self._at += 1
            if self._at < len(self._order):
                return 0.0
        backoff: float = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**self._pauses)
        self._pauses += 1
        # Jitter keeps callers that failed together from coming back together.
        pause = max(failure.retry_after_seconds, backoff * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        if pause >= self._ends - time.monotonic():
            raise error
        return pause


def check_seconds(name: str, seconds: object) -> None:
    """Raise TypeError or ValueError unless an argument is a time above 0."""
    if not isinstance(seconds, int | float):
        raise TypeError(f"{name} is a number of seconds, found {seconds!r}")
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name} is a number of seconds above 0, found {seconds}")


def check_token(token: str | None) -> None:
    """Raise TypeError or ValueError for a token that no header may have. The error does not contain it."""
    if not isinstance(token, str | None):
        raise TypeError(f"the token is a text, found {type(token).__name__}")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise ValueError("the token has characters that no header may have: give it without its line end")


def transport(token: str | None, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """Return arguments of httpx's clients.

    Raises ValueError if the token has a character that headers must not have, such as a line end.
    """
    # Plans are binary and networks of clusters fast, so compressing them would cost more than it saves.
    headers = {"Accept-Encoding": "identity", "User-Agent": "paimon-index-client"}
    check_token(token)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if tls is None:
        tls = _usual_checks(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return {"headers": headers, "verify": tls}


@lru_cache(maxsize=1)
def _usual_checks(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    # Loading certificates takes longer than a plan, so clients share the context. The arguments are the
    # cache's key: httpx reads these variables.
    return httpx.create_ssl_context()


def _checked(url: str) -> str:
    if not isinstance(url, str):
        raise TypeError(f"a base URL is a text such as 'http://localhost:8080', found {url!r}")
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a base URL has no user and password; give the token as token=")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not a base URL: expected http(s)://host[:port][/path]")
    return url.rstrip("/")


def _seconds(retry_after: str) -> float:
    """Parse Retry-After, which is a number of seconds or a date."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0

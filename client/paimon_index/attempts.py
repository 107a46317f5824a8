"""Which base URL is asked, and when again: decided without touching a network, for both clients.

A table's requests go to the base URL that its name's hash chooses, so that its indexes are decoded there. The
next one is asked at once where that one cannot be reached or answers 503; a busy one (429) is asked again
after a pause, since elsewhere the caches would be cold.
"""

from __future__ import annotations

import email.utils
import hashlib
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from paimon_index.errors import (
    DeadlineError,
    PaimonIndexError,
    ServiceUnavailableError,
    UnavailableError,
    service_error,
)
from paimon_index.requests import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paimon_index.requests import Request

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_DOWN_SECONDS: Final = 10.0
"""How long a base URL that did not answer is asked last."""
_TOO_MANY_REQUESTS: Final = 429
_TIMED_OUT: Final = 504


@dataclass(slots=True)
class Failure:
    """One attempt that failed.

    Attributes:
        error: what is raised if it was the last one.
        retry_after_seconds: how long the service asks to wait.
    """

    error: PaimonIndexError
    retry_after_seconds: float = 0.0

    @classmethod
    def of_answer(cls, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """The failure that an answer with an error status is."""
        return cls(service_error(status, body), _seconds(headers.get("Retry-After", "")))


class Replicas:
    """The base URLs of one service; safe to share between threads.

    Raises:
        ValueError: there is none, or one that is not ``http(s)://host[:port][/path]``.
    """

    def __init__(self, base_urls: str | Sequence[str]) -> None:
        given = [base_urls] if isinstance(base_urls, str) else list(base_urls)
        self.base_urls = tuple(map(_checked, given))
        if not self.base_urls:
            raise ValueError("no base URL is given")
        self._down_until: dict[str, float] = {}

    def in_order(self, key: str) -> list[str]:
        """All base URLs, those to ask first at the front; the same in every process."""
        now = time.monotonic()

        def rank(url: str) -> tuple[bool, bytes]:
            is_down = self._down_until.get(url, 0.0) > now
            return is_down, hashlib.sha256(f"{key}\n{url}".encode()).digest()

        return sorted(self.base_urls, key=rank)

    def mark_down(self, base_url: str) -> None:
        """Asks this one last for a while."""
        self._down_until[base_url] = time.monotonic() + _DOWN_SECONDS


class Attempts:
    """The attempts of one request.

    Args:
        replicas: whom to ask.
        request: what is asked.
        ends: until when, on the monotonic clock, all attempts and the pauses between them may take.
        deadline_seconds: how long that was at first.
        retries: how often a base URL is asked again after every one was asked once.
    """

    def __init__(
        self, replicas: Replicas, request: Request, ends: float, deadline_seconds: float, retries: int
    ) -> None:
        self._replicas = replicas
        self._order = replicas.in_order(key_of(request))
        self._ends = ends
        self._deadline_seconds = deadline_seconds
        self._left = retries + len(self._order) - 1
        self._at = self._pauses = 0

    @property
    def base_url(self) -> str:
        """Whom to ask now."""
        return self._order[self._at % len(self._order)]

    def remaining_seconds(self) -> float:
        """Of the time for an answer.

        Raises:
            DeadlineError: nothing is left.
        """
        remaining = self._ends - time.monotonic()
        if remaining <= 0:
            raise self.timed_out()
        return remaining

    def timed_out(self) -> DeadlineError:
        """What to raise where the time is used up."""
        return DeadlineError(
            f"{self.base_url} gave no answer within {self._deadline_seconds:g} s; allow more "
            f"(deadline_seconds), or see the service's log"
        )

    def pause_after(self, failure: Failure) -> float:
        """Seconds to wait before the next attempt, which asks what is ``base_url`` then.

        Raises:
            PaimonIndexError: what the failure was, where another attempt is of no use or would be too late.
        """
        error = failure.error
        is_passing = isinstance(error, UnavailableError) and not isinstance(error, DeadlineError)
        status = error.problem.status if isinstance(error, ServiceUnavailableError) else None
        if not is_passing or status == _TIMED_OUT or self._left == 0:
            raise error
        self._left -= 1
        if status != _TOO_MANY_REQUESTS:
            self._replicas.mark_down(self.base_url)
            self._at += 1
            if self._at < len(self._order):
                return 0.0
        longest: float = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**self._pauses)
        self._pauses += 1
        # Callers that failed together shall not come back together.
        pause = max(failure.retry_after_seconds, longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        if pause >= self._ends - time.monotonic():
            raise error
        return pause


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a base URL has no user and password; give the token as token=")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no base URL: expected http(s)://host[:port][/path]")
    return url.rstrip("/")


def _seconds(retry_after: str) -> float:
    """Retry-After is a number of seconds or a date."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0

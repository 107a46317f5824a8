"""Every exception that the client raises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

_TYPE_PREFIX: Final = "urn:paimon-index:error:"
_UNAVAILABLE: Final = (429, 503, 504)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem answer (RFC 9457).

    ``slug`` is the end of its ``type`` and stays the same over releases. ``position`` is a 0-based character
    in the filter's text, ``offset`` a byte in the file at ``path``; ``request_id`` is in the service's log.
    """

    slug: str
    title: str
    status: int
    detail: str
    request_id: str | None = None
    column: str | None = None
    position: int | None = None
    path: str | None = None
    offset: int | None = None
    limit: int | None = None


class PaimonIndexError(Exception):
    """Root of every exception that the client raises on purpose."""


class ServiceError(PaimonIndexError):
    """The service answered with a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        told = f"{problem.status} {problem.slug}: {problem.detail}"
        super().__init__(told if problem.request_id is None else f"{told} (request {problem.request_id})")


class UnavailableError(PaimonIndexError):
    """No base URL gave an answer; the same call may succeed later."""


class ServiceUnavailableError(ServiceError, UnavailableError):
    """The service is there but cannot answer now: 429, 503 or 504, also after retries."""


class DeadlineError(UnavailableError, TimeoutError):
    """The time for an answer is used up."""


class IncompleteAnswerError(PaimonIndexError):
    """An answer ended early or cannot be read; nothing of it may be taken for the whole."""


class UnsupportedTableError(PaimonIndexError):
    """A table, column or file that ``paimon_index.spark`` would not read exactly as the engine does."""


class UnsupportedSessionError(PaimonIndexError):
    """A session of Spark Connect, or one whose Python lacks this package."""


class UndecidedConditionError(PaimonIndexError):
    """Indexes and statistics leave rows of which they cannot tell whether they meet a condition."""


def service_error(status: int, body: bytes) -> ServiceError:
    """The exception of an answer with an error status; proxies in between may answer in other forms."""
    try:
        members = json.loads(body)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        members = {}
    problem = Problem(
        slug=str(members.get("type") or f"http-{status}").removeprefix(_TYPE_PREFIX),
        title=str(members.get("title") or ""),
        status=status,
        detail=str(members.get("detail") or "the answer is none of paimon-index; check the base URL"),
        request_id=members.get("instance"),
        **{name: members.get(name) for name in ("column", "position", "path", "offset", "limit")},
    )
    return (ServiceUnavailableError if status in _UNAVAILABLE else ServiceError)(problem)

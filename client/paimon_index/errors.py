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

    ``slug`` is the end of its ``type`` and never changes between releases. ``position`` is a 0-based
    character in the filter's text, ``offset`` a byte in the file at ``path``. ``request_id`` is in the
    service's log.
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
        message = f"{problem.status} {problem.slug}: {problem.detail}"
        super().__init__(
            message if problem.request_id is None else f"{message} (request {problem.request_id})"
        )


class UnavailableError(PaimonIndexError):
    """No base URL gave an answer. The same call may succeed later."""


class ServiceUnavailableError(ServiceError, UnavailableError):
    """The service cannot answer now: 429, 503 or 504, after retries."""


class DeadlineError(UnavailableError, TimeoutError):
    """The time for an answer is used up."""


class IncompleteAnswerError(PaimonIndexError):
    """An answer ended early or cannot be read. No part of it may stand for the whole."""


class UnsupportedTableError(PaimonIndexError):
    """A table, column or file that ``paimon_index.spark`` might read differently from the engine."""


class UnsupportedSessionError(PaimonIndexError):
    """A session of Spark Connect, or one whose Python lacks this package."""


class UndecidedConditionError(PaimonIndexError):
    """A condition that indexes and statistics cannot decide for some rows."""


def service_error(status: int, body: bytes) -> ServiceError:
    """Make the exception of an answer with an error status, also of a proxy's in another form."""
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
        detail=str(members.get("detail") or "the answer is not one of paimon-index; check the base URL"),
        request_id=members.get("instance"),
        **{name: members.get(name) for name in ("column", "position", "path", "offset", "limit")},
    )
    return (ServiceUnavailableError if status in _UNAVAILABLE else ServiceError)(problem)

"""Errors as HTTP answers: RFC 9457 problem details.

``type`` is a slug under ``urn:paimon-index:error:`` that never changes between releases, ``instance`` the
request id. Further facts have members of their own: ``column``, ``position``, ``path``, ``offset``,
``limit``.

Iceberg's clients read ``{"error": {"message", "type", "code"}}``. A status that Iceberg's document lacks
becomes its nearest one. It has none for a damaged table: that stays 424, since a 5xx would blame the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from app import errors
from app.api.http.paths import ICEBERG
from app.api.http.strict_json import write_json
from app.described import DESCRIBED
from app.storage.locations import is_absolute_uri
from app.types import Json

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope


MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:paimon-index:error:"

AGAIN = {"Retry-After": "1"}
"""Headers of answers to requests that may be repeated in a moment."""

_INTERNAL = "internal"
_STATUS_SLUGS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    415: "unsupported-encoding",
    429: "too-many-requests",
    503: "not-ready",
}

_BAD_REQUEST: Final = (400, "BadRequestException")
_UNAVAILABLE: Final = (503, "ServiceUnavailableException")
_DAMAGED: Final = (424, "FailedDependencyException")
_ICEBERG_KINDS: Final[Mapping[str, tuple[int, str]]] = {
    "unsupported-format": (406, "UnsupportedOperationException"),
    "filter": _BAD_REQUEST,
    "limit-exceeded": _BAD_REQUEST,
    "page-token": _BAD_REQUEST,
    "malformed-request": _BAD_REQUEST,
    "unauthorized": (401, "NotAuthorizedException"),
    "forbidden": (403, "ForbiddenException"),
    "too-many-requests": (429, "TooManyRequestsException"),
    "storage-unavailable": _UNAVAILABLE,
    "memory-short": _UNAVAILABLE,
    "not-ready": _UNAVAILABLE,
    "path-not-allowed": _DAMAGED,
    "corrupt-metadata": _DAMAGED,
    "corrupt-index": _DAMAGED,
    "file-missing": _DAMAGED,
}
"""Status and type by slug; other problems keep their status."""

_ICEBERG_MISSING: Final = (
    ("/plan/", "NoSuchPlanIdException"),
    ("/tasks", "NoSuchPlanTaskException"),
    ("/tables/", "NoSuchTableException"),
    ("/namespaces/", "NoSuchNamespaceException"),
    ("/config", "NoSuchWarehouseException"),
)
"""Exception types by the part of the path that names the missing thing."""


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """RFC 9457 problem details."""

    __pydantic_config__ = DESCRIBED

    type: Annotated[str, Field(examples=["urn:paimon-index:error:filter"])]
    title: str
    status: int
    detail: str
    instance: str
    """The request id, as in X-Request-Id."""
    column: str | None = None
    position: int | None = None
    """0-based character in the filter's text."""
    path: str | None = None
    offset: int | None = None
    """Byte in the file named by path."""
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem answer. ``members`` are extensions, without those that are None."""

    status: int
    slug: str
    title: str
    detail: str
    members: Mapping[str, Json] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self, request_id: str) -> dict[str, Json]:
        """Build the problem object."""
        return {
            "type": TYPE_PREFIX + self.slug,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": request_id,
            **{name: value for name, value in self.members.items() if value is not None},
        }

    def response(self, scope: Scope) -> Response:
        """Build the HTTP answer. Iceberg's endpoints get Iceberg's form."""
        from starlette.responses import Response  # noqa: PLC0415 - the command line needs problems without HTTP

        request_id: str = scope["state"]["request_id"]
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path.startswith(f"{ICEBERG}/"):
            status, error = iceberg_error(self.status, self.slug, self.detail, path)
            return Response(write_json(error), status, dict(self.headers), media_type="application/json")
        return Response(
            write_json(self.to_json(request_id)), self.status, dict(self.headers), media_type=MEDIA_TYPE
        )


_MEMBERS = tuple(member.name for member in fields(ProblemDetails) if member.default is not MISSING)


class ProblemError(Exception):
    """Carries a problem to the handler that answers it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.detail)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Answer to one class of exceptions. ``named``: status if the caller gave the path."""

    error: type[Exception]
    status: int
    slug: str
    title: str
    named: int | None = None
    # Clients may repeat the request in a moment.
    again: bool = False


# The first line that matches decides, so a class precedes its bases.
_KINDS = (
    _Kind(errors.FilterError, 422, "filter", "The filter, key or partition does not fit"),
    _Kind(errors.LimitExceededError, 422, "limit-exceeded", "The request is over a limit"),
    _Kind(errors.PageTokenError, 400, "page-token", "The page token is not valid here"),
    _Kind(errors.RequestError, 400, "malformed-request", "The request is malformed"),
    _Kind(errors.SnapshotExpiredError, 409, "snapshot-expired", "The snapshot expired while it was read"),
    _Kind(errors.NotFoundError, 404, "not-found", "Not found"),
    _Kind(
        errors.PathNotAllowedError,
        424,
        "path-not-allowed",
        "A path outside the places that may be read",
        named=400,
    ),
    _Kind(errors.CorruptMetadataError, 424, "corrupt-metadata", "A metadata file is corrupt"),
    _Kind(errors.CorruptFileError, 424, "corrupt-index", "An index file is corrupt"),
    _Kind(errors.UnsupportedFormatError, 424, "unsupported-format", "A file that this release cannot read"),
    _Kind(errors.FileMissingError, 424, "file-missing", "A file is missing from storage", named=404),
    _Kind(errors.DeadlineExceededError, 504, "deadline-exceeded", "The request took too long"),
    _Kind(errors.StorageError, 503, "storage-unavailable", "Storage failed"),
    _Kind(errors.MemoryShortError, 503, "memory-short", "The service is short of memory", again=True),
    _Kind(errors.BusyError, 429, "too-many-requests", "Too Many Requests"),
)


SLUGS = frozenset({_INTERNAL, *_STATUS_SLUGS.values(), *(kind.slug for kind in _KINDS)})


def problem_of(error: Exception, *, path_was_named: bool = False) -> Problem:
    """Map an exception to its problem. An unknown exception is a bug.

    ``path_was_named``: the caller named the files of this request, so that a refused or missing path is the
    caller's mistake and not the table's.
    """
    if isinstance(error, ProblemError):
        return error.problem
    for kind in _KINDS:
        if isinstance(error, kind.error):
            status = kind.named if path_was_named and kind.named else kind.status
            members = {name: getattr(error, name, None) for name in _MEMBERS}
            # Offset and path have members of their own, so the text omits them.
            detail = error.expectation if isinstance(error, errors.CorruptFileError) else str(error)
            path = members["path"]
            if isinstance(path, str) and is_absolute_uri(path):
                # Callers must not learn the location of files outside the warehouse.
                members["path"] = name = path.rpartition("/")[2]
                detail = detail.replace(path, name)
            headers = AGAIN if kind.again else {}
            if isinstance(error, errors.BusyError):
                headers = {"Retry-After": str(error.pause_seconds)}
            return Problem(status, kind.slug, kind.title, detail, members, headers)
    return Problem(500, _INTERNAL, "A bug in the service", "The service failed: its log has the request id")


def problem_of_status(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, limit: int | None = None
) -> Problem:
    """Build a problem of a bare HTTP status."""
    slug = _STATUS_SLUGS.get(status, "malformed-request" if status < 500 else _INTERNAL)  # noqa: PLR2004
    return Problem(status, slug, HTTPStatus(status).phrase, detail, {"limit": limit}, headers or {})


def iceberg_error(status: int, slug: str, detail: str, path: str) -> tuple[int, Json]:
    """Translate a problem into the status and body of Iceberg's errors."""
    is_caller_fault = status < 500  # noqa: PLR2004 - HTTP's own bound
    status, name = _ICEBERG_KINDS.get(slug, (status, _BAD_REQUEST[1] if is_caller_fault else "ServerError"))
    if slug in ("not-found", "snapshot-expired"):
        status, name = (
            404,
            next((kind for part, kind in _ICEBERG_MISSING if part in path), "NotFoundException"),
        )
    return status, {"error": {"message": detail, "type": name, "code": status}}

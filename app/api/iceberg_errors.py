"""Problems as Iceberg's clients read them: ``{"error": {"message", "type", "code"}}``.

A status that Iceberg's document does not know becomes the one that it has for the same, where it has one. It
has none for a damaged table: that is 424 as everywhere, since a 5xx says that the service failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.types import Json

_BAD_REQUEST: Final = (400, "BadRequestException")
_UNAVAILABLE: Final = (503, "ServiceUnavailableException")
_DAMAGED: Final = (424, "FailedDependencyException")
_KINDS: Final[Mapping[str, tuple[int, str]]] = {
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

_MISSING: Final = (
    ("/plan/", "NoSuchPlanIdException"),
    ("/tasks", "NoSuchPlanTaskException"),
    ("/tables/", "NoSuchTableException"),
    ("/namespaces/", "NoSuchNamespaceException"),
    ("/config", "NoSuchWarehouseException"),
)
"""What is not there, by what stands in the path."""


def iceberg_error(status: int, slug: str, detail: str, path: str) -> tuple[int, Json]:
    """Status and body of a problem with the request of ``path``."""
    is_theirs = status < 500  # noqa: PLR2004 - HTTP's own bound
    status, name = _KINDS.get(slug, (status, _BAD_REQUEST[1] if is_theirs else "ServerError"))
    if slug in ("not-found", "snapshot-expired"):
        status, name = 404, next((kind for part, kind in _MISSING if part in path), "NotFoundException")
    return status, {"error": {"message": detail, "type": name, "code": status}}

"""Request and response headers: negotiation, request ids, security and caching.

Every request has an id: the caller's own, if it is well-formed, or a new one. The id goes out in
``X-Request-Id`` and as ``instance`` of problems, and into the log with the error. Only the security headers
are outside this layer, so it also turns unexpected exceptions into a problem answer.

An answer belongs to its caller: one with an ``ETag`` may be stored and revalidated before each use. All
others must not be stored. A route that sets one of these headers itself keeps its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
import uuid
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from app.api.http.paths import ICEBERG
from app.api.http.problems import AGAIN, problem_of, problem_of_status

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


HEADER = "x-request-id"

_log = logging.getLogger("paimon_index")
_LONGEST_CHAIN: Final = 8
_ACCEPTABLE = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}")

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_REVALIDATED: Final = (b"cache-control", b"private, no-cache")
_NOT_STORED: Final = (b"cache-control", b"no-store")

_ACCEPT_ENCODING = b"accept-encoding"


def request_id_of(request: Request) -> str:
    """Return the id of this request."""
    request_id: str = request.scope["state"]["request_id"]
    return request_id


class BrokenOffError(Exception):
    """Signals to the server that an answer which was partly sent will not be finished."""


class HeadMiddleware:
    """ASGI middleware that answers HEAD, which load balancers and ``curl -I`` send, as GET without body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        # Iceberg's catalog answers HEAD by itself.
        if scope["type"] != "http" or scope["method"] != "HEAD" or path.startswith(f"{ICEBERG}/"):
            await self._app(scope, receive, send)
            return

        as_get = {**scope, "method": "GET"}

        async def send_head(message: Message) -> None:
            # The router stores the route in the copy; the accounting reads it from the original.
            scope["route"] = as_get.get("route")
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app(as_get, receive, send_head)


class RequestIds:
    """ASGI middleware that gives requests an id, and answers unexpected exceptions."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _ACCEPTABLE.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        has_started = False

        async def send_named(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except asyncio.CancelledError:
            # Only a process that shuts down cancels requests in flight.
            _log.warning("request %s: broken off, the service is shutting down", request_id)
            if not has_started:
                headers = {**AGAIN, "Connection": "close"}
                problem = problem_of_status(503, "the service is shutting down", headers=headers)
                await problem.response(scope)(scope, receive, send_named)
        except ClientDisconnect:
            _log.info("request %s: the caller went away", request_id)
        except Exception as error:  # noqa: BLE001 - answered and logged
            _log.error("request %s: %s %s: %s", request_id, scope["method"], scope["path"], places_of(error))
            _log.debug("request %s: what the exceptions say", request_id, exc_info=True)
            if has_started:
                # Makes the server close the connection.
                raise BrokenOffError(f"the answer to request {request_id} broke off") from None
            await problem_of(error).response(scope)(scope, receive, send_named)


def places_of(error: BaseException) -> str:
    """List an exception and its causes by type and traceback, innermost last.

    Messages of exceptions are omitted, since they may have literals of a filter or the endpoint of a store.
    The log has them at level DEBUG.
    """
    return "\n".join(
        f"{type(link).__name__}\n{''.join(traceback.format_tb(link.__traceback__))}" for link in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if at is None:
            return
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


class SecurityHeaders:
    """ASGI middleware that adds security headers. The outermost, so that every answer has them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                names = {name for name, _ in headers}
                defaults = (*_HEADERS, _REVALIDATED if b"etag" in names else _NOT_STORED)
                added = (header for header in defaults if header[0] not in names)
                message = {**message, "headers": [*headers, *added]}
            await send(message)

        await self._app(scope, receive, send_guarded)


class PlanFormat(StrEnum):
    """The media types of a plan. The first wins among those that a caller accepts equally."""

    JSON = "application/json"
    LINES = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"


def qualities(header: str) -> dict[str, float]:
    """Return the quality ``q`` of each name in a header such as ``Accept``. Ignore other parameters."""
    by_name = {}
    for part in header.lower().split(","):
        name, *parameters = map(str.strip, part.split(";"))
        written = (text[2:] for text in (text.replace(" ", "") for text in parameters) if text[:2] == "q=")
        try:
            by_name[name] = float(next(written, "1"))
        except ValueError:
            by_name[name] = 0.0
    return by_name


def preferred_format(accept: str) -> PlanFormat:
    """Return the format to answer in. JSON for a caller who accepts none of them."""
    return max(PlanFormat, key=partial(_quality, qualities(accept)))


def prefers_page(accept: str) -> bool:
    """Return True if a caller accepts HTML with a higher quality than JSON, as browsers do."""
    accepted = qualities(accept)
    return _quality(accepted, "text/html") > _quality(accepted, PlanFormat.JSON)


class Compression(GZipMiddleware):
    """Compresses answers for callers who accept gzip."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            accepted = qualities(Headers(scope=scope).get(_ACCEPT_ENCODING.decode(), ""))
            # Starlette looks for the name only, and takes gzip;q=0, which refuses it, for consent.
            if not accepted.get("gzip", 0.0):
                # The scope is changed in place, since the accounting reads the route that the router stores
                # there.
                scope["headers"] = [each for each in scope["headers"] if each[0] != _ACCEPT_ENCODING]

        async def send_varied(message: Message) -> None:
            # A 304 carries the headers of the full answer, and caches rely on Vary.
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.NOT_MODIFIED:
                MutableHeaders(scope=message).add_vary_header("Accept-Encoding")
            await send(message)

        await super().__call__(scope, receive, send_varied)


def _quality(accepted: Mapping[str, float], media_type: str) -> float:
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((accepted[media] for media in ranges if media in accepted), 0.0)

"""Headers: what a caller likes to get, the id of a request, and what browsers and caches may do with answers.

``Accept`` and ``Accept-Encoding`` are lists of names with qualities.

Every request has an id: the caller's own, if it looks like one, or a new one.

The id goes out in ``X-Request-Id`` and as ``instance`` of problems, and into the log with what went wrong.
Only the security headers are outside of this layer, so it also turns what nobody expected into a problem
answer.

An answer belongs to whoever asked: one with an ``ETag`` may be kept by its caller, who asks before using it
again; all others are not kept. A route that sets one of these headers itself keeps its own.
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


def request_id_of(request: Request) -> str:
    """The id that this request was given."""
    request_id: str = request.scope["state"]["request_id"]
    return request_id


class BrokenOffError(Exception):
    """Tells the server that an answer which has begun will have no end."""


class Heads:
    """ASGI middleware that answers HEAD as GET, without the body: balancers and ``curl -I`` send it.

    Iceberg's catalog has answers of its own to it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or scope["method"] != "HEAD" or path.startswith(f"{ICEBERG}/"):
            await self._app(scope, receive, send)
            return

        as_get = {**scope, "method": "GET"}

        async def send_head(message: Message) -> None:
            # The router notes the route there; the account of the request reads it here.
            scope["route"] = as_get.get("route")
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app(as_get, receive, send_head)


class RequestIds:
    """ASGI middleware that names requests and answers for bugs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _ACCEPTABLE.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        begun = False

        async def send_named(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except asyncio.CancelledError:
            # What is under way is cancelled only where the process ends before it is done.
            _log.warning("request %s: broken off, the service is shutting down", request_id)
            if not begun:
                headers = {**AGAIN, "Connection": "close"}
                problem = problem_of_status(503, "the service is shutting down", headers=headers)
                await problem.response(scope)(scope, receive, send_named)
        except ClientDisconnect:
            _log.info("request %s: the caller went away", request_id)
        except Exception as error:  # noqa: BLE001 - answered and told in the log
            _log.error("request %s: %s %s: %s", request_id, scope["method"], scope["path"], places_of(error))
            _log.debug("request %s: what the exceptions say", request_id, exc_info=True)
            if begun:
                # The server closes the connection, and writes an exception of its own kind to the log.
                raise BrokenOffError(f"the answer to request {request_id} broke off") from None
            await problem_of(error).response(scope)(scope, receive, send_named)


def places_of(error: BaseException) -> str:
    """The kinds of an exception and of those that it came from, and where each was raised, innermost last.

    This is what the log has of an exception that nobody raised on purpose, unless its level is DEBUG: texts
    of exceptions may hold literals of a filter, or what a storage library says of its endpoint.
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


_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_KEPT: Final = (b"cache-control", b"private, no-cache")
_NOT_KEPT: Final = (b"cache-control", b"no-store")


class SecurityHeaders:
    """ASGI middleware that adds these headers; the outermost, so that no answer goes out without."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                names = {name for name, _ in headers}
                defaults = (*_HEADERS, _KEPT if b"etag" in names else _NOT_KEPT)
                added = (header for header in defaults if header[0] not in names)
                message = {**message, "headers": [*headers, *added]}
            await send(message)

        await self._app(scope, receive, send_guarded)


_ACCEPT_ENCODING = b"accept-encoding"


class PlanFormat(StrEnum):
    """The media types of a plan; among those that a caller likes equally, the first."""

    JSON = "application/json"
    LINES = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"


def qualities(header: str) -> dict[str, float]:
    """How much a caller likes each name, from 0 for not at all to 1; parameters but ``q`` are cut off."""
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
    """The format to answer in; the first one for a caller who takes none of them."""
    return max(PlanFormat, key=partial(_quality, qualities(accept)))


def prefers_page(accept: str) -> bool:
    """Whether a caller likes a page to read better than JSON, as browsers do."""
    liked = qualities(accept)
    return _quality(liked, "text/html") > _quality(liked, PlanFormat.JSON)


class Compression(GZipMiddleware):
    """Compresses answers for callers who accept gzip."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "http":
            accepted = qualities(Headers(scope=scope).get(_ACCEPT_ENCODING.decode(), ""))
            # Starlette looks for the name alone, which callers also send to refuse it: gzip;q=0.
            if not accepted.get("gzip", 0.0):
                # In place: the router notes the route in the scope that the account of the request has.
                scope["headers"] = [each for each in scope["headers"] if each[0] != _ACCEPT_ENCODING]

        async def send_varied(message: Message) -> None:
            # An answer without a body has the headers of the one with it, which caches go by.
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.NOT_MODIFIED:
                MutableHeaders(scope=message).add_vary_header("Accept-Encoding")
            await send(message)

        await super().__call__(scope, receive, send_varied)


def _quality(liked: Mapping[str, float], media_type: str) -> float:
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((liked[media] for media in ranges if media in liked), 0.0)

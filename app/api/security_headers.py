"""What every answer says to browsers and caches, whatever else it is.

An answer belongs to whoever asked: one with an ``ETag`` may be kept by its caller, who asks before using it
again; all others are not kept. A route that sets one of these headers itself keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
                there = {name for name, _ in headers}
                wanted = (*_HEADERS, _KEPT if b"etag" in there else _NOT_KEPT)
                added = (header for header in wanted if header[0] not in there)
                message = {**message, "headers": [*headers, *added]}
            await send(message)

        await self._app(scope, receive, send_guarded)

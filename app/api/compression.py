"""Answers compressed by ``Accept-Encoding``: zstd where the caller takes it, else gzip.

A compressed answer is another representation, so its strong ``ETag`` gets the coding as a suffix;
:mod:`app.api.etags` takes it off again. Answers that are streamed go out as they are.
"""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SMALLEST_BYTES = 1_024
# Below this the work is shorter than handing it to a thread.
_LARGE_BYTES = 1 << 16
_GZIP_LEVEL = 5

# In the order of preference among codings that the caller likes equally.
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": zstd.compress,
    "gzip": lambda body: gzip.compress(body, _GZIP_LEVEL, mtime=0),
}


def preferred_coding(accept_encoding: str) -> str | None:
    """The coding to answer in; None for none."""
    qualities: dict[str, float] = {}
    for part in accept_encoding.lower().split(","):
        name, _, parameters = part.partition(";")
        quality = parameters.replace(" ", "").removeprefix("q=") or "1"
        try:
            qualities[name.strip()] = float(quality)
        except ValueError:
            qualities[name.strip()] = 0.0
    liked = {coding: qualities.get(coding, qualities.get("*", 0.0)) for coding in CODINGS}
    best = max(liked, key=liked.__getitem__)
    return best if liked[best] > 0 and liked[best] >= qualities.get("identity", 0.0) else None


class Compression:
    """ASGI middleware that compresses answers of one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        coding = preferred_coding(Headers(scope=scope).get("accept-encoding", ""))
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                MutableHeaders(scope=start).add_vary_header("Accept-Encoding")
                body = message.get("body", b"")
                if coding is not None and len(body) >= _SMALLEST_BYTES and not message.get("more_body"):
                    message = {**message, "body": await _compress(body, coding, start)}
                await send(start)
                start = None
            await send(message)

        await self._app(scope, receive, send_compressed)


async def _compress(body: bytes, coding: str, start: Message) -> bytes:
    """``body`` in ``coding``, with the headers of ``start`` to match."""
    compress = CODINGS[coding]
    compressed = (
        await anyio.to_thread.run_sync(compress, body) if len(body) >= _LARGE_BYTES else compress(body)
    )
    headers = MutableHeaders(scope=start)
    headers["content-encoding"] = coding
    headers["content-length"] = str(len(compressed))
    if "etag" in headers:
        headers["etag"] = f'{headers["etag"][:-1]}-{coding}"'
    return compressed

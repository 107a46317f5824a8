"""What a caller takes: ``Accept`` and ``Accept-Encoding``, lists of names with qualities.

Answers are compressed with zstd where the caller takes it, else with gzip.

A compressed answer is another representation, so its strong ``ETag`` gets the coding as a suffix;
:mod:`app.api.versioned` takes it off again. The pieces of a stream are compressed as they come, and what ends
the compressed form goes out with the last of them: a stream that breaks off has no such end.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders


class PlanFormat(StrEnum):
    """The media types of a plan; among those that a caller likes equally, the first."""

    JSON = "application/json"
    LINES = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"


def qualities(header: str) -> dict[str, float]:
    """How much a caller likes each name, from 0 for not at all to 1; parameters but ``q`` are cut off."""
    found = {}
    for part in header.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        written = (each[2:] for each in (text.replace(" ", "") for text in parameters) if each[:2] == "q=")
        try:
            found[name] = float(next(written, "1"))
        except ValueError:
            found[name] = 0.0
    return found


def preferred_format(accept: str) -> PlanFormat:
    """The format to answer in; the first one for a caller who takes none of them."""
    return max(PlanFormat, key=partial(_quality, qualities(accept)))


def prefers_page(accept: str) -> bool:
    """Whether a caller likes a page to read better than JSON, as browsers do."""
    liked = qualities(accept)
    return _quality(liked, "text/html") > _quality(liked, PlanFormat.JSON)


def _quality(liked: Mapping[str, float], media_type: str) -> float:
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((liked[each] for each in ranges if each in liked), 0.0)


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SMALLEST_BYTES = 1_024
# Below this the work is shorter than handing it to a thread.
_LARGE_BYTES = 1 << 16
_GZIP_LEVEL = 5
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Compressor(Protocol):
    """Compresses what comes in pieces."""

    def compress(self, data: bytes, /) -> bytes:
        """What can be said of all pieces so far; maybe nothing yet."""
        ...

    def flush(self) -> bytes:
        """The rest, and the end."""
        ...


@dataclass(frozen=True, slots=True)
class Coding:
    """One content coding."""

    whole: Callable[[bytes], bytes]
    pieces: Callable[[], Compressor]


# In the order of preference among codings that the caller likes equally.
CODINGS = {
    "zstd": Coding(zstd.compress, zstd.ZstdCompressor),
    "gzip": Coding(
        lambda body: gzip.compress(body, _GZIP_LEVEL, mtime=0),
        lambda: zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW),
    ),
}


def preferred_coding(accept_encoding: str) -> str | None:
    """The coding to answer in; None for none."""
    taken = qualities(accept_encoding)
    liked = {coding: taken.get(coding, taken.get("*", 0.0)) for coding in CODINGS}
    best = max(liked, key=liked.__getitem__)
    return best if liked[best] > 0 and liked[best] >= taken.get("identity", 0.0) else None


class Compression:
    """ASGI middleware that compresses answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # More threads than cores finish nothing sooner, and the event loop waits among them.
        self._threads = anyio.CapacityLimiter(os.cpu_count() or 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        coding = preferred_coding(Headers(scope=scope).get("accept-encoding", ""))
        answer = _Answer(coding, send, self._threads)
        await self._app(scope, receive, answer.send)


class _Answer:
    def __init__(self, coding: str | None, send: Send, threads: anyio.CapacityLimiter) -> None:
        self._threads = threads
        self._coding = coding
        self._send = send
        self._start: Message | None = None
        self._pieces: Compressor | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # Whether it is compressed is known with the body only.
            self._start = message
            MutableHeaders(scope=message).add_vary_header("Accept-Encoding")
            return
        if message["type"] == "http.response.body":
            message = {**message, "body": await self._compressed(message)}
            if self._pieces is not None and not message["body"] and message.get("more_body"):
                return
        if self._start is not None:
            await self._send(self._start)
            self._start = None
        await self._send(message)

    async def _compressed(self, message: Message) -> bytes:
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        # The start may still wait while nothing can be said of the pieces so far.
        if self._start is not None and self._coding is not None and self._pieces is None:
            coding = CODINGS[self._coding]
            if more:
                _rename(self._start, self._coding)
                self._pieces = coding.pieces()
            elif len(body) >= _SMALLEST_BYTES:
                _rename(self._start, self._coding)
                body = await self._run(coding.whole, body)
                MutableHeaders(scope=self._start)["content-length"] = str(len(body))
        if self._pieces is None:
            return body
        if body:
            body = await self._run(self._pieces.compress, body)
        return body if more else body + self._pieces.flush()

    async def _run(self, compress: Callable[[bytes], bytes], body: bytes) -> bytes:
        if len(body) < _LARGE_BYTES:
            return compress(body)
        return await anyio.to_thread.run_sync(compress, body, limiter=self._threads)


def _rename(start: Message, coding: str) -> None:
    headers = MutableHeaders(scope=start)
    headers["content-encoding"] = coding
    if "etag" in headers:
        headers["etag"] = f'{headers["etag"][:-1]}-{coding}"'

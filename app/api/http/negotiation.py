"""What a caller likes to get: ``Accept`` and ``Accept-Encoding``, lists of names with qualities."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

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
                headers = [each for each in scope["headers"] if each[0] != _ACCEPT_ENCODING]
                scope = {**scope, "headers": headers}

        async def send_varied(message: Message) -> None:
            # An answer without a body has the headers of the one with it, which caches go by.
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.NOT_MODIFIED:
                MutableHeaders(scope=message).add_vary_header("Accept-Encoding")
            await send(message)

        await super().__call__(scope, receive, send_varied)


def _quality(liked: Mapping[str, float], media_type: str) -> float:
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((liked[media] for media in ranges if media in liked), 0.0)

"""Answers in pieces: what a compressor holds back is neither lost nor announced twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from app.api.compression import CODINGS, Compression

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

PIECES = [b"a", b"", b"b" * 10, b"c" * 100_000, b""]


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"etag", b'"tag"')]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for at, piece in enumerate(PIECES):
        await send({"type": "http.response.body", "body": piece, "more_body": at < len(PIECES) - 1})


def ask(coding: str) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "headers": [(b"accept-encoding", coding.encode())]}
    asyncio.run(Compression(answer)(scope, receive, send))
    return sent


@pytest.mark.parametrize("coding", list(CODINGS))
def test_small_pieces_arrive_with_the_rest(coding: str) -> None:
    start, *bodies = ask(coding)

    content = b"".join(message["body"] for message in bodies)
    headers: dict[bytes, Any] = dict(start["headers"])
    whole = decompressed(coding, content)
    assert whole == b"".join(PIECES)
    assert headers[b"etag"] == f'"tag-{coding}"'.encode()
    assert headers[b"content-encoding"] == coding.encode()


def decompressed(coding: str, content: bytes) -> bytes:
    whole: bytes = pa.input_stream(pa.py_buffer(content), compression=coding).read()
    return whole

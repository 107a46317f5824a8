"""Streams break off where their making does, and stop where their caller does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.answer_headers import RequestIds
from app.api.negotiation import Compression
from app.api.runtime import Runtime
from app.api.versioned import PieceStream
from app.opening import create_service
from app.settings import Settings
from tests.api.conftest import listening

PIECE = b"a line\n" * 20_000
PATIENCE_SECONDS = 20


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    settings = Settings.load(warehouses={"main": str(tmp_path)}, deadline_seconds=3)
    service = create_service(settings)
    runtime = Runtime.start(settings, service)
    yield runtime
    runtime.close()
    service.close()


@contextmanager
def streaming(
    runtime: Runtime, pieces: Callable[[], Iterator[bytes]], ended: threading.Event | None = None
) -> Iterator[httpx.Client]:
    """A server that answers with these pieces; ``ended`` is set once it asks for no more of them."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        stream = PieceStream(runtime, pieces(), media_type="text/plain", headers={})
        try:
            await stream(scope, receive, send)
        finally:
            if ended is not None:
                ended.set()

    with listening(RequestIds(Compression(application)), lifespan="off") as client:
        yield client


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_pieces_arrive_in_order(runtime: Runtime, coding: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b"one ", b"", b"two ", PIECE)

    with streaming(runtime, pieces) as client:
        response = client.get("/", headers={"Accept-Encoding": coding})

    assert response.content == b"one two " + PIECE
    assert "content-length" not in response.headers


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_error_after_the_first_piece_breaks_the_connection_off(runtime: Runtime, coding: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield PIECE
        raise ZeroDivisionError

    with (
        streaming(runtime, pieces) as client,
        client.stream("GET", "/", headers={"Accept-Encoding": coding}) as response,
    ):
        assert response.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            response.read()


def test_an_error_before_the_first_piece_is_a_problem(runtime: Runtime) -> None:
    def pieces() -> Iterator[bytes]:
        yield PIECE[: 1 // 0]

    with streaming(runtime, pieces) as client:
        response = client.get("/")

    assert response.status_code == 500
    assert response.json()["type"] == "urn:paimon-index:error:internal"


@pytest.mark.parametrize("reads", [True, False])
def test_no_more_is_made_for_a_caller_who_is_gone_or_does_not_read(runtime: Runtime, *, reads: bool) -> None:
    ended = threading.Event()

    with streaming(runtime, lambda: repeat(PIECE), ended) as client, client.stream("GET", "/") as response:
        next(response.iter_raw())
        if reads:
            response.close()

        assert ended.wait(PATIENCE_SECONDS)

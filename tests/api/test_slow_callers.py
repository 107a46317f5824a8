"""Callers who send or take nothing keep nobody else from being answered."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.middleware.gzip import GZipMiddleware

from app.api.answers.versioned import PieceStream
from app.api.http.headers import RequestIds
from app.api.runtime import Runtime
from app.main import create_app
from app.opening import create_service
from app.settings import Settings
from tests.api.conftest import Serve, listening
from tests.golden_cases import DATABASE, GoldenWarehouse

PLAN = f"/v1/main/databases/{DATABASE}/tables/append_sidecar/plan"
LOOKUP = f"/v1/main/databases/{DATABASE}/tables/append_sidecar/buckets/lookup"
HELD = 150_000


@contextmanager
def connected(client: httpx.Client) -> Iterator[socket.socket]:
    address = client.base_url.host, client.base_url.port or 0
    with socket.create_connection(address, timeout=60) as connection:
        yield connection


@contextmanager
def with_room_for_bodies(golden: GoldenWarehouse, size: int) -> Iterator[httpx.Client]:
    """Yield a server whose bodies may take so many bytes together."""
    application = create_app(Settings.load(warehouses={"main": str(golden.root)}))
    with listening(application, lifespan="on") as client:
        runtime = application.state.runtime
        application.state.runtime = replace(runtime, budget=replace(runtime.budget, bodies=size))
        yield client


def head(length: int, accept: str = "application/json") -> bytes:
    return f"POST {PLAN} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nContent-Length: {length}\r\n\r\n".encode()


def test_bodies_that_stop_share_one_limit(golden: GoldenWarehouse) -> None:
    with with_room_for_bodies(golden, 200_000) as client, connected(client) as connection:
        connection.sendall(head(1_000_000) + b"{" + bytes(HELD))
        refused = client.post(PLAN, content=b" " * 100_000 + b"{}")
        while refused.status_code == 200:
            # The first body is on its way, but perhaps not there yet.
            refused = client.post(PLAN, content=b" " * 100_000 + b"{}")
        small = client.post(PLAN, json={})

    assert (refused.status_code, small.status_code) == (503, 200)
    assert refused.json()["type"] == "urn:paimon-index:error:memory-short"
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["connection"] == "close"


def test_room_comes_back_with_the_connection(golden: GoldenWarehouse) -> None:
    with with_room_for_bodies(golden, 200_000) as client:
        for _ in range(5):
            with connected(client) as connection:
                connection.sendall(head(HELD) + b" " * (HELD - 2) + b"{}")
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_memory_is_claimed_for_the_answer_to_many_keys(
    golden: GoldenWarehouse, limit_memory: Callable[[int], None]
) -> None:
    with with_room_for_bodies(golden, 100 << 20) as client:
        answered = client.post(LOOKUP, json={"hashes": [0] * 50_000})
        limit_memory(12 << 20)
        refused = client.post(LOOKUP, json={"hashes": [0] * 50_000})

    assert (answered.status_code, refused.status_code) == (200, 422)
    assert "50000 keys are more than a process of" in refused.json()["detail"]


def test_callers_who_wait_are_not_worked_on(serve: Serve) -> None:
    with serve(concurrency=1) as client, ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(connected(client))
            connection.sendall(head(10) + b"{")
        answers = [client.post(PLAN, json={}).status_code for _ in range(5)]

    assert answers == [200] * 5


def test_more_work_than_may_be_is_turned_away(serve: Serve) -> None:
    statuses: list[int] = []
    with serve(concurrency=1, threads=1) as client:

        def ask() -> None:
            statuses.extend(client.post(PLAN, json={"limit": n + 1}).status_code for n in range(20))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(statuses) == 120
    assert set(statuses) <= {200, 429}
    assert 200 in statuses


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
    """Yield a server that answers with these pieces; ``ended`` is set once it asks for no more of them."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        stream = PieceStream(runtime, pieces(), media_type="text/plain", headers={})
        try:
            await stream(scope, receive, send)
        finally:
            if ended is not None:
                ended.set()

    with listening(RequestIds(GZipMiddleware(application)), lifespan="off") as client:
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

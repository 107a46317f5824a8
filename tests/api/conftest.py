"""A real server on the loopback interface, asked over HTTP only."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol

import httpx
import pytest
import uvicorn

from app.main import create_app
from app.server.connections import PunctualProtocol
from app.settings import Settings
from tests.golden_cases import GoldenWarehouse

_START_SECONDS = 20


class Serve(Protocol):
    """Starts a server of its own with these settings on top of the common ones, for the time of a block."""

    def __call__(self, **settings: object) -> AbstractContextManager[httpx.Client]: ...


@contextmanager
def listening(application: Callable[..., Any], *, lifespan: Literal["on", "off"]) -> Iterator[httpx.Client]:
    config = uvicorn.Config(
        application,
        port=0,
        log_config=None,
        lifespan=lifespan,
        loop="asyncio",
        http=PunctualProtocol,
        timeout_keep_alive=Settings().keep_alive_seconds,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        give_up = time.monotonic() + _START_SECONDS
        while not server.started and thread.is_alive() and time.monotonic() < give_up:
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serve(golden: GoldenWarehouse) -> Serve:
    common: dict[str, Any] = {
        "warehouses": {"main": str(golden.root)},
        "allow_external": tuple(golden.allow_external()),
    }

    @contextmanager
    def start(**settings: object) -> Iterator[httpx.Client]:
        asked = {**common, **settings}
        # The Java engine wrote all that is served in tests.
        application = create_app(Settings.load(engine_writes_only=tuple(asked["warehouses"]), **asked))
        with listening(application, lifespan="on") as client:
            yield client

    return start


@pytest.fixture(scope="session")
def client(serve: Serve) -> Iterator[httpx.Client]:
    with serve() as started:
        yield started


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

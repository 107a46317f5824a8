"""Our client against a real server on the loopback interface, and against scripted ones."""

from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Settings
from paimon_index import Client
from tests.api.conftest import listening
from tests.client.scripted import ScriptedServer
from tests.golden_cases import GoldenWarehouse


@pytest.fixture(scope="session")
def url(golden: GoldenWarehouse) -> Iterator[str]:
    settings = Settings.load(
        warehouses={"main": str(golden.root)},
        allow_external=tuple(golden.allow_external()),
        page_size=7,
    )
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url)


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def other() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server

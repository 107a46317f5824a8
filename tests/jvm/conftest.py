"""Tests of SQL run one real Spark with the engine's connector and the jar of ``jvm/``."""

from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse
from tests.jvm.sql_sessions import SqlSpark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSpark]:
    running = SqlSpark.start(tmp_path_factory.mktemp("spark"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def uri(golden: GoldenWarehouse) -> Iterator[str]:
    settings = Settings.load(warehouses={"main": str(golden.root)})
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url).rstrip("/")

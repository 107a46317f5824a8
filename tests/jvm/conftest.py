"""Tests of SQL run one real Spark with the engine's connector and the jar of ``jvm/``."""

from collections.abc import Iterator

import pytest

from tests.jvm.sql_sessions import SqlSpark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSpark]:
    running = SqlSpark.start(tmp_path_factory.mktemp("spark"))
    yield running
    running.stop()

"""Tests marked ``spark`` compare answers with those of real Spark and the Paimon connector.

They need Java 17 and the connector's jar; pyspark is installed into an environment of its own on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.sessions import Spark

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """A running Spark; ``spark.session("America/New_York")`` opens a session of a time zone."""
    running = Spark.start(tmp_path_factory.mktemp("spark"))
    yield running
    running.stop()

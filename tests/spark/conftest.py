"""Tests marked ``spark`` compare answers with those of real Spark, and with those of the Paimon connector.

They need Java 17, and those marked ``connector`` its jar, which ``PAIMON_SPARK_CONNECTOR`` names; pyspark is
installed into an environment of its own on first use.
"""

from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse
from tests.spark.served_tables import Golden, Written
from tests.spark.sessions import Spark


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start no Spark for a test without the mark, which `make test` would run."""
    if "spark" in getattr(item, "fixturenames", ()):
        assert item.get_closest_marker("spark"), "mark it as spark"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    running = Spark.start(tmp_path_factory.mktemp("spark"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def tables(spark: Spark, golden: GoldenWarehouse) -> Iterator[Golden]:
    settings = Settings.load(
        warehouses={"main": str(golden.root)}, allow_external=tuple(golden.allow_external())
    )
    with listening(create_app(settings), lifespan="on") as started:
        yield Golden(str(started.base_url), spark, str(golden.root))


@pytest.fixture
def written(spark: Spark) -> Iterator[Written]:
    session = spark.session("America/New_York")
    session.sql("CREATE DATABASE IF NOT EXISTS paimon.reading")
    settings = Settings.load(warehouses={"main": str(spark.warehouse)})
    with listening(create_app(settings), lifespan="on") as started:
        yield Written(str(started.base_url), session)
    session.sql("DROP DATABASE paimon.reading CASCADE")

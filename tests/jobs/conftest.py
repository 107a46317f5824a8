"""Tests of jobs run a real local Spark in a process of its own, which all of them share.

They need Java 17, and are skipped where there is none.
"""

import shutil
from collections.abc import Iterator

import pytest

from tests.acceptance.java_engine import JavaEngine
from tests.golden_cases import DATABASE
from tests.jobs.running_jobs import Jobs
from tests.spark.sessions import Spark


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    if shutil.which("java") is None:
        pytest.skip("jobs were not tested: java is not found, and Spark needs Java 17")
    running = Jobs.start(tmp_path_factory.mktemp("jobs"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    running = Spark.start(tmp_path_factory.mktemp("connector"))
    running.session().sql(f"CREATE DATABASE {DATABASE}")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> JavaEngine:
    return JavaEngine.build(tmp_path_factory.mktemp("engine") / "tables")

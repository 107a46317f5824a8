"""Acceptance tests know the service by its HTTP contract only; they share the server of the API's tests.

Those that are marked ``engine`` hold what is written here against the Java engine.
"""

import pytest

from tests.acceptance.java_engine import JavaEngine
from tests.api.conftest import client, serve

__all__ = ["client", "engine", "serve"]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> JavaEngine:
    return JavaEngine.build(tmp_path_factory.mktemp("engine") / "tables")

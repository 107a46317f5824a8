"""A server with Iceberg's REST catalog over the golden tables, and PyIceberg as its client."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse

ServeIceberg = Callable[..., AbstractContextManager[httpx.Client]]


@pytest.fixture(scope="session")
def serve_iceberg(golden: GoldenWarehouse) -> ServeIceberg:
    def start(**settings: object) -> AbstractContextManager[httpx.Client]:
        asked: dict[str, object] = {
            "warehouses": {"main": str(golden.root)},
            "allow_external": tuple(golden.allow_external()),
            "engine_writes_only": ("main",),
            "iceberg": True,
            **settings,
        }
        return listening(create_app(Settings.load(**asked)), lifespan="on")

    return start


@pytest.fixture(scope="session")
def iceberg(serve_iceberg: ServeIceberg) -> Iterator[httpx.Client]:
    with serve_iceberg() as client:
        client.base_url = httpx.URL(f"{client.base_url}/iceberg/v1/")
        client.headers["X-Paimon-Accept"] = "timestamp-millis"
        yield client


@pytest.fixture(scope="session")
def pyiceberg(iceberg: httpx.Client) -> RestCatalog:
    """PyIceberg, unmodified, with a property that its documentation has."""
    uri = str(iceberg.base_url).removesuffix("/v1/")
    return RestCatalog("paimon", uri=uri, **{"header.X-Paimon-Accept": "timestamp-millis"})

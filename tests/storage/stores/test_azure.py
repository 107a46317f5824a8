"""A warehouse in Azure's storage, as azurite has it: plans are those from a disk."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from app.cli.doctor import Finding, examine
from app.errors import SettingsError, StorageError
from app.planning.plan.answers import Plan
from app.planning.request.requests import PlanRequest
from app.settings import Settings
from app.storage import Warehouse
from tests import azurite
from tests.copied_tables import files_below
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.storage.stores.duties import TABLES, check_creation, check_ends, check_plans, opened
from tests.tables import golden_ref

blobs = pytest.importorskip("azure.storage.blob", reason="the extra azure is not installed")

SETTINGS: Final = "AZURE_STORAGE_CONNECTION_STRING"
URLS: Final = (
    "az://tables/warehouse",
    "abfs://tables/warehouse",
    f"abfss://tables@{azurite.ACCOUNT}.dfs.core.windows.net/warehouse",
)


def fill(endpoint: str, golden: GoldenWarehouse) -> None:
    account = blobs.BlobServiceClient.from_connection_string(azurite.connection_string(endpoint))
    with account, account.create_container("tables") as container:
        for table in TABLES:
            directory = golden.table(table)
            for path in files_below(directory):
                content = (directory / path).read_bytes()
                container.upload_blob(f"warehouse/{DATABASE}.db/{table}/{path}", content)


@pytest.fixture(scope="module")
def endpoint(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        azurite.serve(tmp_path_factory.mktemp("azurite")) as endpoint,
        pytest.MonkeyPatch.context() as environment,
    ):
        fill(endpoint, golden)
        environment.setenv(SETTINGS, azurite.connection_string(endpoint))
        yield endpoint


def names(plan: Plan) -> list[str]:
    return [file.file_name for file in plan.files]


def diagnosis(url: str) -> Finding:
    return examine(lambda: Settings.load(warehouses={"main": url}))[-1]


@pytest.mark.long
@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("table", TABLES)
def test_plans_are_those_of_a_local_warehouse(golden: GoldenWarehouse, url: str, table: str) -> None:
    check_plans(golden, url, table)


@pytest.mark.long
@pytest.mark.usefixtures("endpoint")
def test_files_end_where_they_end() -> None:
    check_ends(Warehouse("main", URLS[0]))


@pytest.mark.long
@pytest.mark.usefixtures("endpoint")
def test_of_several_who_create_a_file_one_succeeds() -> None:
    check_creation(Warehouse("main", URLS[0]))


@pytest.mark.long
def test_an_outage_fails_plans_until_it_ends(
    golden: GoldenWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, request = golden_ref(TABLES[0]), PlanRequest()
    with azurite.serve(tmp_path) as endpoint:
        fill(endpoint, golden)
        monkeypatch.setenv(SETTINGS, azurite.connection_string(endpoint))
        service = opened(URLS[0])
        before = names(service.plan(table, request))

    with pytest.raises(StorageError):
        service.plan(table, request)
    assert diagnosis(URLS[0]).outcome == "failed"

    with azurite.serve(tmp_path, urlsplit(endpoint).port or 0), closing(service):
        service.caches.clear()
        assert names(service.plan(table, request)) == before


@pytest.mark.long
def test_another_key_is_told_from_another_address(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosis(URLS[0]).outcome == "ok"
    monkeypatch.setenv(SETTINGS, azurite.connection_string(endpoint, key="YW5vdGhlcg=="))

    wrong = diagnosis(URLS[0])

    assert "HTTP 403" in wrong.found
    assert "check the credentials" in wrong.advice
    assert SETTINGS in wrong.advice


def test_a_url_of_one_account_is_not_read_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS, azurite.connection_string("http://127.0.0.1:1"))

    with pytest.raises(SettingsError, match=r"names the account sea, and .* the account lake"):
        Warehouse("main", "abfss://tables@sea.dfs.core.windows.net/warehouse")


def test_without_an_account_the_settings_of_one_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SETTINGS, "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)

    assert SETTINGS in diagnosis("az://tables/warehouse").advice

"""A warehouse in a real HDFS: plans are those from a disk, and one of several writers wins."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.errors import SettingsError, StorageError
from app.storage import Warehouse
from app.storage.stores.libraries import open_filesystem
from tests import hdfs
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.storage.stores.duties import TABLES, check_creation, check_ends, check_plans


@pytest.fixture(scope="module")
def url(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a warehouse with some golden tables."""
    directory = tmp_path_factory.mktemp("hdfs") / "warehouse"
    for table in TABLES:
        golden.copy(table, directory)
    with hdfs.serve(tmp_path_factory.mktemp("nodes"), directory) as url:
        yield url


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_plans_are_those_of_a_local_warehouse(golden: GoldenWarehouse, url: str, table: str) -> None:
    check_plans(golden, url, table)


@pytest.mark.engine
@pytest.mark.long
def test_files_end_where_they_end(url: str) -> None:
    check_ends(Warehouse("main", url))


@pytest.mark.engine
@pytest.mark.long
def test_of_several_who_create_a_file_one_succeeds(url: str) -> None:
    check_creation(Warehouse("main", url))


@pytest.mark.engine
@pytest.mark.long
def test_the_host_of_the_url_is_asked(url: str) -> None:
    elsewhere = Warehouse("main", "hdfs://127.0.0.1:1/warehouse")

    with pytest.raises(StorageError):
        elsewhere.list_names("")

    assert f"{DATABASE}.db" in Warehouse("main", url).list_names("")


def test_libraries_are_given_host_and_user_of_a_url() -> None:
    filesystem: Any = open_filesystem("webhdfs://reader@lake:9870/warehouse", {})

    assert filesystem.url == "http://lake:9870/webhdfs/v1"
    assert filesystem.user == "reader"


def test_a_missing_library_is_named_with_what_else_hdfs_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.storage.stores.libraries.find_spec", lambda _: None)

    with pytest.raises(SettingsError, match=r"hdfs-native is not installed.*HADOOP_CONF_DIR"):
        Warehouse("main", "hdfs://lake/warehouse")

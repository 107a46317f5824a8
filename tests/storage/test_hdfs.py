"""A warehouse in a real HDFS: plans are those from a disk, and one of several writers wins."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from app.errors import FileMissingError, SettingsError, StorageError
from app.planning.request.requests import PlanRequest
from app.planning.service import IndexService
from app.storage import Warehouse
from app.storage.libraries import open_filesystem
from app.storage.writing import Writing
from tests import hdfs
from tests.golden_tables import DATABASE, GoldenWarehouse, expected
from tests.planning.copied_tables import golden_ref, open_service

TABLES: Final = ("append_sidecar", "append_dv64", "pk_dv", "all_types_orc")


@pytest.fixture(scope="module")
def url(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a warehouse with some golden tables."""
    directory = tmp_path_factory.mktemp("hdfs") / "warehouse"
    for table in TABLES:
        shutil.copytree(golden.table(table), directory / f"{DATABASE}.db" / table)
    with hdfs.serve(tmp_path_factory.mktemp("nodes"), directory) as url:
        yield url


def opened(url: str) -> IndexService:
    return open_service(Path("/"), url=url)


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_plans_are_those_of_a_local_warehouse(golden: GoldenWarehouse, url: str, table: str) -> None:
    filters = [each["filter_sql"] for each in expected(table)["queries"] if each["filter_sql"]]
    requests = [PlanRequest(filter=written, time_zone="UTC") for written in [None, *filters[:20]]]

    with closing(open_service(golden.root)) as local, closing(opened(url)) as remote:
        for request in requests:
            plans = [service.plan(golden_ref(table), request) for service in (local, remote)]
            kept, others = ([file.file_name for file in plan.files] for plan in plans)
            assert kept == others


@pytest.mark.engine
@pytest.mark.long
def test_files_end_where_they_end(url: str) -> None:
    warehouse = Warehouse("main", url)
    Writing(warehouse).create("short", b"abc")

    assert warehouse.read("short") == b"abc"
    assert warehouse.read_ranges([("short", 1, 9), ("short", 3, 2), ("short", 7, 2)]) == [b"bc", b"", b""]
    with pytest.raises(FileMissingError):
        warehouse.read("nowhere")
    warehouse.readers.close()


@pytest.mark.engine
@pytest.mark.long
def test_of_several_who_create_a_file_one_succeeds(url: str) -> None:
    writing = Writing(Warehouse("main", url))

    assert writing.create("snapshot-1", b"first")
    assert not writing.create("snapshot-1", b"second")
    assert writing.create("snapshot-1", b"first"), "its own, whose answer got lost"
    writing.replace("LATEST", b"1")
    writing.replace("LATEST", b"2")

    assert writing.warehouse.read("snapshot-1") == b"first"
    assert writing.warehouse.read("LATEST") == b"2"
    assert [name for name in writing.warehouse.list_names("") if name.endswith(".tmp")] == []
    writing.warehouse.readers.close()


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
    monkeypatch.setattr("app.storage.libraries.find_spec", lambda _: None)

    with pytest.raises(SettingsError, match=r"hdfs-native is not installed.*HADOOP_CONF_DIR"):
        Warehouse("main", "hdfs://lake/warehouse")

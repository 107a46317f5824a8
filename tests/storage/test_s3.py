"""The warehouse against an S3 server on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.errors import FileMissingError, LimitExceededError, PathNotAllowedError, StorageError
from app.storage import RetryPolicy, Warehouse
from tests.s3_server import serve, store_of

KEYS = {
    "warehouse/db.db/t/snapshot/LATEST": b"7",
    "warehouse/db.db/t/snapshot/snapshot-7": b"0123456789",
    "warehouse/db.db/t/dt=20%2F24/f#?+ é": b"odd",
    "warehouse/db.db/t/empty": b"",
    "elsewhere/data": b"external",
}


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    with serve("bucket", KEYS) as options:
        yield options


@pytest.fixture
def warehouse(options: dict[str, Any]) -> Warehouse:
    return Warehouse("w", "s3://bucket/warehouse", allow_external=["s3a://bucket/elsewhere"], options=options)


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith("warehouse/")])
def test_reading(warehouse: Warehouse, key: str) -> None:
    assert warehouse.read(key.removeprefix("warehouse/")) == KEYS[key]


def test_ranges_sizes_and_existence(warehouse: Warehouse) -> None:
    path = "db.db/t/snapshot/snapshot-7"
    places = [(2, 3), (8, 5), (10, 5)]
    assert warehouse.read_ranges([(path, *place) for place in places]) == [b"234", b"89", b""]
    assert warehouse.size(path) == 10
    assert warehouse.exists(path)
    assert not warehouse.exists("db.db/t/snapshot/snapshot-8")


def test_no_object_has_a_name_of_more_than_1024_bytes(warehouse: Warehouse) -> None:
    longest = "é" * ((1024 - len("warehouse/")) // 2)
    for name in (longest, f"{longest}é", "n" * 5000):
        with pytest.raises(FileMissingError):
            warehouse.read(name)
        for place in (name, f"db.db/t/{name}"):
            (found,) = warehouse.read_ranges([(place, 0, 1)])
            assert isinstance(found, FileMissingError)
        assert warehouse.list_names(name) == []
        assert not warehouse.exists(name)


def test_many_ranges(warehouse: Warehouse) -> None:
    paths = [key.removeprefix("warehouse/") for key in KEYS if key.startswith("warehouse/")]
    asked = [(path, start, 3) for path in paths for start in (0, 2, 20)]
    assert warehouse.read_ranges(asked) == [
        KEYS[f"warehouse/{path}"][start : start + length] for path, start, length in asked
    ]
    (missing,) = warehouse.read_ranges([("db.db/t/none", 0, 3)])
    assert isinstance(missing, FileMissingError)


def test_listing(warehouse: Warehouse) -> None:
    assert warehouse.list_names("db.db/t/snapshot") == ["LATEST", "snapshot-7"]
    assert warehouse.list_names("db.db") == ["t"]
    assert warehouse.list_names("db.db/none") == []


def test_a_listing_is_never_stale(warehouse: Warehouse, options: dict[str, Any]) -> None:
    assert warehouse.list_names("db.db/growing") == []
    store_of("bucket", options).put("warehouse/db.db/growing/snapshot-1", b"1")
    assert warehouse.list_names("db.db/growing") == ["snapshot-1"]
    assert warehouse.exists("db.db/growing/snapshot-1")


def test_a_missing_key(warehouse: Warehouse) -> None:
    with pytest.raises(FileMissingError):
        warehouse.read("db.db/t/none")


def test_external_roots(warehouse: Warehouse) -> None:
    assert warehouse.read("s3://bucket/elsewhere/data") == b"external"
    with pytest.raises(PathNotAllowedError):
        warehouse.read("s3://bucket/db.db/t")


def test_the_byte_limit(options: dict[str, Any]) -> None:
    warehouse = Warehouse("w", "s3://bucket/warehouse", options=options, max_file_bytes=9)
    with pytest.raises(LimitExceededError):
        warehouse.read("db.db/t/snapshot/snapshot-7")


def test_a_server_that_is_not_there() -> None:
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "key", "secret_access_key": "secret"}
    retry = RetryPolicy(attempts=1)
    with pytest.raises(StorageError, match=r"cannot read db\.db/t"):
        Warehouse("w", "s3://bucket/warehouse", options=options, retry=retry).read("db.db/t")

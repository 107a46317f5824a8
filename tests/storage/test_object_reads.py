"""Objects of S3 are read through obstore as botocore would read them, or else through s3fs."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from aiobotocore.credentials import AioRefreshableCredentials
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FileMissingError, PathNotAllowedError, StorageError
from app.storage import RetryPolicy, Warehouse
from app.storage.object_reads import ObjectReads, bucket_url
from tests.examples import examples
from tests.faulty_store import BUCKET, Fault, Store

CONTENT = bytes(range(256)) * 8


def open_warehouse(options: Mapping[str, Any], **how: Any) -> Warehouse:
    return Warehouse("w", f"s3://{BUCKET}/w", options=options, stall_seconds=1.0, **how)


def reads_of(warehouse: Warehouse) -> ObjectReads | None:
    return warehouse.locate("any")[0].reads


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[Store, dict[str, Any]]]:
    store = Store({}, lambda _: None)
    with store.serving() as options:
        yield store, options


@pytest.fixture(scope="module")
def warehouse(store: tuple[Store, dict[str, Any]]) -> Warehouse:
    return open_warehouse(store[1])


@given(
    name=st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=20
    ),
    start=st.integers(0, 2100),
    length=st.integers(1, 3000),
)
@examples(60)
def test_any_object_is_read_whatever_its_name(
    store: tuple[Store, dict[str, Any]], warehouse: Warehouse, name: str, start: int, length: int
) -> None:
    served, _ = store
    served.objects[f"w/dt=1%2F2/{name}"] = CONTENT
    try:
        (found,) = warehouse.read_ranges([(f"dt=1%2F2/{name}", start, length)])
    except PathNotAllowedError:
        assert name in {".", ".."}
        return
    if name in {".", ".."}:
        assert isinstance(found, PathNotAllowedError)
    else:
        assert found == CONTENT[start : start + length]


def test_what_a_store_refuses_is_told_in_its_words() -> None:
    store = Store({}, lambda _: Fault.SLOW_DOWN)
    with (
        store.serving() as options,
        pytest.raises(StorageError, match=r"StoreAnswerError \(SlowDown, HTTP 503\)"),
    ):
        open_warehouse(options, retry=RetryPolicy(attempts=1)).read("a")


def test_a_missing_object_is_asked_for_once(
    store: tuple[Store, dict[str, Any]], warehouse: Warehouse
) -> None:
    served, _ = store
    with pytest.raises(FileMissingError):
        warehouse.read("none")
    assert served.asked["w/none"] == 1


def test_a_store_that_does_not_know_ranges_is_read_through_s3fs(caplog: pytest.LogCaptureFixture) -> None:
    store = Store({"w/a": CONTENT, "w/b": CONTENT}, lambda _: None, knows_ranges=False)
    with store.serving() as options, caplog.at_level(logging.WARNING, "paimon_index.storage"):
        warehouse = open_warehouse(options)
        assert [warehouse.read("a"), warehouse.read("b"), warehouse.read("b")] == [CONTENT] * 3
    # Only the first one was asked for in both ways.
    assert store.asked == {"w/a": 2, "w/b": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "bucket bucket is read through s3fs, which is slower: the store's answers are not understood"
    ]


@pytest.mark.parametrize("options", [{"requester_pays": True}, {"client_kwargs": {"verify": False}}])
def test_options_that_obstore_may_not_know_leave_reading_to_s3fs(options: dict[str, Any]) -> None:
    assert reads_of(Warehouse("w", "s3://bucket/w", options=options)) is None
    assert reads_of(Warehouse("w", "s3://bucket/w")) is not None


def test_no_other_storage_is_read_through_obstore() -> None:
    for url in ("memory://w", "file:///w"):
        assert reads_of(Warehouse("w", url)) is None


@pytest.mark.parametrize(
    ("endpoint", "bucket", "style", "expected"),
    [
        ("https://s3.eu-west-1.amazonaws.com", "lake", None, "https://lake.s3.eu-west-1.amazonaws.com"),
        ("https://s3.eu-west-1.amazonaws.com", "lake", "path", "https://s3.eu-west-1.amazonaws.com/lake"),
        (
            "https://s3.cn-north-1.amazonaws.com.cn",
            "lake",
            "auto",
            "https://lake.s3.cn-north-1.amazonaws.com.cn",
        ),
        ("https://s3.amazonaws.com", "my.lake", None, "https://s3.amazonaws.com/my.lake"),
        ("http://minio:9000/", "lake", None, "http://minio:9000/lake"),
        ("https://oss.example.com", "lake", "virtual", "https://lake.oss.example.com"),
        ("https://amazonaws.com.example.com", "lake", None, "https://amazonaws.com.example.com/lake"),
    ],
)
def test_a_bucket_lies_where_botocore_finds_it(
    endpoint: str, bucket: str, style: str | None, expected: str
) -> None:
    assert bucket_url(endpoint, bucket, style) == expected


def test_credentials_that_expire_are_renewed(store: tuple[Store, dict[str, Any]]) -> None:
    served, options = store
    served.objects["w/a"] = CONTENT
    renewed = 0

    async def renew() -> dict[str, str]:
        nonlocal renewed
        renewed += 1
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
        return {
            "access_key": f"key-{renewed}",
            "secret_key": "s",
            "token": "t",
            "expiry_time": soon.isoformat(),
        }

    warehouse = open_warehouse(options)
    reads = cast("ObjectReads", reads_of(warehouse))
    reads.filesystem.connect()
    first = AioRefreshableCredentials(
        "key-0", "s", "t", dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1), renew, "sts-assume-role"
    )
    client = reads.filesystem._s3  # noqa: SLF001 - it has no other way
    client._request_signer._credentials = first  # noqa: SLF001 - likewise

    assert warehouse.read("a") == CONTENT
    assert renewed == 1
    assert served.signed_by[-1] == "key-1"


def test_a_missing_file_of_certificates_is_no_missing_object(
    store: tuple[Store, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A table would look as if it had no snapshot."""
    served, options = store
    served.objects["w/a"] = CONTENT
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    try:
        assert open_warehouse(options, retry=RetryPolicy(attempts=1)).read("a") == CONTENT
    except StorageError as error:
        assert not isinstance(error, FileMissingError)  # noqa: PT017 - s3fs may or may not need the file

"""Objects of S3: their names, what the store says of them, and whose credentials it is asked with."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FileMissingError, LimitExceededError, PathNotAllowedError, SettingsError, StorageError
from app.storage import RetryPolicy, Warehouse
from tests.examples import examples
from tests.faulty_store import BUCKET, Fault, Store
from tests.s3_server import serve, store_of
from tests.storage.test_retry import failing_store

CONTENT = bytes(range(256)) * 8


def open_warehouse(options: Mapping[str, Any], **how: Any) -> Warehouse:
    return Warehouse("w", f"s3://{BUCKET}/w", options=options, stall_seconds=1.0, **how)


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


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def read_signed(served: Store, options: dict[str, Any]) -> str | None:
    """With which access key an object is asked for."""
    served.objects["w/a"] = CONTENT
    served.signed_by.clear()
    assert open_warehouse(options).read("a") == CONTENT
    return served.signed_by[-1] if served.signed_by else None


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        (
            {"AWS_ACCESS_KEY_ID": "of-the-environment", "AWS_SECRET_ACCESS_KEY": "secret"},
            "of-the-environment",
        ),
        # Who has no keys may ask without a signature.
        ({"AWS_SKIP_SIGNATURE": "true"}, None),
    ],
)
def test_a_store_and_its_keys_are_found_in_the_environment(
    store: tuple[Store, dict[str, Any]],
    environment: pytest.MonkeyPatch,
    variables: dict[str, str],
    key: str | None,
) -> None:
    served, options = store
    for name, value in {"AWS_ENDPOINT_URL": options["endpoint"], **variables}.items():
        environment.setenv(name, value)

    assert read_signed(served, {}) == key


def test_keys_of_a_profile_are_renewed(
    store: tuple[Store, dict[str, Any]], environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program of the profile gives them, each for a minute."""
    served, options = store
    count, program = tmp_path / "count", tmp_path / "keys.py"
    program.write_text(
        "import datetime as dt, json, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "count.write_text(count.read_text() + 'x' if count.exists() else 'x')\n"
        "soon = dt.datetime.now(dt.timezone.utc) + dt.timedelta(minutes=1)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'key-{len(count.read_text())}',"
        " 'SecretAccessKey': 's', 'SessionToken': 't', 'Expiration': soon.isoformat()}))\n"
    )
    profile = tmp_path / "config"
    profile.write_text(f"[profile lake]\ncredential_process = {sys.executable} {program}\n")
    environment.setenv("AWS_ENDPOINT_URL", options["endpoint"])
    environment.setenv("AWS_CONFIG_FILE", str(profile))
    environment.setenv("AWS_PROFILE", "lake")

    first = read_signed(served, {})

    assert first is not None
    assert first.startswith("key-")
    # It expires so soon that botocore has asked anew.
    assert len(count.read_text()) >= 2


def test_a_missing_file_of_certificates_is_no_missing_object(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A table would look as if it had no snapshot."""
    environment.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with pytest.raises(SettingsError, match=r"none\.pem"):
        open_warehouse({"access_key_id": "key", "secret_access_key": "secret"})


def test_a_missing_token_is_no_missing_object(
    store: tuple[Store, dict[str, Any]], environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.setenv("AWS_ENDPOINT_URL", store[1]["endpoint"])
    environment.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "none"))
    environment.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    with pytest.raises(StorageError) as caught:
        open_warehouse({}, retry=RetryPolicy(attempts=1)).read("a")
    assert not isinstance(caught.value, FileMissingError)


@pytest.mark.parametrize("status", [403, 404])
def test_an_instance_without_a_role_is_no_missing_object(
    store: tuple[Store, dict[str, Any]], environment: pytest.MonkeyPatch, status: int
) -> None:
    environment.setenv("AWS_ENDPOINT_URL", store[1]["endpoint"])
    with failing_store(status, "NoRole") as (instance, _):
        environment.setenv("AWS_METADATA_ENDPOINT", instance["endpoint"])
        with pytest.raises(StorageError, match=r"NoCredentialsError \(set AWS_ACCESS_KEY_ID"):
            open_warehouse({}, retry=RetryPolicy(attempts=1)).read("a")


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
def s3_warehouse(options: dict[str, Any]) -> Warehouse:
    return Warehouse("w", "s3://bucket/warehouse", allow_external=["s3a://bucket/elsewhere"], options=options)


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith("warehouse/")])
def test_reading(s3_warehouse: Warehouse, key: str) -> None:
    assert s3_warehouse.read(key.removeprefix("warehouse/")) == KEYS[key]


def test_ranges_sizes_and_existence(s3_warehouse: Warehouse) -> None:
    path = "db.db/t/snapshot/snapshot-7"
    places = [(2, 3), (8, 5), (10, 5)]
    assert s3_warehouse.read_ranges([(path, *place) for place in places]) == [b"234", b"89", b""]
    assert s3_warehouse.size(path) == 10
    assert s3_warehouse.exists(path)
    assert not s3_warehouse.exists("db.db/t/snapshot/snapshot-8")


def test_no_object_has_a_name_of_more_than_1024_bytes(s3_warehouse: Warehouse) -> None:
    longest = "é" * ((1024 - len("warehouse/")) // 2)
    for name in (longest, f"{longest}é", "n" * 5000):
        with pytest.raises(FileMissingError):
            s3_warehouse.read(name)
        for place in (name, f"db.db/t/{name}"):
            (found,) = s3_warehouse.read_ranges([(place, 0, 1)])
            assert isinstance(found, FileMissingError)
        assert s3_warehouse.list_names(name) == []
        assert not s3_warehouse.exists(name)


def test_many_ranges(s3_warehouse: Warehouse) -> None:
    paths = [key.removeprefix("warehouse/") for key in KEYS if key.startswith("warehouse/")]
    asked = [(path, start, 3) for path in paths for start in (0, 2, 20)]
    assert s3_warehouse.read_ranges(asked) == [
        KEYS[f"warehouse/{path}"][start : start + length] for path, start, length in asked
    ]
    (missing,) = s3_warehouse.read_ranges([("db.db/t/none", 0, 3)])
    assert isinstance(missing, FileMissingError)


def test_listing(s3_warehouse: Warehouse) -> None:
    assert s3_warehouse.list_names("db.db/t/snapshot") == ["LATEST", "snapshot-7"]
    assert s3_warehouse.list_names("db.db") == ["t"]
    assert s3_warehouse.list_names("db.db/none") == []


def test_a_listing_is_never_stale(s3_warehouse: Warehouse, options: dict[str, Any]) -> None:
    assert s3_warehouse.list_names("db.db/growing") == []
    store_of("bucket", options).put("warehouse/db.db/growing/snapshot-1", b"1")
    assert s3_warehouse.list_names("db.db/growing") == ["snapshot-1"]
    assert s3_warehouse.exists("db.db/growing/snapshot-1")


def test_external_roots(s3_warehouse: Warehouse) -> None:
    assert s3_warehouse.read("s3://bucket/elsewhere/data") == b"external"
    with pytest.raises(PathNotAllowedError):
        s3_warehouse.read("s3://bucket/db.db/t")


def test_the_byte_limit(options: dict[str, Any]) -> None:
    s3_warehouse = Warehouse("w", "s3://bucket/warehouse", options=options, max_file_bytes=9)
    with pytest.raises(LimitExceededError):
        s3_warehouse.read("db.db/t/snapshot/snapshot-7")

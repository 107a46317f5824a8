"""Libraries of stores repeat nothing by themselves, and do not wait for ever; those that are installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from app.storage.libraries import ask, open_filesystem
from app.storage.retry import is_missing, is_transient
from tests.faulty_store import BUCKET, Fault, Store

STALL_SECONDS = 0.4

STORES: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "s3": (
        "obstore",
        lambda endpoint: {"endpoint": endpoint, "access_key_id": "key", "secret_access_key": "secret"},
    ),
    "gs": ("gcsfs", lambda endpoint: {"endpoint_url": endpoint, "token": "anon"}),
    "az": (
        "adlfs",
        lambda endpoint: {
            "connection_string": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;"
            f"BlobEndpoint={endpoint}/a;"
        },
    ),
    "oss": ("ossfs", lambda endpoint: {"endpoint": endpoint, "key": "key", "secret": "secret"}),
    "http": ("aiohttp", lambda _: {}),
}
METHODS: dict[str, dict[str, object]] = {
    "cat_file": {"start": 0, "end": 9},
    "ls": {"detail": False},
    "info": {},
}


@pytest.mark.parametrize("protocol", STORES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.HANG])
def test_a_store_is_asked_once_for_each_key(
    protocol: str, method: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Asks a service of its own for the kind of each bucket, which is none of the endpoint's.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    library, options_of = STORES[protocol]
    pytest.importorskip(library)
    store = Store({}, lambda _: fault)
    with store.serving() as served:
        endpoint = served["endpoint"]
        filesystem = open_filesystem(protocol, options_of(endpoint), STALL_SECONDS)
        path = f"{endpoint}/key" if protocol == "http" else f"{BUCKET}/directory/key"
        began = time.monotonic()
        with pytest.raises(Exception) as caught:  # noqa: PT011 - libraries have nothing in common
            ask(filesystem, method, path, **METHODS[method])
        seconds = time.monotonic() - began

    assert is_transient(caught.value)
    assert not is_missing(caught.value)
    # Over HTTP, fsspec asks in two ways how large a file is.
    calls = 2 if (protocol, method) == ("http", "info") else 1
    assert max(store.asked.values()) == calls
    if fault is Fault.HANG:
        # The libraries' own patience is a minute and more.
        assert seconds < 20

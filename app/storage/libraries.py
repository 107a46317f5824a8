"""The way to the storage libraries: their filesystems are opened here, and asked while requests last.

Those of object stores are told to give fresh listings, to bear short silences only, and to repeat nothing. A
library that repeats by itself multiplies what is repeated above it (:mod:`app.storage.retry`), and answers
late. One that waits long for a store that has fallen silent holds up a request that another attempt would
serve. Not every library has options for that; then what it does is set where it keeps it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from inspect import iscoroutinefunction, unwrap
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import fsspec
from fsspec.asyn import get_loop

from app.storage.object_store import ObjectStore
from app.work.deadline import wait_for

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


HADOOP: Final = frozenset({"hdfs", "viewfs"})
"""Schemes of Hadoop's filesystems, which hdfs-native reads."""
_LIBRARIES: Final = {
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "oss": "oss",
    "http": "http",
    "https": "http",
}


def store_options(protocol: str, stall_seconds: float) -> dict[str, Any]:
    """What a store's filesystem is made with; nothing for what is no store."""
    if protocol in HADOOP:
        # From a name node on standby to the active one; by itself the library tries for minutes.
        return {"dfs.client.failover.max.attempts": "1"}
    library = _LIBRARIES.get(protocol)
    if library is None:
        return {}
    # Warehouses of one store share no connections. The newest snapshot is found by listings.
    common: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    match library:
        case "gcs":
            return common | {"requests_timeout": _stalls(stall_seconds)}
        case "http":
            return common | {"client_kwargs": {"timeout": _stalls(stall_seconds)}}
        case _:
            return common


def set_up(filesystem: AbstractFileSystem, protocol: str, stall_seconds: float) -> None:
    """Sets what no option of a library sets."""
    match _LIBRARIES.get(protocol):
        case "gcs":
            request = unwrap(type(filesystem)._request)  # noqa: SLF001 - below what repeats it
            filesystem._request = MethodType(request, filesystem)  # noqa: SLF001
        case "azure":
            client = filesystem.service_client
            client._config.retry_policy.total_retries = 0  # noqa: SLF001 - only an option of each call
            transport = client._pipeline._transport.connection_config  # noqa: SLF001 - likewise
            transport.timeout = transport.read_timeout = stall_seconds
        case "oss":
            open_bucket, call = filesystem._get_bucket, filesystem._call_oss  # noqa: SLF001 - likewise
            filesystem._get_bucket = lambda name, _=None: open_bucket(name, stall_seconds)  # noqa: SLF001
            filesystem._call_oss = lambda method, *arguments, **options: call(  # noqa: SLF001
                method,
                *arguments,
                retry=1,
                **(options | {"max_retries": 1} if method.endswith("Iterator") else options),
            )


def _stalls(stall_seconds: float) -> object:
    # It comes with the libraries that it is for.
    from aiohttp import ClientTimeout  # noqa: PLC0415

    return ClientTimeout(total=None, sock_connect=stall_seconds, sock_read=stall_seconds)


STALL_SECONDS: Final = 3.0


def open_filesystem(
    location: str, options: Mapping[str, Any], stall_seconds: float = STALL_SECONDS
) -> AbstractFileSystem | ObjectStore:
    """The library's filesystem of a URL in its normal form: of S3 obstore's, of others fsspec's.

    Libraries are given what they take of the URL, such as host and user, in place of what is set here, and
    ``options`` in place of both.

    Raises:
        ValueError: there is no library for the protocol, or it does not take the options.
        ImportError: the library is not installed.
        OSError: a file that the options or the environment name cannot be read.
    """
    protocol = location.partition(":")[0]
    if protocol == "s3":
        return ObjectStore(options, stall_seconds, _event_loop())
    if protocol in HADOOP and find_spec("hdfs_native") is None:
        raise ImportError(
            "the package hdfs-native is not installed: install it, or the extra hdfs, and name the directory "
            "of core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR"
        )
    library = fsspec.get_filesystem_class(protocol)
    own = store_options(protocol, stall_seconds)
    if library.async_impl:
        own["loop"] = _event_loop()
    of_url = library._get_kwargs_from_urls(location)  # noqa: SLF001 - fsspec's way
    filesystem = fsspec.filesystem(protocol, **{**own, **of_url, **options})
    if _LIBRARIES.get(protocol) == "azure":
        _check_account(filesystem, location)
    set_up(filesystem, protocol, stall_seconds)
    return filesystem


def _check_account(filesystem: AbstractFileSystem, location: str) -> None:
    """Refuses settings, which the library prefers, of another account than ``container@account.domain``."""
    _, at, host = location.partition("://")[2].partition("/")[0].rpartition("@")
    named, known = host.partition(".")[0].lower(), filesystem.service_client.account_name
    if at and known not in (None, named):
        raise ValueError(
            f"the URL names the account {named}, and AZURE_STORAGE_CONNECTION_STRING or "
            f"AZURE_STORAGE_ACCOUNT_NAME the account {known}: correct one of them"
        )


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """What runs the calls of all asynchronous libraries; without uvloop, fsspec's own.

    Each answer of obstore wakes the loop from a thread of its own, while it holds Python's lock.
    """
    if find_spec("uvloop") is None:
        return get_loop()  # type: ignore[no-any-return]
    import uvloop  # noqa: PLC0415 - it comes with the extra `s3`

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    threading.Thread(target=loop.run_forever, name="storage calls", daemon=True).start()
    return loop


def read_hadoop(filesystem: AbstractFileSystem, path: str, start: int, end: int) -> bytes:
    """Bytes of a file of Hadoop's; fewer where it ends before, which would end the library's own call."""
    with filesystem.client.read(path) as file:
        end = min(end, len(file))
        content: bytes = file.read_range(start, end - start) if start < end else b""
    return content


def ask(filesystem: AbstractFileSystem | ObjectStore, method: str, path: str, **options: object) -> Any:
    """What a filesystem's method (its blocking form: ``cat_file``) answers unless the request ends before.

    A call of an asynchronous library ends with the request, and leaves no connection and no thread behind.
    Others cannot be ended: they keep the thread that asks.
    """
    coroutine = getattr(filesystem, f"_{method}", None)
    if not filesystem.async_impl or not iscoroutinefunction(coroutine):
        return getattr(filesystem, method)(path, **options)
    under_way = asyncio.run_coroutine_threadsafe(coroutine(path, **options), filesystem.loop)
    try:
        return wait_for(under_way)
    finally:
        under_way.cancel()

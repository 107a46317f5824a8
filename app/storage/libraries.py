"""Storage libraries, set up so that they repeat nothing and give up early; :mod:`app.storage.retry` repeats.

A library that repeats by itself multiplies what is repeated above it, and answers late. One that waits long
for a store that has fallen silent holds up a request that another attempt would serve.
"""

from __future__ import annotations

import asyncio
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import fsspec

from app.storage.deadline import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem

STALL_SECONDS: Final = 3.0

_MOST_CONNECTIONS: Final = 1000
"""Of one warehouse: more than it has threads that ask, since no timeout bounds the wait for a connection."""


def open_filesystem(
    protocol: str, options: Mapping[str, Any], stall_seconds: float = STALL_SECONDS
) -> AbstractFileSystem:
    """The library's filesystem of a protocol.

    A store's filesystem is made anew, so that warehouses of one store share no connections.

    Args:
        protocol: ``file``, ``s3``; what fsspec knows.
        options: of the library, before those that are set here.
        stall_seconds: how long a store may be silent in a call.

    Raises:
        ValueError: there is no library for the protocol.
        ImportError: the library is not installed.
    """
    filesystem = fsspec.filesystem(protocol, **{**_options(protocol, stall_seconds), **options})
    if protocol == "s3":
        # An attribute of the class that no option sets.
        filesystem.retries = 1
    return filesystem


def ask(filesystem: AbstractFileSystem, method: str, path: str, **options: object) -> Any:  # noqa: ANN401 - whatever it is
    """What a filesystem's method answers, unless the request ends before.

    A call of an asynchronous library ends with the request, and leaves no connection and no thread behind.
    Others cannot be ended: they keep the thread that asks.

    Args:
        filesystem: of :func:`open_filesystem`.
        method: the name of its blocking form: ``cat_file``.
        path: of the file or directory.
        options: further arguments of the method.

    Raises:
        DeadlineExceededError: the request's time was used up, or its caller went away.
        Exception: what the library raises.
    """
    coroutine = getattr(filesystem, f"_{method}", None)
    if not filesystem.async_impl or not iscoroutinefunction(coroutine):
        return getattr(filesystem, method)(path, **options)
    under_way = asyncio.run_coroutine_threadsafe(coroutine(path, **options), filesystem.loop)
    try:
        return wait_for(under_way)
    finally:
        under_way.cancel()


def _options(protocol: str, stall_seconds: float) -> dict[str, Any]:
    match protocol:
        case "s3":
            return {
                "skip_instance_cache": True,
                # Listings must be fresh: the newest snapshot is found by them.
                "use_listings_cache": False,
                "config_kwargs": {
                    "connect_timeout": stall_seconds,
                    # Between two pieces of an answer.
                    "read_timeout": stall_seconds,
                    "retries": {"total_max_attempts": 1},
                    "max_pool_connections": _MOST_CONNECTIONS,
                },
            }
        case _:
            return {}

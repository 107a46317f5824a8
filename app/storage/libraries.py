"""The way to the storage libraries: their filesystems are opened here, and asked while requests last."""

from __future__ import annotations

import asyncio
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import fsspec

from app.storage.deadline import wait_for
from app.storage.stores import set_up, store_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem

STALL_SECONDS: Final = 3.0


def open_filesystem(
    protocol: str, options: Mapping[str, Any], stall_seconds: float = STALL_SECONDS
) -> AbstractFileSystem:
    """The library's filesystem of a protocol.

    Args:
        protocol: ``file``, ``s3``; what fsspec knows.
        options: of the library, before those that are set here.
        stall_seconds: how long a store may be silent in a call.

    Raises:
        ValueError: there is no library for the protocol.
        ImportError: the library is not installed.
    """
    filesystem = fsspec.filesystem(protocol, **{**store_options(protocol, stall_seconds), **options})
    set_up(filesystem, protocol, stall_seconds)
    return filesystem


def ask(filesystem: AbstractFileSystem, method: str, path: str, **options: object) -> Any:  # noqa: ANN401 - any
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

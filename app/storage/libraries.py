"""The way to the storage libraries: their filesystems are opened here, and asked while requests last."""

from __future__ import annotations

import asyncio
import threading
from functools import cache
from importlib.util import find_spec
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
    own = store_options(protocol, stall_seconds)
    if fsspec.get_filesystem_class(protocol).async_impl:
        own["loop"] = _event_loop()
    filesystem = fsspec.filesystem(protocol, **{**own, **options})
    set_up(filesystem, protocol, stall_seconds)
    return filesystem


@cache
def _event_loop() -> asyncio.AbstractEventLoop | None:
    """What runs the calls of all asynchronous libraries; None, which is fsspec's own loop, without uvloop.

    Each answer of obstore wakes the loop from a thread of its own, while it holds Python's lock.
    """
    if find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415 - it comes with the extra `s3`

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    threading.Thread(target=loop.run_forever, name="storage calls", daemon=True).start()
    return loop


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

"""Disks, object stores and other file systems, each as one :class:`~app.storage.stores.store.Store`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.storage.stores.libraries import (
    HADOOP,
    STALL_SECONDS,
    HadoopStore,
    LibraryStore,
    open_filesystem,
)
from app.storage.stores.local_files import LocalFiles
from app.storage.stores.store import Attempt, Store

__all__ = ["STALL_SECONDS", "Attempt", "LocalFiles", "Store", "open_store"]


def open_store(location: str, options: Mapping[str, Any], stall_seconds: float) -> Store:
    """The store at a URL in its normal form.

    Raises:
        ValueError: there is no library for the protocol, or it does not take the options.
        ImportError: the library is not installed.
        OSError: a file that the options or the environment name cannot be read.
    """
    protocol, _, place = location.partition("://")
    if protocol == "file":
        return LocalFiles(place.rstrip("/"))
    if protocol == "s3":
        from app.storage.stores.object_store import ObjectStore  # noqa: PLC0415 - needs the extra `s3`

        return ObjectStore(place, options, stall_seconds)
    filesystem = open_filesystem(location, options, stall_seconds)
    # Some filesystems want a leading slash and some none: each knows its own form.
    directory = str(filesystem._strip_protocol(location)).rstrip("/")  # noqa: SLF001 - fsspec's way
    return (HadoopStore if protocol in HADOOP else LibraryStore)(filesystem, directory, stall_seconds)

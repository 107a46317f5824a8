"""Disks, object stores and other file systems, each as a :class:`~app.storage.stores.store.Store`."""

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
    """Open the store at a URL in normal form.

    Raises ValueError for an unknown protocol or option, ImportError if the library is not installed, OSError
    for an unreadable file that options or environment name.
    """
    protocol, _, place = location.partition("://")
    if protocol == "file":
        return LocalFiles(place.rstrip("/"))
    if protocol == "s3":
        from app.storage.stores.object_store import ObjectStore  # noqa: PLC0415 - needs the extra `s3`

        return ObjectStore(place, options, stall_seconds)
    filesystem = open_filesystem(location, options, stall_seconds)
    # Filesystems differ in whether their paths begin with a slash.
    directory = str(filesystem._strip_protocol(location)).rstrip("/")  # noqa: SLF001 - fsspec's way
    return (HadoopStore if protocol in HADOOP else LibraryStore)(filesystem, directory, stall_seconds)

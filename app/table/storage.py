"""Storage and caches that tables read with: :class:`app.storage.Warehouse`, or a dictionary in a test."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from app.storage import ByteCache, Readers, Tiers
from app.types.roaring import Buffer


class SmallFiles(Protocol):
    """Reads files that are small when intact, and lists directories."""

    def start_of(self, path: str, count: int) -> bytes | None:
        """Read up to the first ``count`` bytes of a file. Return None if there is no such file."""

    def list_names(self, directory: str) -> list[str]:
        """List the names right below a directory, sorted, empty if it does not exist. ``""`` is the root."""


class Storage(SmallFiles, Protocol):
    """Read access to one warehouse. Paths are relative to its root, or absolute URIs of external files."""

    @property
    def name(self) -> str:
        """Name of the warehouse, unique within the service."""

    @property
    def place(self) -> str:
        """Location of the warehouse, unique across processes."""

    @property
    def is_local(self) -> bool:
        """True if every file is on a local disk, so that a request for one takes no time."""

    def reading(self, path: str, size: int | None, *, is_kept: bool = True) -> AbstractContextManager[Buffer]:
        """Yield the whole of an immutable file, perhaps from a cached copy, for the time of a block.

        Only for files whose names are never used for another file. ``is_kept`` allows a copy to be cached.
        """

    def exists(self, path: str) -> bool:
        """Return True if a file or directory exists."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """Storage and caches shared by the tables of a warehouse."""

    storage: Storage
    metadata: ByteCache[Any]
    manifests: ByteCache[Any]
    readers: Readers
    tiers: Tiers = Tiers()  # noqa: RUF009 - frozen

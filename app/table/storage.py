"""What tables read with. :class:`app.storage.Warehouse` is the storage, or a dictionary in a test."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from app.storage import ByteCache, Readers, Tiers
from app.types.roaring import Buffer


class SmallFiles(Protocol):
    """Files that are small if they are what they should be, and names in directories."""

    def start_of(self, path: str, count: int) -> bytes | None:
        """The first ``count`` bytes of a file, fewer where it ends before; None if there is no such file."""

    def list_names(self, directory: str) -> list[str]:
        """Names right below a directory, sorted; none if it is not there. ``""`` is the root."""


class Storage(SmallFiles, Protocol):
    """Read access to one warehouse.

    Paths are relative to its root, or absolute URIs of external files.
    """

    @property
    def name(self) -> str:
        """What tells this warehouse from others."""

    @property
    def place(self) -> str:
        """Place that tells its files from those of others in every process."""

    @property
    def is_local(self) -> bool:
        """Whether all files lie on this machine, so that it takes no time to ask for one."""

    def reading(self, path: str, size: int | None, *, is_kept: bool = True) -> AbstractContextManager[Buffer]:
        """The whole of a file that never changes, perhaps from a copy that was kept, for the time of a block.

        Only for files under names that no other file ever has, before or after.

        Args:
            is_kept: whether a copy may be kept.
        """

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """What every table of a warehouse reads with."""

    storage: Storage
    metadata: ByteCache[Any]
    manifests: ByteCache[Any]
    readers: Readers
    tiers: Tiers = Tiers()  # noqa: RUF009 - frozen

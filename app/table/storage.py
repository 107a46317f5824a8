"""What tables read with. :class:`app.storage.Warehouse` is the storage, or a dictionary in a test."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from app.storage import ByteCache, Readers
from app.storage.disk.disk_tier import KeptArrays
from app.storage.shared_tier import SharedArrays
from app.types.roaring import Buffer


class SmallFiles(Protocol):
    """Files that are small if they are what they should be, and names in directories."""

    def read_start(self, path: str, count: int) -> bytes:
        """The first ``count`` bytes of a file, fewer where it ends before."""

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
    def is_local(self) -> bool:
        """Whether all files lie on this machine, so that it takes no time to ask for one."""

    def reading(self, path: str, size: int | None, *, is_kept: bool = True) -> AbstractContextManager[Buffer]:
        """The whole of a file that never changes, perhaps from a copy that was kept, for the time of a block.

        Only for files under names that no other file ever has, before or after.

        Args:
            is_kept: whether a copy may be kept.
        """

    @property
    def arrays_capacity(self) -> int:
        """Bytes of the disk that there are for what is made of files; 0 if nothing of it is kept."""

    def arrays_of(self, path: str, size: int | None, form: str) -> KeptArrays | None:
        """Where what is made of a file that never changes is kept as arrays, if that is done."""

    def shared_arrays_of(self, made: Sequence[tuple[str, int | None, str]]) -> SharedArrays | None:
        """Where processes share what is made of such files, each with its form, if that is done."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """What every table of a warehouse reads with."""

    storage: Storage
    metadata: ByteCache[Any]
    manifests: ByteCache[Any]
    readers: Readers

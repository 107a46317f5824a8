"""What is asked of every store: files and directories below one directory, wherever that is."""

from __future__ import annotations

import asyncio
import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Result]):
    """What became of a call that was made already."""

    seconds: float
    result: Result | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing has it: its name, its bytes, and when it was written, if the store tells."""

    name: str
    size: int
    written: dt.datetime | None


class Store(ABC):
    """Files below one directory.

    Paths are relative to it, and :func:`~app.storage.locations.check_segments` has passed them. Methods block
    until the request ends, ask once, and raise what the storage's library raises; or PathNotAllowedError (a
    link leads out of the directory) or FileMissingError (no name can be so long).
    """

    is_local: ClassVar[bool] = False
    """Whether the files lie on this machine."""

    @abstractmethod
    def read(self, path: str, start: int, end: int) -> bytes:
        """Bytes of a file, fewer where it ends before."""

    def read_many(
        self,
        wanted: Sequence[tuple[str, int, int]],  # noqa: ARG002 - for others
        calls: asyncio.Semaphore,  # noqa: ARG002 - likewise
    ) -> Sequence[Attempt[bytes]] | None:
        """What became of many :meth:`read`, made side by side; None where each needs a thread.

        ``calls`` bounds those that are under way.
        """
        return None

    @abstractmethod
    def entries(self, path: str) -> list[tuple[str, bool]]:
        """Names right below a directory (``""``: the store's own), and whether each is a directory's."""

    @abstractmethod
    def files(self, path: str) -> list[StoredFile]:
        """The files right below a directory."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file, 0 for a directory."""

    @abstractmethod
    def has_root(self) -> bool:
        """Whether the store's own directory is there; of an object store, the bucket."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that nobody finds before it is whole; False: there is one of that name.

        SettingsError: the library cannot create a file only if there is none.
        """

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Writes a file; readers find the one before it, if any, or the new one."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Deletes a file."""

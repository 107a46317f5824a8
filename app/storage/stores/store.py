"""Interface of a store: files and directories below one directory."""

from __future__ import annotations

import asyncio
import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Attempt(Generic[_Result]):
    """Outcome of a call: its result or its error."""

    seconds: float
    result: _Result | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A listed file: name, bytes, and modification time if the store has it."""

    name: str
    size: int
    written: dt.datetime | None


class Store(ABC):
    """Files below one directory.

    Paths are relative to it, and were checked by :func:`~app.storage.locations.check_segments`. Methods block
    until the request ends, try once, and raise the library's exceptions, or PathNotAllowedError for a link
    that leads out of the directory, FileMissingError for an impossible name.
    """

    is_local: ClassVar[bool] = False
    """True if the files are on this machine."""

    @abstractmethod
    def read(self, path: str, start: int, end: int) -> bytes:
        """Read bytes of a file, fewer at its end."""

    def read_many(
        self,
        ranges: Sequence[tuple[str, int, int]],  # noqa: ARG002 - for others
        calls: asyncio.Semaphore,  # noqa: ARG002 - for others
    ) -> Sequence[Attempt[bytes]] | None:
        """Attempt many reads in parallel, at most ``calls`` in flight. Return None if each needs a thread."""
        return None

    @abstractmethod
    def entries(self, path: str) -> list[tuple[str, bool]]:
        """List names right below a directory (``""``: the store's own), with True for directories."""

    @abstractmethod
    def files(self, path: str) -> list[StoredFile]:
        """List the files right below a directory."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the size of a file in bytes, 0 for a directory."""

    @abstractmethod
    def has_root(self) -> bool:
        """Return True if the store's directory, or its bucket, exists."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Create a file atomically. Return False if the name is taken.

        Raises SettingsError if the library has no exclusive create.
        """

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Write a file. Readers find the old content, if any, or the new one."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file."""

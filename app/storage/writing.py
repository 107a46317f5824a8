"""Writes into a warehouse: files that are created once and never overwritten, and hints, which may be.

The service writes to its shared cache only. Jobs write to warehouses. Readers never see part of a file, and
exactly one of several writers of a name succeeds.
"""

from __future__ import annotations

import contextlib

from app.errors import FileMissingError
from app.observation import StorageOperation
from app.storage.warehouse import Warehouse


class Writing:
    """Writes below the root of a warehouse, and below its external roots.

    Every call may raise PathNotAllowedError for a path outside them, and StorageError after retries.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def create(self, path: str, content: bytes) -> bool:
        """Create a file. Return False if the name has another content already.

        A call whose answer was lost may have created the file, so an existing file with this very content
        counts as created. A caller who must know who created it adds something random to the content.

        Raises SettingsError if the store's library has no exclusive create, StorageError after retries. Then
        the file may or may not exist.
        """
        is_new = self.warehouse.ask(
            StorageOperation.WRITE, path, lambda store, place: store.create(place, content)
        )
        return is_new or self._has_content(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Write or overwrite a hint, on which no reader may rely. Readers find the old content or the new."""
        self.warehouse.ask(StorageOperation.WRITE, path, lambda store, place: store.replace(place, content))

    def delete(self, path: str) -> None:
        """Delete a file. A missing file is not an error."""
        with contextlib.suppress(FileMissingError):
            self.warehouse.ask(StorageOperation.DELETE, path, lambda store, place: store.delete(place))

    def files_below(self, directory: str) -> list[str]:
        """List the paths of all files below a directory, at any depth. Links count as files."""
        paths: list[str] = []
        pending = [directory]
        while pending:
            parent = pending.pop()
            for name, is_directory in self.warehouse.entries(parent):
                (pending if is_directory else paths).append(f"{parent}/{name}")
        return paths

    def _has_content(self, path: str, content: bytes) -> bool:
        try:
            return self.warehouse.read(path) == content
        except FileMissingError:
            return False

"""Writing into a warehouse: files that are made once and never overwritten, and hints, which may be.

The service writes to its shared cache alone, only jobs to warehouses. Nobody finds a part of a file, and of
several writers of one name exactly one succeeds.
"""

from __future__ import annotations

import contextlib

from app.errors import FileMissingError
from app.observation import StorageOperation
from app.storage.warehouse import Warehouse


class Writing:
    """Writes below the root of a warehouse, and below its external roots.

    Every call may raise PathNotAllowedError (the path leaves these) and StorageError (after retries).
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file under a name that no file has. False: another file has its name.

        A call whose answer got lost may have written: a file that is there and has just this content is taken
        for that of this call. Who needs to know who wrote it puts something random into the content.

        Raises:
            SettingsError: the library of this store cannot create a file only if there is none.
            StorageError: storage failed, after retries. The file may be there, or may still come to be.
        """
        is_new = self.warehouse.ask(
            StorageOperation.WRITE, path, lambda store, place: store.create(place, content)
        )
        return is_new or self._holds(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Writes a file whether or not there is one of that name; readers find the old one or the new one.

        Only for hints, which nobody relies on.
        """
        self.warehouse.ask(StorageOperation.WRITE, path, lambda store, place: store.replace(place, content))

    def delete(self, path: str) -> None:
        """Deletes a file; one that is not there is deleted already."""
        with contextlib.suppress(FileMissingError):
            self.warehouse.ask(StorageOperation.DELETE, path, lambda store, place: store.delete(place))

    def files_below(self, directory: str) -> list[str]:
        """Paths of every file below a directory, at any depth; links are files."""
        paths: list[str] = []
        waiting = [directory]
        while waiting:
            parent = waiting.pop()
            for name, is_directory in self.warehouse.entries(parent):
                (waiting if is_directory else paths).append(f"{parent}/{name}")
        return paths

    def _holds(self, path: str, content: bytes) -> bool:
        try:
            return self.warehouse.read(path) == content
        except FileMissingError:
            return False

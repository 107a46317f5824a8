"""What the upkeep of a warehouse needs beyond reading: directories with sizes and times, and deletion.

No part of the service deletes: only commands that were told to do so make a :class:`Maintenance`.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from app.errors import FileMissingError, PathNotAllowedError, StorageError
from app.observation import StorageOperation
from app.storage.locations import Root, is_absolute_uri
from app.storage.warehouse import Warehouse

# What the storage libraries call the time of the last change: local files, object stores, memory.
_MODIFIED_MEMBERS = ("mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file as a listing shows it.

    Attributes:
        path: relative to the warehouse.
        size: its bytes.
        modified: when it was last written, by the clock of the storage; with a time zone.
    """

    path: str
    size: int
    modified: dt.datetime

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Contents:
    """What lies right below a directory, sorted by name.

    Attributes:
        files: the files; a link is one, whatever it leads to.
        directories: paths of the directories, relative to the warehouse.
    """

    files: tuple[StoredFile, ...] = ()
    directories: tuple[str, ...] = ()


class Maintenance:
    """Lists and deletes what lies below the root of a warehouse, never what lies in an external root.

    Args:
        warehouse: reads the same files; its checks of paths and its retries hold here as well.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def contents(self, directory: str) -> Contents:
        """What lies right below a directory; nothing if it is not there, as in an object store.

        Raises:
            PathNotAllowedError: the path leaves the warehouse.
            StorageError: storage failed, after retries, or does not tell when files were written.
        """
        root, place = self._locate(directory)
        parent = place.strip("/")

        def attempt() -> list[dict[str, Any]]:
            return list(root.ask("ls", place, detail=True))

        try:
            found = self.warehouse.retry.call(directory, attempt, kind=StorageOperation.LIST)
        except FileMissingError:
            return Contents()
        files, directories = [], []
        for entry in sorted(found, key=lambda entry: str(entry["name"])):
            above, _, name = str(entry["name"]).strip("/").rpartition("/")
            # An object store may list the directory's own marker object as well.
            if above != parent:
                continue
            path = f"{directory}/{name}"
            if entry["type"] == "directory":
                directories.append(path)
            else:
                files.append(StoredFile(path, int(entry["size"] or 0), _modified(entry, path)))
        return Contents(tuple(files), tuple(directories))

    def walk(self, directory: str) -> list[str]:
        """Paths of every file below a directory, at any depth; links are not followed.

        A file that goes away while its directory is listed is among them: who reads it will see.

        Raises:
            PathNotAllowedError: the path leaves the warehouse.
            StorageError: storage failed, after retries, or does not tell when files were written.
        """
        paths: list[str] = []
        waiting = [directory]
        while waiting:
            place = waiting.pop()
            # A library that asks for sizes after names leaves out what goes away in between.
            names = {f"{place}/{name}" for name in self.warehouse.list_names(place)}
            found = self.contents(place)
            paths += sorted(names.union(file.path for file in found.files).difference(found.directories))
            waiting += reversed(found.directories)
        return paths

    def delete(self, path: str) -> None:
        """Deletes one file.

        Raises:
            PathNotAllowedError: the path leaves the warehouse.
            FileMissingError: there is no such file; object stores do not tell.
            StorageError: storage failed, after retries.
        """
        root, place = self._locate(path)
        self.warehouse.retry.call(path, lambda: root.ask("rm_file", place), kind=StorageOperation.DELETE)

    def _locate(self, path: str) -> tuple[Root, str]:
        """The root that holds ``path``, and its path inside of that root's filesystem."""
        if is_absolute_uri(path):
            raise PathNotAllowedError(f"{path} is no path inside of the warehouse", path=path)
        return self.warehouse.locate(path)


def _modified(entry: dict[str, Any], path: str) -> dt.datetime:
    written = next((entry[member] for member in _MODIFIED_MEMBERS if entry.get(member) is not None), None)
    try:
        found = dt.datetime.fromtimestamp(written, dt.UTC) if isinstance(written, int | float) else written
    except (ValueError, OverflowError, OSError) as error:
        raise StorageError(f"{path} was written at an impossible time: {written}", path=path) from error
    if not isinstance(found, dt.datetime):
        raise StorageError(f"storage does not tell when {path} was written", path=path)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)

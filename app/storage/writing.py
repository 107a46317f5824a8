"""Writing into a warehouse: files that are made once and never overwritten, and hints, which may be.

No part of the service writes: only jobs make a :class:`Writing`.

A file of this machine is written under a name of its own and then linked to its final one, which fails where
that is taken. An object store is asked to put the object only if there is none of that name, on S3 and Azure
by ``If-None-Match``. Either way nobody finds a part of a file, and of several writers of one name exactly
one succeeds.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import secrets
from pathlib import Path
from typing import Any, Final

from app.errors import FileMissingError, SettingsError
from app.observation import StorageOperation
from app.storage.failures import failure_of
from app.storage.locations import Root
from app.storage.warehouse import Warehouse

_TAKEN: Final = "HTTP 412"
"""Of HTTP stores: the condition that there be no such object does not hold."""


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
        root, place = self.warehouse.locate(path)
        is_new = self.warehouse.retry.call(
            path, lambda: _create(root, place, content), kind=StorageOperation.WRITE
        )
        return is_new or self._holds(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Writes a file whether or not there is one of that name; readers find the old one or the new one.

        Only for hints, which nobody relies on.
        """
        root, place = self.warehouse.locate(path)
        put = _replace_locally if root.uri_is_local else _replace_object
        self.warehouse.retry.call(path, lambda: put(root, place, content), kind=StorageOperation.WRITE)

    def delete(self, path: str) -> None:
        """Deletes a file; one that is not there is deleted already."""
        root, place = self.warehouse.locate(path)
        with contextlib.suppress(FileMissingError):
            self.warehouse.retry.call(path, lambda: root.ask("rm_file", place), kind=StorageOperation.DELETE)

    def files_below(self, directory: str) -> list[str]:
        """Paths of every file below a directory, at any depth; links are files."""
        paths: list[str] = []
        waiting = [directory]
        while waiting:
            parent = waiting.pop()
            for name, is_directory in self._list(parent):
                (waiting if is_directory else paths).append(f"{parent}/{name}")
        return paths

    def _list(self, directory: str) -> list[tuple[str, bool]]:
        """What lies right below a directory: names, and whether each is a directory's."""
        root, place = self.warehouse.locate(directory)
        try:
            entries: list[dict[str, Any]] = self.warehouse.retry.call(
                directory, lambda: list(root.ask("ls", place, detail=True)), kind=StorageOperation.LIST
            )
        except FileMissingError:
            return []
        paths = [(str(entry["name"]).strip("/"), entry["type"] == "directory") for entry in entries]
        # An object store may list the directory's own marker object as well.
        parent = f"{place.strip('/')}/"
        return [(path.removeprefix(parent), is_one) for path, is_one in paths if path.startswith(parent)]

    def _holds(self, path: str, content: bytes) -> bool:
        try:
            return self.warehouse.read(path) == content
        except FileMissingError:
            return False


def _create(root: Root, place: str, content: bytes) -> bool:
    if root.uri_is_local:
        return _create_locally(place, content)
    if root.is_hadoop:
        return _create_by_renaming(root, place, content)
    return _create_object(root, place, content)


def _create_locally(place: str, content: bytes) -> bool:
    path = Path(place)
    draft = _draft(path, content)
    try:
        # A link, unlike a rename, fails where the name is taken.
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    sync_directory(path.parent)
    return True


def _replace_locally(_root: Root, place: str, content: bytes) -> bool:
    path = Path(place)
    _draft(path, content).replace(path)
    sync_directory(path.parent)
    return True


def _draft(path: Path, content: bytes) -> Path:
    """A file beside ``path`` with all of the content on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft


def sync_directory(directory: Path) -> None:
    """Has the names of a directory's files on the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _create_object(root: Root, place: str, content: bytes) -> bool:
    parameters = _put_parameters(root.filesystem)
    if "mode" in parameters:
        condition: dict[str, object] = {"mode": "create"}
    elif "overwrite" in parameters:
        # As adlfs has it.
        condition = {"overwrite": False}
    else:
        name = type(root.filesystem).__name__
        raise SettingsError(
            f"{root.uri} cannot be committed to: its library ({name}) has no way to create a file only if "
            f"there is none"
        )
    try:
        root.ask("pipe_file", place, **{parameters[1]: content, **condition})
    except FileExistsError:
        return False
    except Exception as error:
        if _TAKEN in failure_of(error):
            return False
        raise
    return True


def _create_by_renaming(root: Root, place: str, content: bytes) -> bool:
    """As the engine commits to HDFS: of several that rename to one name, the name node lets one succeed."""
    directory, _, name = place.rpartition("/")
    draft = f"{directory}/.{name}.{secrets.token_hex(8)}.tmp"
    root.ask("pipe_file", draft, value=content)
    try:
        root.filesystem.client.rename(draft, place, False)  # noqa: FBT003 - the library names it not
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            root.ask("rm_file", draft)
    return True


def _replace_object(root: Root, place: str, content: bytes) -> bool:
    root.ask("pipe_file", place, **{_put_parameters(root.filesystem)[1]: content})
    return True


def _put_parameters(filesystem: Any) -> list[str]:
    """Parameters of what puts an object: path, content (which libraries name differently), and others."""
    is_asynchronous = filesystem.async_impl
    method = filesystem._pipe_file if is_asynchronous else filesystem.pipe_file  # noqa: SLF001 - fsspec's way
    return list(inspect.signature(method).parameters)

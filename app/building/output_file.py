"""Writing a file so that nobody ever finds a part of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from app.errors import RequestError, StorageError


def write_file(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Writes a file under its final name once all of it is on the disk.

    Args:
        path: where to; its directory exists.
        content: all of the file.
        replace: whether a file that is there already may be replaced.

    Raises:
        RequestError: there is such a file already.
        StorageError: it cannot be written; nothing new is left behind.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _publish(draft, path, replace=replace)
        _sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", path=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _publish(draft: Path, path: Path, *, replace: bool) -> None:
    if replace:
        draft.replace(path)
        return
    try:
        # A link, unlike a rename, fails where the name is taken.
        path.hardlink_to(draft)
    except FileExistsError as error:
        raise RequestError(f"{path} exists: choose another name, or allow to replace it") from error


def _sync_directory(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

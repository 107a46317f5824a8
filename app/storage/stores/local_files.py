"""Files of this machine. Opens regular files only.

A pipe without a writer would hold a thread for ever, a device may have no end, and links could lead anywhere.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import ClassVar

from typing_extensions import override

from app.errors import FileMissingError, PathNotAllowedError
from app.storage.stores.store import Store, StoredFile

# Longest path in bytes; each part of a longer one would be checked for links in vain.
_LONGEST_PATH = 4095


class IrregularFileError(OSError):
    """A pipe, socket or device in place of a file."""


@contextmanager
def opened(path: str | Path, flags: int = 0) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file. Yield its descriptor and status.

    Raises IsADirectoryError, IrregularFileError for any other file that is not regular, or another OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        status = os.fstat(descriptor)
        if S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not S_ISREG(status.st_mode):
            raise IrregularFileError(errno.EINVAL, "expected a regular file", str(path))
        yield descriptor, status
    finally:
        os.close(descriptor)


def content(path: str | Path, most: int | None = None) -> bytes:
    """Read a regular file, or its first ``most`` bytes."""
    with opened(path) as (descriptor, _), os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read() if most is None else file.read(most)


class LocalFiles(Store):
    """Files below a directory of this machine, given without a slash at its end.

    Writes go to a draft, which is linked to the final name once it is on the disk: a link, unlike a rename,
    fails if the name is taken.
    """

    is_local: ClassVar[bool] = True

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._home = os.path.realpath(directory or "/").rstrip("/")
        self.has_databases = False
        """True if callers' rights follow the top directory of a path, which no link may leave then."""

    def path_of(self, path: str) -> str:
        """Return the absolute path of a file or directory."""
        place = f"{self._directory}/{path}" if path else self._directory or "/"
        if len(place.encode(errors="surrogatepass")) > _LONGEST_PATH:
            raise FileMissingError(f"there is no file {path}: its name is too long", path=path)
        # Resolving links costs more than reading a small file, and hardly any path has one.
        if self._has_link(path):
            home = os.path.realpath(self._directory or "/")
            top = os.path.join(home, path.partition("/")[0]) if self.has_databases else home  # noqa: PTH118 - text
            if os.path.commonpath((os.path.realpath(place), top)) != top:
                raise PathNotAllowedError(
                    f"{path!r} is a link that leads out of its root or database: links may lead to places in "
                    f"the same database",
                    path=path,
                )
            if _is_loop(place):
                raise PathNotAllowedError(f"{path!r} is a link that leads to itself", path=path)
        return place

    def _has_link(self, path: str) -> bool:
        place = self._directory
        for segment in path.split("/"):
            place = f"{place}/{segment}"
            if os.path.islink(place):  # noqa: PTH114 - text in, text out
                return True
        return False

    @override
    def read(self, path: str, start: int, end: int) -> bytes:
        place = f"{self._directory}/{path}"
        try:
            with opened(place) as (descriptor, status):
                # Checks for links only if the open file is not at its path.
                if _path_of(descriptor) != f"{self._home}/{path}":
                    self.path_of(path)
                missing = min(end, status.st_size) - start
                parts = []
                while missing > 0 and (part := os.pread(descriptor, missing, start)):
                    parts.append(part)
                    start += len(part)
                    missing -= len(part)
        except OSError:
            self.path_of(path)
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, path: str, buffer: memoryview) -> int:
        """Fill a buffer from the start of a file. Return the number of bytes."""
        at = 0
        with opened(self.path_of(path)) as (descriptor, _):
            while at < len(buffer) and (count := os.preadv(descriptor, [buffer[at:]], at)):
                at += count
        return at

    @override
    def entries(self, path: str) -> list[tuple[str, bool]]:
        with os.scandir(self.path_of(path)) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]

    @override
    def files(self, path: str) -> list[StoredFile]:
        with os.scandir(self.path_of(path)) as entries:
            statuses = [
                (entry.name, entry.stat()) for entry in entries if entry.is_file(follow_symlinks=False)
            ]
        return [
            StoredFile(name, status.st_size, dt.datetime.fromtimestamp(status.st_mtime, dt.UTC))
            for name, status in statuses
        ]

    @override
    def size(self, path: str) -> int:
        status = os.stat(self.path_of(path))  # noqa: PTH116 - text in, text out
        return 0 if S_ISDIR(status.st_mode) else status.st_size

    @override
    def has_root(self) -> bool:
        return os.path.exists(self.path_of(""))  # noqa: PTH110 - text in, text out

    @override
    def create(self, path: str, content: bytes) -> bool:
        place = Path(self.path_of(path))
        draft = _draft(place, content)
        try:
            place.hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        sync_directory(place.parent)
        return True

    @override
    def replace(self, path: str, content: bytes) -> None:
        place = Path(self.path_of(path))
        _draft(place, content).replace(place)
        sync_directory(place.parent)

    @override
    def delete(self, path: str) -> None:
        os.unlink(self.path_of(path))  # noqa: PTH108 - text in, text out


def _path_of(descriptor: int) -> str:
    """Return the path of an open file with all links resolved, or an empty one if unknown."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - text in, text out
    except OSError:
        return ""


def _is_loop(place: str) -> bool:
    try:
        os.stat(place)  # noqa: PTH116 - text in, text out
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _draft(path: Path, content: bytes) -> Path:
    """Write a file next to ``path``, and sync its content to disk."""
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
    """Flush a directory, so that new names in it survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

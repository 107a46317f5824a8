"""Opening files of this machine: none but regular ones, and nobody waits for what lies in a file's place.

A pipe without a writer holds whoever opens it for ever, and a device may have no end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG


class IrregularFileError(OSError):
    """A pipe, socket or device lies where a file is expected."""


@contextmanager
def opened(path: str | Path, flags: int = 0) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor for reading a regular file, and what the system says of the file.

    Raises:
        IsADirectoryError: it is a directory.
        IrregularFileError: it is something else that is no regular file.
        OSError: it cannot be opened.
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
    """The first ``most`` bytes of a regular file, or all of it."""
    with opened(path) as (descriptor, _), os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read() if most is None else file.read(most)

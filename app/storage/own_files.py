"""Files that this user wrote, opened again; whatever lies there by now, nobody waits for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from stat import S_ISREG

MODE = 0o400
"""Who opens a file by its name cannot write to it, and so cannot cut what is mapped."""


@contextmanager
def opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of a file, and what the system says of it.

    Raises:
        FileNotFoundError: there is none, or it is no plain file, or belongs to somebody else.
        OSError: it cannot be opened.
    """
    # A pipe without a writer would be waited for, and a link may lead anywhere.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise FileNotFoundError(f"{path} is no file of this user")
        yield descriptor, status
    finally:
        os.close(descriptor)

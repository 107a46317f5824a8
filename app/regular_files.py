"""Files of this machine: none but regular ones are opened, nobody waits for what lies in a file's place.

A pipe without a writer holds whoever opens it for ever, and a device may have no end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Self

import numpy as np
import pyarrow as pa


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


class MappedBytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a file, shape (n,), mapped for as long as an array is held that was made of them.

    What weighs arrays knows them by this class.

    Python's own mappings each keep a descriptor open, at least until 3.13. A process may have no more than
    1,024, and where it has threads the kernel takes 10 ms and more to make room for twice as many.
    """

    @classmethod
    def map(cls, descriptor: int) -> Self:
        """Maps a file that is open, which may be closed then.

        Raises:
            OSError: it cannot be mapped.
            ValueError: it is empty.
        """
        # By its name, another file could be there by now.
        with pa.memory_map(f"/dev/fd/{descriptor}") as file:
            # The kernel is told to read ahead what is taken, which must not be what nobody asks for.
            first, size = file.read_buffer(1), file.size()
        # NumPy would leave out this class as the base of an array that is made of a view.
        return cls((size,), np.uint8, pa.foreign_buffer(first.address, size, first))

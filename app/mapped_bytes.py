"""Bytes of mapped files: storage maps them, and what weighs arrays knows them by their class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pyarrow as pa


class MappedBytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a file, shape (n,), mapped for as long as an array is held that was made of them.

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

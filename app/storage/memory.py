"""Memory that a process holds without using it, and memory that it uses again."""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# Only the allocator of GNU's C library has it; others return memory by themselves.
_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_memory_back() -> None:
    """Has the allocator return what it holds of memory that was freed.

    After large files were decoded on several threads that may be as much again as what is kept of them.
    """
    if _TRIM is not None:
        _TRIM(0)


class Scratch:
    """Buffers for large files that are decoded at once, and not needed afterwards.

    Memory that a process has not used before can take longer to get than a file takes to read. So a buffer
    that is given back serves the next file, as long as others are still in use; nothing is held in between.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[NDArray[np.uint8]] = []
        self._in_use = 0

    @contextmanager
    def buffer(self, size: int) -> Iterator[memoryview]:
        """``size`` bytes to write to; nobody may look at them after the block."""
        with self._lock:
            self._in_use += 1
            fitting = [at for at, each in enumerate(self._free) if len(each) >= size]
            found = self._free.pop(fitting[0]) if fitting else None
        try:
            if found is None:
                found = np.empty(size, np.uint8)
            yield found[:size].data
        finally:
            with self._lock:
                self._in_use -= 1
                if found is not None:
                    self._free.append(found)
                if not self._in_use:
                    self._free.clear()

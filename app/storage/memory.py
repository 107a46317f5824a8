"""Memory that a process holds without using it."""

from __future__ import annotations

import ctypes
from typing import Final

# Only the allocator of GNU's C library has it; others return memory by themselves.
_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_memory_back() -> None:
    """Has the allocator return what it holds of memory that was freed.

    After large files were decoded on several threads that may be as much again as what is kept of them.
    """
    if _TRIM is not None:
        _TRIM(0)

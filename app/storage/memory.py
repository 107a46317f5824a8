"""Memory that a process holds without using it, and memory that it uses again."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Only the allocator of GNU's C library has it; others return memory by themselves.
_C_LIBRARY: Final = ctypes.CDLL(None)
_TRIM: Final = getattr(_C_LIBRARY, "malloc_trim", None)
_SET_OPTION: Final = getattr(_C_LIBRARY, "mallopt", None) if _TRIM is not None else None
_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
# More than the Avro reader's buffer of 4 MiB for each file; what a large table keeps is returned at once.
_OWN_MAPPING_BYTES: Final = 5 << 20
# As much as threads free while they decode manifests side by side.
_KEPT_FREE_BYTES: Final = 128 << 20
_SWITCH_SECONDS: Final = 0.001
_STATM: Final = Path("/proc/self/statm")
# New objects until the youngest are looked at; and how often until older ones are, too.
_GARBAGE_AFTER: Final = (20_000, 20, 20)


def prepare_process() -> None:
    """Sets a process up for serving: many threads, much memory, and an event loop that has to answer.

    * The allocator keeps what threads freed in arenas, by default eight a core, each with holes of its own.
    * It returns large pieces at once, and gets them anew for the next file, page by page: that can take half
      of the time in which a manifest is decoded. Here it keeps them until :func:`give_memory_back`.
    * Arrow brings an allocator of its own, which keeps what threads freed, and cannot be told to return it.
    * The event loop waits for its turn as long as another thread may run: by default 5 ms, many times over.
    * What was made while starting stays, so that looking for garbage need not look at it.
    * Looking for garbage stops all threads. By default it happens after 700 new objects, and long filters and
      answers make many; nearly all memory is returned without it.
    """
    if _SET_OPTION is not None:
        _SET_OPTION(_ARENA_MAX, max(2, os.cpu_count() or 1))
        _SET_OPTION(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        _SET_OPTION(_TRIM_THRESHOLD, _KEPT_FREE_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_AFTER)


def give_memory_back() -> None:
    """Has the allocator return what it holds of memory that was freed.

    After large files were decoded on several threads that may be as much again as what is kept of them.
    """
    if _TRIM is not None:
        _TRIM(0)


def resident_bytes() -> int:
    """Memory that this process alone holds in the machine's memory; 0 where the system does not tell.

    Pages of mapped files do not count: the system takes them back when it needs memory.
    """
    try:
        _, resident, of_files, *_ = map(int, _STATM.read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")


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

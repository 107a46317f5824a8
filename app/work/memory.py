"""Memory of this process: how much it may use, what it holds without using it, and what it uses again.

It may use what its control groups and its own limits allow, or what the machine has. Its own limit on what it
maps (``RLIMIT_AS``, ``ulimit -v``) is in ``/proc/self/limits``, and counts what is reserved and never used as
well, such as stacks of threads, arenas of allocators and files of libraries.

Control groups nest, and each of them bounds those inside of it. Linux shows them in two forms:

========= ============================= ==========================================================
version   line of ``/proc/self/cgroup`` files of a group that bound its memory
========= ============================= ==========================================================
1         ``4:memory:/outer/inner``     ``memory.limit_in_bytes``; unlimited is a number near 2^63
2         ``0::/outer/inner``           ``memory.max``, ``memory.high``; unlimited is ``max``
========= ============================= ==========================================================

Where a hierarchy is mounted, and which of its groups is at the mount point (in a container often not the
outermost), says ``/proc/self/mountinfo``.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

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
_PROCESSES: Final = Path("/proc")

HELPERS: Final[dict[str, None]] = {}
"""Numbers of processes that work for this one, whose memory counts as its own; the values are not used."""
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
    """Memory that this process and its helpers have in the machine's; 0 where the system does not tell.

    Pages of mapped files do not count: the system takes them back when it needs memory.
    """
    return sum(map(resident_bytes_of, ("self", *HELPERS)))


def resident_bytes_of(process: str) -> int:
    """As :func:`resident_bytes`, of the process of a number alone."""
    try:
        _, resident, of_files, *_ = map(int, (_PROCESSES / process / "statm").read_text().split())
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
            fitting = [at for at, piece in enumerate(self._free) if len(piece) >= size]
            taken = self._free.pop(fitting[0]) if fitting else None
        try:
            if taken is None:
                taken = np.empty(size, np.uint8)
            yield taken[:size].data
        finally:
            with self._lock:
                self._in_use -= 1
                if taken is not None:
                    self._free.append(taken)
                if not self._in_use:
                    self._free.clear()


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


_SYSTEM: Final = Path("/")
_FILES: Final = {"cgroup": ("memory.limit_in_bytes",), "cgroup2": ("memory.max", "memory.high")}
_ADDRESS_SPACE: Final = "Max address space"
_RESERVED_BYTES: Final = 1 << 30
"""Of the address space, beside the memory that is used."""
_ASSUMED_BYTES: Final = 4 << 30
"""Where the system does not tell, as on systems other than Linux."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A bound on the memory of this process and of those beside it in its group."""

    bytes: int
    source: str

    @classmethod
    def detect(cls, system: Path = _SYSTEM) -> MemoryLimit:
        """The smallest of all bounds."""
        machine = cls(_machine_bytes(system), "the machine's memory")
        return min((machine, *_own_limit(system), *_group_limits(system)), key=lambda limit: limit.bytes)


def _machine_bytes(system: Path) -> int:
    for line in _lines(system / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) << 10
    return _ASSUMED_BYTES


def _own_limit(system: Path) -> Iterator[MemoryLimit]:
    for line in _lines(system / "proc/self/limits"):
        if line.startswith(_ADDRESS_SPACE):
            soft = line.removeprefix(_ADDRESS_SPACE).split()[0]
            if soft.isdecimal():
                left = max(0, int(soft) - _RESERVED_BYTES)
                yield MemoryLimit(left, f"RLIMIT_AS less {_RESERVED_BYTES} bytes that are only reserved")


def _group_limits(system: Path) -> Iterator[MemoryLimit]:
    for kind, group in _groups(system):
        for top, mount_point in _mounts(system, kind):
            # What lies outside of the group that is mounted cannot be seen from here.
            inside = group.relative_to(top) if group.is_relative_to(top) else PurePosixPath()
            for directory in (inside, *inside.parents):
                for name in _FILES[kind]:
                    path = mount_point / directory / name
                    for line in _lines(system / str(path).lstrip("/"))[:1]:
                        if line.strip().isdecimal():
                            yield MemoryLimit(int(line), str(path))


def _groups(system: Path) -> Iterator[tuple[str, PurePosixPath]]:
    """The groups that this process is in: the kind of hierarchy, and the path in it."""
    for line in _lines(system / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield "cgroup2", PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield "cgroup", PurePosixPath(path)


def _mounts(system: Path, kind: str) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
    """Where hierarchies of a kind are mounted: the group at the mount point, and that place."""
    for line in _lines(system / "proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        top, mount_point = left.split()[3:5]
        filesystem, _, options = right.split(" ", 2)
        if filesystem == kind and (kind == "cgroup2" or "memory" in options.split()[-1].split(",")):
            yield PurePosixPath(top), PurePosixPath(mount_point)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []

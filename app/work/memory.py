"""Memory of this process: its limit, its resident size, and buffers that are reused.

The limit is the least of its control groups, its own limit and the machine's memory. The own limit
(``RLIMIT_AS``, ``ulimit -v``) counts reserved memory as well, such as stacks, arenas and mapped libraries.
Control groups nest, and each bounds those inside it. Linux has two versions:

========= ============================= ==========================================================
version   line of ``/proc/self/cgroup`` files of a group that bound its memory
========= ============================= ==========================================================
1         ``4:memory:/outer/inner``     ``memory.limit_in_bytes``; unlimited is a number near 2^63
2         ``0::/outer/inner``           ``memory.max``, ``memory.high``; unlimited is ``max``
========= ============================= ==========================================================

``/proc/self/mountinfo`` has the mount point of each hierarchy and the group mounted there, which in a
container is often not the outermost one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
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

# Only glibc has this function. Other allocators return memory by themselves.
_C_LIBRARY: Final = ctypes.CDLL(None)
_TRIM: Final = getattr(_C_LIBRARY, "malloc_trim", None)
_SET_OPTION: Final = getattr(_C_LIBRARY, "mallopt", None) if _TRIM is not None else None
_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
# More than the Avro reader's buffer of 4 MiB per file; arrays of a large table get mappings of their own.
_OWN_MAPPING_BYTES: Final = 5 << 20
# Threads free about this much while they decode manifests in parallel.
_KEPT_FREE_BYTES: Final = 128 << 20
_SWITCH_SECONDS: Final = 0.001
_PROCESSES: Final = Path("/proc")
_RESIDENT: Final = re.compile(rb"^(VmRSS|RssAnon|RssShmem):\s*(\d+) kB$", re.MULTILINE)

HELPERS: Final[dict[str, None]] = {}
"""Process ids of workers of this process, whose memory counts as its own; the values are not used."""
# Allocations before a collection of the youngest generation, and collections before one of the next.
_GARBAGE_AFTER: Final = (20_000, 20, 20)

_SYSTEM: Final = Path("/")
_FILES: Final = {"cgroup": ("memory.limit_in_bytes",), "cgroup2": ("memory.max", "memory.high")}
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_ADDRESS_SPACE: Final = "Max address space"
# Address space that is reserved besides memory in use.
_RESERVED_BYTES: Final = 1 << 30
# Assumed if the system does not say, as on systems other than Linux.
_ASSUMED_BYTES: Final = 4 << 30


def prepare_process() -> None:
    """Tune a process for serving: many threads, much memory, and an event loop that has to answer."""
    if _SET_OPTION is not None:
        # The default is eight arenas per core, each of which keeps freed memory.
        _SET_OPTION(_ARENA_MAX, max(2, os.cpu_count() or 1))
        # Returning large blocks and allocating them again, page by page, can take half of the time to decode
        # a manifest: they are kept until give_memory_back.
        _SET_OPTION(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        _SET_OPTION(_TRIM_THRESHOLD, _KEPT_FREE_BYTES)
    # Arrow's own allocator keeps freed memory, and has no call that returns it.
    pa.set_memory_pool(pa.system_memory_pool())
    # By default the event loop waits 5 ms for each thread that runs before it.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Objects made at the start live as long as the process, so the collector need not visit them.
    gc.collect()
    gc.freeze()
    # A collection stops all threads. A long filter exceeds the default of 700 allocations many times.
    gc.set_threshold(*_GARBAGE_AFTER)


def give_memory_back() -> None:
    """Return freed memory to the system. After large files it can be as much as is in use."""
    if _TRIM is not None:
        _TRIM(0)


def resident_bytes() -> int:
    """Return resident bytes of this process and its helpers, without mapped files. 0 if unknown."""
    return sum(map(resident_bytes_of, ("self", *HELPERS)))


def resident_bytes_of(process: str) -> int:
    """Return bytes resident in one process, by its id. 0 if unknown."""
    try:
        counts = dict(_RESIDENT.findall((_PROCESSES / process / "status").read_bytes()))
    except OSError:
        return 0
    # Pages of files in memory count: the system cannot reclaim them. Some sandboxes count no kinds of pages.
    kinds = (b"RssAnon", b"RssShmem") if b"RssAnon" in counts else (b"VmRSS",)
    return sum(int(counts.get(kind, 0)) for kind in kinds) << 10


class Scratch:
    """Buffers for decoding large files, reused while any is in use, and freed then.

    Getting memory that the process has not used before can take longer than reading the file.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[NDArray[np.uint8]] = []
        self._in_use = 0

    @contextmanager
    def buffer(self, size: int) -> Iterator[memoryview]:
        """Lend ``size`` bytes for the block. They must not be used after it."""
        with self._lock:
            self._in_use += 1
            fitting = [at for at, piece in enumerate(self._free) if len(piece) >= size]
            lent = self._free.pop(fitting[0]) if fitting else None
        try:
            if lent is None:
                lent = np.empty(size, np.uint8)
            yield lent[:size].data
        finally:
            with self._lock:
                self._in_use -= 1
                if lent is not None:
                    self._free.append(lent)
                if not self._in_use:
                    self._free.clear()


class MappedBytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a mapped file, shape (n,). The mapping lives as long as any array over it.

    A separate class, so that weights of arrays leave mapped bytes out. Python's mappings keep a descriptor
    open, at least until 3.13, and a process may have only 1,024.
    """

    @classmethod
    def map(cls, descriptor: int) -> Self:
        """Map an open file, which may be closed then. Raises OSError, or ValueError if it is empty."""
        # By descriptor: another file may have taken the name.
        with pa.memory_map(f"/dev/fd/{descriptor}") as file:
            # Arrow has the kernel prefetch the buffer that is read: one byte, not the whole file.
            first, size = file.read_buffer(1), file.size()
        # NumPy takes the owner of a view as its base, and so would skip this class.
        return cls((size,), np.uint8, pa.foreign_buffer(first.address, size, first))


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit on the memory of this process, and of others in its group."""

    bytes: int
    source: str

    @classmethod
    def detect(cls, system: Path = _SYSTEM) -> MemoryLimit:
        """Return the smallest of all limits."""
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
                usable = max(0, int(soft) - _RESERVED_BYTES)
                yield MemoryLimit(usable, f"RLIMIT_AS less {_RESERVED_BYTES} bytes that are only reserved")


def _group_limits(system: Path) -> Iterator[MemoryLimit]:
    for kind, group in _groups(system):
        for top, mount_point in _mounts(system, kind):
            # Groups above the one at the mount point cannot be seen from here.
            inside = group.relative_to(top) if group.is_relative_to(top) else PurePosixPath()
            for directory in (inside, *inside.parents):
                for name in _FILES[kind]:
                    path = mount_point / directory / name
                    for line in _lines(system / str(path).lstrip("/"))[:1]:
                        if line.strip().isdecimal():
                            yield MemoryLimit(int(line), str(path))


def _groups(system: Path) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield this process's groups: the kind of hierarchy, and the path in it."""
    for line in _lines(system / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield "cgroup2", PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield "cgroup", PurePosixPath(path)


def _mounts(system: Path, kind: str) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
    """Yield mounts of a kind of hierarchy: the group at the mount point, and the mount point."""
    for line in _lines(system / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        top, mount_point = before.split()[3:5]
        filesystem, _, options = after.split(" ", 2)
        if filesystem == kind and (kind == "cgroup2" or "memory" in options.split()[-1].split(",")):
            yield PurePosixPath(top), PurePosixPath(mount_point)


def is_in_memory(path: str, system: Path = _SYSTEM) -> bool:
    """Return True if the files of a directory take memory, as those of tmpfs do."""
    device = os.stat(path).st_dev  # noqa: PTH116 - text in, text out
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = (line.partition(" - ") for line in _lines(system / "proc/self/mountinfo"))
    return any(
        before.split()[2] == number and after.split()[0] in _IN_MEMORY for before, _, after in mounts if after
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []

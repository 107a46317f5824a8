"""How much memory this process may use: what its groups and its own limits allow, or what the machine has.

What a process may map at most (``RLIMIT_AS``, ``ulimit -v``) is in ``/proc/self/limits``. It counts what is
reserved and never used as well, such as stacks of threads, arenas of allocators and files of libraries.

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

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

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
            for each in (inside, *inside.parents):
                for name in _FILES[kind]:
                    path = mount_point / each / name
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
        found, _, options = right.split(" ", 2)
        if found == kind and (kind == "cgroup2" or "memory" in options.split()[-1].split(",")):
            yield PurePosixPath(top), PurePosixPath(mount_point)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []

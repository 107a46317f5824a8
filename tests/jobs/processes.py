"""Other processes of this machine, as tests find them to end them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")


def writing_end(pipe: Path) -> int:
    """Opens a pipe once somebody reads it."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise


def holders(path: Path) -> set[int]:
    """Processes that have a file open."""
    found = set()
    for descriptor in _PROCESSES.glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == path:
                found.add(int(descriptor.parts[2]))
    return found


def command(process: int) -> bytes:
    """The words that a process was started with."""
    return (_PROCESSES / str(process) / "cmdline").read_bytes()


def parent(process: int) -> int:
    """The process that has started a process."""
    status = (_PROCESSES / str(process) / "status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def seconds_computed(process: int) -> float:
    """The time that processors have spent on a process."""
    stat = (_PROCESSES / str(process) / "stat").read_text()
    # The name of the program stands in parentheses, and may have any characters. See proc_pid_stat(5).
    fields = stat.rpartition(")")[2].split()
    in_user_mode, in_kernel_mode = int(fields[11]), int(fields[12])
    return (in_user_mode + in_kernel_mode) / os.sysconf("SC_CLK_TCK")


def ancestors(process: int) -> Iterator[int]:
    """A process, the one that has started it, and so on."""
    while process > 1:
        yield process
        process = parent(process)


def descendants(process: int) -> Iterator[int]:
    """The processes that a process has started, and those that these have."""
    for directory in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            other = int(directory.name)
            if other != process and process in ancestors(other):
                yield other

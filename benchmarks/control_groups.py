"""Control groups that bound memory as containers do, of version 1 or 2; the superuser makes them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.02
_END_SECONDS: Final = 10.0
_numbers: Final = count()


@dataclass(frozen=True, slots=True)
class _Files:
    """How a version calls what a group has; ``room`` are the counts of memory that cannot be given back."""

    parent: Path
    limit: str
    peak: str
    kills: str
    room: tuple[str, ...]


_VERSIONS: Final = (
    _Files(
        Path("/sys/fs/cgroup/memory"),
        "memory.limit_in_bytes",
        "memory.max_usage_in_bytes",
        "memory.oom_control",
        ("rss", "shmem"),
    ),
    _Files(Path("/sys/fs/cgroup"), "memory.max", "memory.peak", "memory.events", ("anon", "shmem")),
)


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group, and all processes in it."""

    path: Path
    _files: _Files

    @property
    def peak(self) -> int:
        """Bytes that were counted at most, cached files included; 0 where the kernel does not tell."""
        with suppress(OSError):
            return int((self.path / self._files.peak).read_text())
        return 0

    @property
    def kills(self) -> int:
        """Processes that were killed for want of memory."""
        return self._counts(self._files.kills).get("oom_kill", 0)

    @property
    def taken(self) -> int:
        """Bytes that processes have now, without cached files."""
        counts = self._counts("memory.stat")
        return sum(counts.get(name, 0) for name in self._files.room)

    @contextmanager
    def watched(self) -> Iterator[list[int]]:
        """Yield what is taken, looked at until the end of the block."""
        samples = [self.taken]
        is_over = threading.Event()

        def look() -> None:
            while not is_over.wait(_LOOK_SECONDS):
                samples.append(self.taken)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield samples
        finally:
            is_over.set()
            watcher.join()

    def _counts(self, name: str) -> dict[str, int]:
        lines = (self.path / name).read_text().splitlines()
        return {key: int(value) for key, _, value in (line.partition(" ") for line in lines)}


@contextmanager
def control_group(limit: int) -> Iterator[ControlGroup | None]:
    """Yield an empty group with a limit in bytes; None where none may be made."""
    for files in _VERSIONS:
        with suppress(OSError):
            # Of version 2, groups have the files of memory once the one above says so.
            (files.parent / "cgroup.subtree_control").write_text("+memory")
        path = files.parent / f"paimon-index-{os.getpid()}-{next(_numbers)}"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / files.limit).write_text(str(limit))
        except OSError:
            path.rmdir()
            continue
        with suppress(OSError):
            (path / "memory.swap.max").write_text("0")
        try:
            yield ControlGroup(path, files)
        finally:
            _remove(path)
        return
    yield None


def _remove(group: Path) -> None:
    """End what is left of a group, as children that stand still, and the group."""
    give_up = time.monotonic() + _END_SECONDS
    while True:
        for process in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return

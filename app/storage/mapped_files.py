"""Files of arrays that this process has mapped, verified again for as long as somebody uses them.

A mapping shows what a file has now, not what it had when it was verified: a disk may lose bits, and somebody
may write to the file. Files are used in groups, such as all that is kept of one table. Who uses a group asks
twice:

* before, whether files are as long as they were (:attr:`Look.LENGTHS`). Whoever reads behind the end of a
  mapped file is ended by the system;
* afterwards, whether blocks are what they were (:attr:`Look.SOME`). They are verified in turn, as many as
  take one percent of a core, and of a group of :data:`_LEAST_BYTES` all of them each time.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

import xxhash

from app.mapped_bytes import MappedBytes

_BYTES_PER_SECOND: Final = 64 << 20
"""A core verifies more than a hundred times as much."""
_LEAST_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 64 << 20
"""After a pause, so that nobody waits for more than some milliseconds."""
_PIECE_BYTES: Final = 1 << 20
_PIECE_COST: Final = 16 << 10
"""Bytes that take as long to verify as it takes to look at any piece."""
_SECONDS_PER_FILE: Final = 5e-4
"""Between two looks at the lengths of files, each of which takes less than a hundredth of that."""


class Look(Enum):
    """How closely files are looked at."""

    NONE = auto()
    LENGTHS = auto()
    SOME = auto()
    ALL = auto()


class VerifiedBlock(NamedTuple):
    """A block that was verified when it was first asked for: offset in the file, bytes, xxh3_64."""

    start: int
    size: int
    checksum: int


class MappedFile:
    """A file that stays mapped for as long as somebody holds an array of it; this object holds none."""

    def __init__(self, key: bytes, path: str, mapped: MappedBytes, status: os.stat_result) -> None:
        self.key = key
        self.blocks: dict[str, VerifiedBlock] = {}
        self._path = path
        self._identity = (status.st_dev, status.st_ino)
        self._size = status.st_size
        self._mapped = weakref.ref(mapped)

    @property
    def is_held(self) -> bool:
        """Whether somebody holds an array of it."""
        return self._mapped() is not None

    def is_whole(self) -> bool:
        """Whether the file is as long as it was; one whose name is gone cannot be cut by that name."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a Path takes longer than the asking
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != self._identity or found.st_size == self._size

    def verify(self, block: VerifiedBlock) -> Iterator[bool]:
        """Verifies a block piece by piece: whether nothing is wrong so far. It ends where nobody holds it."""
        checksum = xxhash.xxh3_64()
        end = block.start + block.size
        for start in range(block.start, end, _PIECE_BYTES):
            # A large block takes several answers, between which anything may happen.
            if start > block.start and not self.is_whole():
                yield False
                return
            stop = min(start + _PIECE_BYTES, end)
            if not self._add(checksum, start, stop):
                return
            yield stop < end or checksum.intdigest() == block.checksum

    def _add(self, checksum: xxhash.xxh3_64, start: int, stop: int) -> bool:
        """Whether somebody holds the file; nothing of it is held by the one who verifies it in between."""
        mapped = self._mapped()
        if mapped is None:
            return False
        checksum.update(mapped[start:stop].data)
        return True


@dataclass(slots=True)
class _Group:
    files: list[MappedFile] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    round: Iterator[tuple[int, MappedFile | None]] = field(default_factory=lambda: iter(()))
    credit: float = 0.0
    cost: int = 0
    lost: int = 0
    verified_at: float = field(default_factory=time.monotonic)
    measured_at: float = field(default_factory=time.monotonic)


class MappedFiles:
    """All of a process, by their groups."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, group: str, file: MappedFile) -> None:
        """Has a file verified again with others of its group."""
        found = self._groups.setdefault(group, _Group())
        with found.lock:
            found.files.append(file)

    def look(self, group: str, look: Look) -> tuple[list[MappedFile], int]:
        """Files of a group that are not what they were, and how many were found so far, these included."""
        found = self._groups.get(group)
        if found is None:
            return [], 0
        with found.lock:
            match look:
                case Look.NONE:
                    lost = []
                case Look.LENGTHS:
                    lost = _not_whole(found)
                case Look.SOME:
                    lost = _damaged(found) if _finds_damage(found) else []
                case Look.ALL:
                    lost = _damaged(found)
            if lost:
                found.files = [file for file in found.files if file not in lost]
                found.round = iter(())
                found.lost += len(lost)
            return lost, found.lost


def _not_whole(group: _Group) -> list[MappedFile]:
    now = time.monotonic()
    if now - group.measured_at < len(group.files) * _SECONDS_PER_FILE:
        return []
    group.measured_at = now
    return [file for file in group.files if not file.is_whole()]


def _damaged(group: _Group) -> list[MappedFile]:
    return list(dict.fromkeys(file for _, file in _round(group) if file is not None))


def _finds_damage(group: _Group) -> bool:
    """Goes on with the round, for as long as there is time."""
    now = time.monotonic()
    earned = (now - group.verified_at) * _BYTES_PER_SECOND
    least = _LEAST_BYTES if group.cost <= _LEAST_BYTES else 0
    group.credit = min(_MOST_BYTES, max(least, group.credit + earned))
    group.verified_at = now
    is_new = False
    while group.credit > 0:
        step = next(group.round, None)
        if step is None:
            if is_new:
                # All of it was verified just now.
                group.credit = 0.0
                return False
            group.round, is_new = _round(group), True
            continue
        cost, file = step
        group.credit -= cost
        if file is not None:
            return True
    return False


def _cost(block: VerifiedBlock) -> int:
    return block.size + _PIECE_COST


def _round(group: _Group) -> Iterator[tuple[int, MappedFile | None]]:
    """Verifies the files of a group that somebody holds, piece by piece: what it cost, and damaged ones."""
    group.files = [file for file in group.files if file.is_held]
    group.cost = sum(_cost(block) for file in group.files for block in tuple(file.blocks.values()))
    for file in tuple(group.files):
        if not file.is_whole():
            yield _PIECE_COST, file
            continue
        for block in tuple(file.blocks.values()):
            for is_sound in file.verify(block):
                yield min(_cost(block), _PIECE_BYTES), None if is_sound else file
                if not is_sound:
                    break

"""Disk cache for all processes: columns decoded from immutable files, and whole small files.

Entries are renamed into place when complete, never changed, and unlinked to remove them, so mappings stay
valid. Readers verify them, so any number of processes may share a directory, and each may end at any time. A
file's modification time is the entry's last use. Every failure of the directory is a miss, never an error.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from stat import S_ISDIR
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from app.described import DESCRIBED
from app.storage.disk.column_entry import Columns, DamagedEntryError, write_columns
from app.storage.stores import local_files
from app.work import MappedBytes

_log = logging.getLogger(__name__)

FORMAT: Final = 3
"""Format of entries and of objects of the shared tier: the same number means the same content for a file.

Raise it with every change of derived content: fixed bugs, forms and layouts. Forms also have numbers of
their own.
"""

_ENTRIES = "entries-1"
# Name of the column in an entry of raw bytes.
_BYTES: Final = "bytes"
# Read-only: truncating a mapped entry would kill the processes that map it.
_MODE = 0o400
_BLOCK_BYTES = 1 << 12
_TEMPORARY = "tmp-"
_ABANDONED_SECONDS = 3600.0
_USE_RECORDED_EVERY_SECONDS = 60.0
# A sweep frees an eighth, so that sweeps are rare. One is due after writing a sixteenth, to count the entries
# of other processes.
_FREED_SHARE = 8
_SWEPT_SHARE = 16


@dataclass(frozen=True, slots=True)
class DiskCacheState:
    """The disk cache, which outlives restarts."""

    __pydantic_config__ = DESCRIBED

    entries: int
    bytes: int
    """Disk space of the entries."""
    capacity: int
    """Limit of `bytes`."""
    hits: int
    misses: int
    evictions: int
    corrupt: int
    """Entries removed because they were altered after they were written."""


class DiskTier:
    """Keeps entries across restarts, in a directory that is created if needed.

    Writes to one private subdirectory only. Entries take up to ``capacity_bytes`` together. Each further
    process that shares the directory may exceed it by a sixteenth.
    """

    def __init__(self, directory: str | os.PathLike[str], capacity_bytes: int) -> None:
        self._root = Path(directory) / _ENTRIES
        self._capacity = capacity_bytes
        self._lock = threading.Lock()
        self._sweeping = threading.Lock()
        self._temporary = f"{self._root}/{_TEMPORARY}{secrets.token_hex(8)}-"
        self._write_numbers = count()
        self._entries = self._bytes = self._unswept = 0
        self._hits = self._misses = self._evictions = self._corrupt = 0
        self._warned = False
        self._usable = False
        with self._tolerance():
            _make_private(self._root)
            self._sweep(0)
            self._usable = True

    @property
    def capacity(self) -> int:
        """Limit of disk space in bytes. 0 if the directory cannot be used."""
        return self._capacity if self._usable else 0

    def get_bytes(self, key: bytes) -> bytes | None:
        """Return the bytes stored under a key, if they are intact."""
        # Bytes are copied anyway, and mapping a small file takes longer than reading it.
        columns = self._get(key, _content)
        if columns is None:
            return None
        try:
            content: bytes = columns[_BYTES][0].as_py()
        except DamagedEntryError:
            self.drop(key)
            return None
        return content

    def put_bytes(self, key: bytes, content: bytes) -> None:
        """Store bytes as an entry of one column."""
        self.put(key, {_BYTES: pa.array([content], pa.large_binary())})

    def has(self, key: bytes) -> bool:
        """Return True if a key has an entry, whatever its content."""
        return self._usable and os.path.exists(self._path(key))  # noqa: PTH110 - text in, text out

    def get(self, key: bytes) -> Columns | None:
        """Map the columns stored under a key, if there are any."""
        return self._get(key, MappedBytes.map)

    def _get(self, key: bytes, read: Callable[[int], NDArray[np.uint8]]) -> Columns | None:
        columns = None
        if self._usable:
            with self._tolerance(), suppress(FileNotFoundError):
                columns = self._read(key, read)
        self._count_lookup(is_hit=columns is not None)
        return columns

    def put(self, key: bytes, columns: Mapping[str, pa.Array]) -> None:
        """Store columns, of one item each, if the directory can take them."""
        self.put_entry(key, write_columns(key, columns))

    def put_entry(self, key: bytes, parts: Sequence[bytes | pa.Buffer]) -> None:
        """Store an entry of another tier, given in pieces."""
        size = _occupied(sum(map(len, parts)))
        if not self._usable or size > self._capacity:
            return
        with self._tolerance():
            if self._reserve(size):
                path = self._path(key)
                replaced = _size(path)
                try:
                    self._write(path, parts)
                except OSError:
                    self._count(-1, -size)
                    raise
                if replaced is not None:
                    self._count(-1, -_occupied(replaced))

    def drop(self, key: bytes) -> None:
        """Remove a damaged entry."""
        with self._tolerance(), suppress(FileNotFoundError):
            self._drop(self._path(key))

    def statistics(self) -> DiskCacheState:
        """Return a consistent copy of the counters."""
        with self._lock:
            return DiskCacheState(
                entries=self._entries,
                bytes=self._bytes,
                capacity=self._capacity,
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
                corrupt=self._corrupt,
            )

    @contextmanager
    def _tolerance(self) -> Iterator[None]:
        """Turn errors of the directory into one warning."""
        try:
            yield
        except OSError as error:
            with self._lock:
                first, self._warned = not self._warned, True
            if first:
                _log.warning("the disk cache in %s fails, and is bypassed: %s", self._root, error)

    def _path(self, key: bytes) -> str:
        name = xxhash.xxh3_128_hexdigest(key)
        # Some file systems are slow with many files in one directory.
        return f"{self._root}/{name[:2]}/{name[2:]}"

    def _read(self, key: bytes, read: Callable[[int], NDArray[np.uint8]]) -> Columns | None:
        path = self._path(key)
        try:
            with _opened(path) as (descriptor, status):
                columns = Columns.read(key, read(descriptor))
        except DamagedEntryError:
            self._drop(path)
            return None
        _record_use(path, status.st_mtime)
        return columns

    def _drop(self, path: str) -> None:
        size = Path(path).stat().st_size
        Path(path).unlink()
        self._count(-1, -_occupied(size))
        with self._lock:
            self._corrupt += 1

    def _write(self, path: str, parts: Sequence[bytes | pa.Buffer]) -> None:
        temporary = f"{self._temporary}{next(self._write_numbers)}"
        try:
            with open(temporary, "xb", opener=_create) as file:
                file.writelines(parts)
            try:
                os.replace(temporary, path)  # noqa: PTH105 - text in, text out
            except FileNotFoundError:
                Path(path).parent.mkdir(mode=0o700, exist_ok=True)
                Path(temporary).replace(path)
        except OSError:
            with suppress(OSError):
                Path(temporary).unlink()
            raise

    def _count_lookup(self, *, is_hit: bool) -> None:
        with self._lock:
            self._hits += is_hit
            self._misses += not is_hit

    def _count(self, entries: int, size: int) -> None:
        with self._lock:
            self._entries += entries
            self._bytes += size

    def _reserve(self, size: int) -> bool:
        """Reserve space for an entry of ``size`` bytes. Return False while another thread sweeps."""
        while True:
            with self._lock:
                due = self._unswept and self._unswept + size > self._capacity // _SWEPT_SHARE
                if not due and self._bytes + size <= self._capacity:
                    self._entries += 1
                    self._bytes += size
                    self._unswept += size
                    return True
            # While one thread sweeps, others continue without storing.
            if not self._sweeping.acquire(blocking=False):
                return False
            try:
                self._sweep(size)
            finally:
                self._sweeping.release()

    def _sweep(self, size: int) -> None:
        """Recount the entries, and evict the least recently used until ``size`` bytes fit."""
        with self._lock:
            entries_before = self._entries
            self._unswept = 0
        entries = list(self._scan())
        total = sum(entry.size for entry in entries)
        count = len(entries)
        if total + size > self._capacity:
            entries.sort()
            target = min(self._capacity - size, self._capacity - self._capacity // _FREED_SHARE)
            for entry in entries:
                if total <= target:
                    break
                Path(entry.path).unlink(missing_ok=True)
                total -= entry.size
                count -= 1
        with self._lock:
            self._evictions += len(entries) - count
            # The scan may have included entries written during it: counting them twice is safe.
            self._entries = count + max(0, self._entries - entries_before)
            self._bytes = total + self._unswept

    def _scan(self) -> Iterator[_Entry]:
        """Yield all entries. Remove temporary files of writers that died."""
        with os.scandir(self._root) as shards:
            for shard in shards:
                if not shard.is_dir(follow_symlinks=False):
                    if shard.name.startswith(_TEMPORARY):
                        _remove_abandoned(shard)
                    continue
                with os.scandir(shard) as files:
                    for file in files:
                        with suppress(FileNotFoundError):
                            status = file.stat(follow_symlinks=False)
                            yield _Entry(status.st_mtime, _occupied(status.st_size), file.path)


class _Entry(NamedTuple):
    used: float
    size: int
    path: str


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open a file of this user. Yield its descriptor and status."""
    # O_NOFOLLOW: a link may lead anywhere.
    with local_files.opened(path, os.O_NOFOLLOW) as (descriptor, status):
        if status.st_uid != os.geteuid():
            raise FileNotFoundError(f"{path} is not a file of this user")
        yield descriptor, status


def _content(descriptor: int) -> NDArray[np.uint8]:
    with open(descriptor, "rb", closefd=False) as file:
        return np.frombuffer(file.read(), np.uint8)


def _create(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)


def _record_use(path: str, used: float) -> None:
    if abs(time.time() - used) > _USE_RECORDED_EVERY_SECONDS:
        os.utime(path)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - text in, text out
    except OSError:
        return None


def _occupied(size: int) -> int:
    # In whole blocks: many entries are smaller than one.
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _remove_abandoned(file: os.DirEntry[str]) -> None:
    with suppress(FileNotFoundError):
        if time.time() - file.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS:
            Path(file.path).unlink()


def _make_private(directory: Path) -> None:
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{directory} is not a directory of this user")
    directory.chmod(0o700)


def entry_key(*members: str | int | None) -> bytes:
    """Encode an entry's key from its members and :data:`FORMAT`."""
    # Faster libraries refuse lone surrogates, which a caller's path may contain.
    return json.dumps([*members, FORMAT]).encode("ascii")

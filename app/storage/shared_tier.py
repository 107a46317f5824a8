"""A directory of a store in which processes share decoded files.

Objects are named after their source, created exclusively, and trusted only if they are signed
(:mod:`app.storage.shared_object`). No answer depends on them: whatever is absent, damaged, late or refused is
read from the source. Requests do not use a store before its first probe, nor, once it fails or is slow,
before another probe was answered in time.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.described import DESCRIBED
from app.errors import (
    DeadlineExceededError,
    FileMissingError,
    LimitExceededError,
    MemoryShortError,
    PaimonIndexError,
)
from app.storage.disk.column_entry import DamagedEntryError, write_columns
from app.storage.disk.disk_tier import FORMAT
from app.storage.shared_object import LARGEST, Sizes, key_name, object_name, read_object, write_object
from app.storage.warehouse import Warehouse
from app.storage.writing import Writing
from app.work import Claim, check_deadline, time_limit, waiting

_log = logging.getLogger("paimon_index.storage")

# The first call for an object asks for this many bytes beyond the expected ones, which covers most objects.
_FIRST_BYTES: Final = 1 << 20
# Bytes of each further call, in addition to the buffer of the whole.
_PIECE_BYTES: Final = 16 << 20
# Time limit of the first call for an object, and of the store's first answer after opening.
_WAIT_SECONDS: Final = 1.0
# Slowest usable call: a plan of a new process makes three in a row.
_SLOW_SECONDS: Final = 0.2
# Calls of a probe, of which the fastest is judged: the first one opens connections.
_PROBES: Final = 2
# Least rate of further calls, with many objects at once.
_BYTES_PER_SECOND: Final = 4 << 20
# Several, since a version may have thousands of manifests, each of them an object.
_WRITERS: Final = 4
_WRITE_SECONDS: Final = 15.0
_REST_SECONDS: Final = 30.0
_ABSENT_SECONDS: Final = 60.0
# Objects whose presence is remembered.
_MOST_NAMES: Final = 10_000
# Bytes in the write queue; beyond it, objects are dropped.
_MOST_WAITING_BYTES: Final = 256 << 20

_Entry = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class SharedCacheState:
    """Reads and writes of the shared cache by this service."""

    __pydantic_config__ = DESCRIBED

    hits: int = 0
    """Objects read."""
    misses: int = 0
    """Objects absent, late, or not requested because the store fails."""
    bytes: int = 0
    """Bytes of the objects read."""
    failures: int = 0
    """Calls that failed or took too long."""
    corrupt: int = 0
    """Objects that no holder of the key wrote in this form."""
    written: int = 0
    """Objects written."""
    written_bytes: int = 0
    dropped: int = 0
    """Objects not written, because the queue was full or the store failed."""


class SharedTier:
    """Reads and writes the shared cache.

    ``store``: its directory, without retries. ``key``: signs objects, empty if no one else can write there.
    """

    def __init__(
        self,
        store: Warehouse,
        key: bytes,
        *,
        wait_seconds: float = _WAIT_SECONDS,
        slow_seconds: float = _SLOW_SECONDS,
        rest_seconds: float = _REST_SECONDS,
        most_waiting_bytes: int = _MOST_WAITING_BYTES,
    ) -> None:
        self._store = store
        self._wait_seconds, self._slow_seconds, self._rest_seconds = wait_seconds, slow_seconds, rest_seconds
        self._most_waiting_bytes = most_waiting_bytes
        self._writing = Writing(store)
        self._key = key
        self._key_name = key_name(key)
        self._lock = threading.RLock()
        self._pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="shared cache")
        self._pending: set[Future[None]] = set()
        self._is_closed = False
        # By name of an absent object: the time before which it is not looked up again.
        self._absent: dict[str, float] = {}
        self._damaged: set[str] = set()
        self._present: set[str] = set()
        self._rests_until: float | None = math.inf
        self._writes_from = self._believed_from = 0.0
        self._queued_bytes = 0
        self._has_warned = False
        self._counts = asdict(SharedCacheState())
        self._opened_at = time.monotonic()
        self._opening = self._pool.submit(self._probe)

    def get(self, key: bytes, expected_bytes: int = 0) -> _Entry | None:
        """Return the entry of a key. Return None if it is not available now.

        ``expected_bytes``: size of the object if known, for a single call. Raises DeadlineExceededError.
        """
        name = object_name(key)
        self._wait_for_opening()
        with self._lock:
            is_asked = self._may_ask(name)
        entry = self._read(name, expected_bytes) if is_asked else None
        with self._lock:
            self._counts["hits" if entry is not None else "misses"] += 1
        return entry

    def offer(self, key: bytes, columns: Mapping[str, pa.Array]) -> None:
        """Queue columns to be written, unless they are known to be there."""
        name = object_name(key)
        size = sum(column.nbytes for column in columns.values())
        with self._lock:
            if name in self._present or size > LARGEST or self._is_closed:
                return
            # Before the first probe is answered, writes queue up behind it.
            is_refused = self._opening.done() and self._may_not_write()
            if is_refused or self._queued_bytes + size > self._most_waiting_bytes:
                self._counts["dropped"] += 1
                return
            self._queued_bytes += size
            self._note_present(name)
        self._submit(self._write, name, key, size, columns)

    def flush(self) -> None:
        """Wait until every queued write has succeeded or failed."""
        with self._lock:
            pending = [self._opening, *self._pending]
        wait(pending)

    def statistics(self) -> SharedCacheState:
        """Return a consistent copy of the counters."""
        with self._lock:
            return SharedCacheState(**self._counts)

    def close(self) -> None:
        """Drop queued writes."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._store.readers.close()

    @property
    def is_opening(self) -> bool:
        """True while the first probe may still be answered. Requests wait for it."""
        return not self._opening.done() and time.monotonic() < self._opened_at + self._wait_seconds

    def _wait_for_opening(self) -> None:
        if self.is_opening:
            with waiting():
                wait([self._opening], max(0, self._opened_at + self._wait_seconds - time.monotonic()))

    def _may_not_write(self) -> bool:
        return time.monotonic() < self._writes_from

    def _submit(self, work: Callable[..., None], *arguments: object) -> None:
        # A plan may finish after close, when the pool refuses work.
        with suppress(RuntimeError):
            submitted = self._pool.submit(work, *arguments)
            with self._lock:
                self._pending.add(submitted)
            submitted.add_done_callback(self._end)

    def _end(self, done: Future[None]) -> None:
        """Log unexpected errors of background work, which has no caller."""
        with self._lock:
            self._pending.discard(done)
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.warning("the shared cache: a background write failed; the service goes on", exc_info=error)

    def _rest(self) -> None:
        with self._lock:
            self._rests_until = self._writes_from = time.monotonic() + self._rest_seconds

    def _write_later(self) -> None:
        with self._lock:
            self._writes_from = time.monotonic() + self._rest_seconds

    def _may_ask(self, name: str) -> bool:
        now = time.monotonic()
        if now < self._believed_from:
            return False
        if self._rests_until is not None:
            if now >= self._rests_until:
                self._rests_until = now + self._rest_seconds
                self._submit(self._probe)
            return False
        return self._absent.get(name, now) <= now

    def _read(self, name: str, expected_bytes: int) -> _Entry | None:
        try:
            with self._store.readers.room(0, self._path(name)) as claim:
                content = self._fetch(self._path(name), expected_bytes, claim)
                with self._store.readers.core():
                    entry = read_object(name, self._key, content, claim.grow_to)
        except FileMissingError:
            self._note_absent(name)
            return None
        except DamagedEntryError as error:
            self._note_absent(name)
            with self._lock:
                self._damaged.add(name)
                self._counts["corrupt"] += 1
                # More damaged objects would take longer than the source.
                self._believed_from = time.monotonic() + self._rest_seconds
            self._warn(f"{self._path(name)} is not believed: {error}")
            return None
        except (MemoryShortError, LimitExceededError):
            return None
        except PaimonIndexError as error:
            # If the request itself ran out of time, the store is not to blame.
            check_deadline()
            self._note_failure(error)
            self._rest()
            return None
        with self._lock:
            self._counts["bytes"] += len(content)
            self._note_present(name)
        return entry

    def _fetch(self, path: str, expected_bytes: int, claim: Claim) -> bytes | memoryview:
        """Read an object, claiming memory first, since its length is not verified yet."""
        first = min(expected_bytes + _FIRST_BYTES, LARGEST)
        with time_limit(self._wait_seconds + expected_bytes / _BYTES_PER_SECOND):
            start = self._range(path, 0, first)
            claim.grow_to(len(start))
        stored = Sizes.read(start).stored
        if stored <= len(start):
            return start
        with time_limit(self._wait_seconds + (stored - len(start)) / _BYTES_PER_SECOND):
            claim.grow_to(len(start) + stored)
            content = memoryview(bytearray(stored))
            content[: len(start)] = start
            for at in range(len(start), stored, _PIECE_BYTES):
                length = min(_PIECE_BYTES, stored - at)
                piece = self._range(path, at, length)
                if len(piece) < length:
                    raise DamagedEntryError(f"expected {stored} bytes, found {at + len(piece)}")
                content[at : at + length] = piece
        return content

    def _range(self, path: str, start: int, length: int) -> bytes:
        (content,) = self._store.read_ranges([(path, start, length)])
        if isinstance(content, PaimonIndexError):
            raise content
        return content

    def _note_absent(self, name: str) -> None:
        with self._lock:
            self._present.discard(name)
            if len(self._absent) >= _MOST_NAMES:
                self._absent.clear()
            self._absent[name] = time.monotonic() + _ABSENT_SECONDS

    def _note_present(self, name: str) -> None:
        if len(self._present) >= _MOST_NAMES:
            self._present.clear()
        self._present.add(name)
        self._absent.pop(name, None)

    def _probe(self) -> None:
        """Call the store. After an answer in time, requests may ask it."""
        fastest = math.inf
        try:
            for _ in range(_PROBES):
                started = time.monotonic()
                with time_limit(self._wait_seconds):
                    self._store.exists(self._path("probe"))
                fastest = min(fastest, time.monotonic() - started)
        except PaimonIndexError as error:
            self._note_failure(error)
            self._rest()
            return
        if fastest > self._slow_seconds:
            self._note_failure(DeadlineExceededError(f"a call takes {fastest:.2f} s"))
            self._rest()
            return
        with self._lock:
            self._rests_until = None

    def _write(self, name: str, key: bytes, size: int, columns: Mapping[str, pa.Array]) -> None:
        wait([self._opening])
        try:
            with self._lock:
                if self._may_not_write():
                    self._present.discard(name)
                    self._counts["dropped"] += 1
                    return
                is_damaged = name in self._damaged
                self._damaged.discard(name)
            with self._store.readers.room(2 * size, self._path(name)), time_limit(_WRITE_SECONDS):
                if not is_damaged and self._store.exists(self._path(name)):
                    return
                content = write_object(name, self._key, write_columns(key, columns))
                if content is None:
                    return
                if is_damaged:
                    self._writing.replace(self._path(name), content)
                else:
                    self._writing.create(self._path(name), content)
        except (MemoryShortError, LimitExceededError):
            with self._lock:
                self._counts["dropped"] += 1
        except PaimonIndexError as error:
            self._note_failure(error)
            with self._lock:
                self._present.discard(name)
            self._write_later()
        else:
            with self._lock:
                self._counts["written"] += 1
                self._counts["written_bytes"] += len(content)
        finally:
            with self._lock:
                self._queued_bytes -= size

    def _path(self, name: str) -> str:
        # Releases of another format, and holders of another key, use other names.
        return f"{FORMAT}/{name}{self._key_name}"

    def _note_failure(self, error: PaimonIndexError) -> None:
        with self._lock:
            self._counts["failures"] += 1
        label = "is too slow" if isinstance(error, DeadlineExceededError) else f"fails: {error}"
        self._warn(f"it {label}; its entries are read from the warehouses instead")

    def _warn(self, label: str) -> None:
        with self._lock:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            _log.warning("the shared cache %s: %s", self._store.public_url, label)

"""Events of a request, for observers: phases, calls to storage, cache accesses, damaged files.

The observer travels in a context variable, as the deadline does (:mod:`app.work.deadline`), so that code
between the HTTP layer and storage need not pass it on. Threads that are started with a copy of the context
report to the same observer. Without an observer, events cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

_T = TypeVar("_T")

_NOTHING: Final = nullcontext()


class Phase(StrEnum):
    """Phases of the work of a request."""

    QUEUE = "queue"
    """Waiting for a worker thread."""
    RESOLVE = "resolve"
    """Resolving the version of the table."""
    LOAD = "load"
    """Reading and decoding manifests."""
    EVALUATE = "evaluate"
    """Deciding files and rows, including reads of index files."""
    ENCODE = "encode"
    """Encoding the answer."""


class StorageOperation(StrEnum):
    """Kinds of calls to the storage library."""

    READ = "read"
    READ_RANGE = "read_range"
    LIST = "list"
    STAT = "stat"
    DELETE = "delete"
    WRITE = "write"

    @property
    def verb(self) -> str:
        """Verb for messages about the call."""
        is_reading = self in (StorageOperation.READ, StorageOperation.READ_RANGE, StorageOperation.STAT)
        return "read" if is_reading else self.value


class FileFormat(StrEnum):
    """Kinds of files, as metrics count their failures."""

    SNAPSHOT = "snapshot"
    SCHEMA = "schema"
    MANIFEST_LIST = "manifest-list"
    MANIFEST = "manifest"
    INDEX_MANIFEST = "index-manifest"
    FILE_INDEX = "file-index"
    DELETION_VECTORS = "deletion-vectors"
    HASH_INDEX = "hash-index"
    GLOBAL_INDEX = "global-index"


@dataclass(frozen=True, slots=True)
class StorageCall:
    """A finished call to the storage library."""

    operation: StorageOperation
    path: str
    seconds: float
    size_bytes: int
    error: BaseException | None = None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class PlanObserved:
    """Totals of a plan.

    ``skipped``: files pruned, by step and kind of index. The latter is empty for other steps.
    ``files_spared``: files that indexes pruned. 0 for further pages of a plan.
    """

    files: int
    files_kept: int
    rows: int
    skipped: Mapping[tuple[str, str], int]
    warnings: int
    is_complete: bool
    fits_caches: bool
    files_spared: int
    bytes_spared: int


class Observer:
    """Receives events from any thread. The base class ignores them."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:  # noqa: ARG002 - for subclasses
        """Mark the enclosed work as a phase. The phase around it pauses meanwhile."""
        return _NOTHING

    def spent(self, phase: Phase, seconds: float) -> None:
        """Add seconds to a phase that is over."""

    def storage_called(self, call: StorageCall) -> None:
        """Receive a finished call to the storage library."""

    def cache_asked(self, cache: str, hits: int, misses: int) -> None:
        """Receive the hits and misses of a cache access."""

    def undecodable(self, kind: FileFormat) -> None:
        """Receive a file that is damaged or of an unknown version."""

    def planned(self, plan: PlanObserved) -> None:
        """Receive the totals of a plan that was made or cached."""


NO_OBSERVER: Final = Observer()
"""Observer that ignores everything."""

_observer: ContextVar[Observer] = ContextVar("observer", default=NO_OBSERVER)

observer = _observer.get
"""Function that returns the observer of the present work."""


@contextmanager
def bound(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Set a context variable inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def observed_by(who: Observer) -> AbstractContextManager[None]:
    """Make ``who`` the observer of the enclosed work, instead of an outer one."""
    return bound(_observer, who)


def during(phase: Phase) -> AbstractContextManager[None]:
    """Report the enclosed work to the observer as a phase."""
    return observer().phase(phase)

"""What a request does, told to whoever keeps account of it: phases, calls to storage, caches, damaged files.

The observer travels in a context variable, as the deadline does (:mod:`app.work.deadline`), so that code
between the HTTP layer and storage need not pass it on; threads that are started with a copy of the context
tell the same one. Without an observer nothing is noted, which costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

T = TypeVar("T")


class Phase(StrEnum):
    """What the work of a request is cut into."""

    QUEUE = "queue"
    """Waiting for one of the threads that do the work."""
    RESOLVE = "resolve"
    """Finding out which version of the table is meant."""
    LOAD = "load"
    """Reading and decoding manifests."""
    EVALUATE = "evaluate"
    """Deciding files and rows, with the reading of index files."""
    ENCODE = "encode"
    """Writing the answer."""


class StorageOperation(StrEnum):
    """The kinds of calls to the storage library."""

    READ = "read"
    READ_RANGE = "read_range"
    LIST = "list"
    STAT = "stat"
    DELETE = "delete"
    WRITE = "write"

    @property
    def verb(self) -> str:
        """What the call does to a file, for messages."""
        is_reading = self in (StorageOperation.READ, StorageOperation.READ_RANGE, StorageOperation.STAT)
        return "read" if is_reading else self.value


class FileFormat(StrEnum):
    """The kinds of files that are decoded, as far as failures are told apart."""

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
    """A call to the storage library that came back."""

    operation: StorageOperation
    path: str
    seconds: float
    size_bytes: int
    error: BaseException | None = None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class PlanObserved:
    """What a plan comes to.

    Attributes:
        skipped: files left out, by step and kind of index; the latter is empty for other steps.
        files_spared: files that indexes left out; 0 for further pages of a plan.
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


_NOTHING: Final = nullcontext()


class Observer:
    """Is told what happens, from any thread, and does nothing about it; others override what they note."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:  # noqa: ARG002 - for others
        """The enclosed work is of a phase; one that was under way in this request rests meanwhile."""
        return _NOTHING

    def spent(self, phase: Phase, seconds: float) -> None:
        """So long was spent in a phase that is over."""

    def storage_called(self, call: StorageCall) -> None:
        """A call to the storage library came back."""

    def cache_asked(self, cache: str, hits: int, misses: int) -> None:
        """A cache was asked for objects."""

    def undecodable(self, kind: FileFormat) -> None:
        """A file was not what its format says, or of a version that is not known."""

    def planned(self, plan: PlanObserved) -> None:
        """A plan was made, or remembered."""


NOBODY: Final = Observer()
"""Takes note of nothing."""

_observer: ContextVar[Observer] = ContextVar("observer", default=NOBODY)

observer = _observer.get
"""Who is to be told what the present work does."""


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Gives a context variable a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def observed_by(who: Observer) -> AbstractContextManager[None]:
    """Has ``who`` told of the enclosed work; it takes the place of an observer around it."""
    return bound(_observer, who)


def during(phase: Phase) -> AbstractContextManager[None]:
    """Tells the observer when the work in a ``with`` statement begins and ends."""
    return observer().phase(phase)

"""A named warehouse: one directory, on a disk or in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.errors import (
    FileMissingError,
    NotFoundError,
    PaimonIndexError,
    PathNotAllowedError,
    RequestError,
)
from app.observation import StorageOperation
from app.storage.disk.disk_tier import DiskTier, entry_key
from app.storage.locations import Roots, is_absolute_uri, normal_uri, without_credentials
from app.storage.range_reading import FileRange, RangeReader, too_large
from app.storage.readers import Readers
from app.storage.retry import RetryPolicy
from app.storage.stores import STALL_SECONDS, LocalFiles, Store, open_store
from app.storage.stores.store import _Result
from app.work import Scratch

DEFAULT_MAX_FILE_BYTES = 1 << 30

_LARGE_BYTES = 4 << 20


class Warehouse:
    """Reads files below one root, and below the external roots that the operator allows.

    A ``path`` is relative to the root (``sales.db/orders/snapshot/LATEST``), or an absolute URI as metadata
    holds it for external files. Methods block and are thread-safe. They may raise PathNotAllowedError,
    FileMissingError, StorageError (after retries) and DeadlineExceededError. A
    :class:`~app.storage.disk.disk_tier.DiskTier` may keep immutable content.

    ``url``: ``file:///data/warehouse``, ``/data/warehouse``, ``s3://bucket/warehouse``,
    ``memory://warehouse``.
    ``public_url``: URL shown to callers, if not ``url``.
    ``allow_external``: roots of external files, each a ``URI`` or ``URI=LOCATION``. With the latter, files
    that metadata places at ``URI`` are read from ``LOCATION``, for trees that were moved.
    ``options``: for the storage library of ``url`` and external roots (endpoint, credentials).
    ``max_file_bytes``: limit of a file read whole, and of a range.
    ``stall_seconds``: silence after which a call to an object store is given up, and repeated.
    """

    def __init__(  # noqa: PLR0913 - two say what it is, the others have values that fit
        self,
        name: str,
        url: str,
        *,
        public_url: str | None = None,
        allow_external: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        retry: RetryPolicy | None = None,
        readers: Readers | None = None,
        disk: DiskTier | None = None,
        stall_seconds: float = STALL_SECONDS,
        engine_writes_only: bool = False,
    ) -> None:
        self.name = name
        self.engine_writes_only = engine_writes_only
        self._roots = Roots.open(
            name, url, allow_external, lambda place: open_store(place, options or {}, stall_seconds)
        )
        # Shown to callers, who must not see the operator's user and password.
        own_url = without_credentials(self.url)
        self.public_url = own_url if public_url is None else public_url.rstrip("/") + "/"
        self._max_file_bytes = max_file_bytes
        self._retry = retry or RetryPolicy()
        self.readers = readers or Readers(warehouse=name)
        self.place = own_url
        """Identifies the warehouse's files in every process, whatever its name there."""
        self._disk = disk
        self._scratch = Scratch()
        self._ranges = RangeReader(self._roots, self._retry, self.readers, max_file_bytes)

    @property
    def url(self) -> str:
        """The root's URI in normal form, ending in a slash."""
        return self._roots.own.uri

    @property
    def is_local(self) -> bool:
        """True if all files are on this machine, including those of external roots."""
        return self._roots.are_local

    def read(self, path: str, size: int | None = None) -> bytes:
        """Read a whole file, or one byte more than ``size`` if it is longer.

        Raises LimitExceededError if it is larger than ``max_file_bytes``.
        """
        # One byte more than allowed: a file that is too large shows without a call for its size.
        most = self._max_file_bytes if size is None else max(0, min(size, self._max_file_bytes))
        content = self.read_start(path, most + 1)
        why = too_large(path, len(content), self._max_file_bytes)
        if why is not None:
            raise why
        return content

    def read_start(self, path: str, count: int) -> bytes:
        """Read the first ``count`` bytes of a file, or all of a shorter one."""
        return self.ask(StorageOperation.READ, path, lambda store, place: store.read(place, 0, count))

    def start_of(self, path: str, count: int) -> bytes | None:
        """Read the first ``count`` bytes of a file. Return None if there is no such file."""
        try:
            return self.read_start(path, count)
        except FileMissingError:
            return None

    def read_immutable(self, path: str, size: int) -> bytes:
        """Read an immutable file, from the disk tier if that has a copy.

        Only for names that no other file ever gets. Content of another length than ``size`` is not kept.
        """
        content = self._copy_of(path, size)
        if content is None:
            content = self.read(path, size)
            if self._disk is not None and size == len(content):
                self._disk.put_bytes(self._copy_key(path, size), content)
        return content

    @contextmanager
    def reading(self, path: str, size: int | None, *, is_kept: bool = True) -> Iterator[bytes | memoryview]:
        """Lend a file's content for the block. Large local files share buffers.

        ``is_kept``: False keeps the file out of the disk tier, for callers who keep what they derive from it.
        """
        store, place = self._roots.locate(path)
        if size is None:
            with self._reading_unsized(path, is_kept=is_kept) as content:
                yield content
        elif is_kept and self._disk is not None:
            yield self.read_immutable(path, size)
        elif isinstance(store, LocalFiles) and _LARGE_BYTES <= size < self._max_file_bytes:
            # One more byte reveals a file that is longer than its metadata records.
            with self._scratch.buffer(size + 1) as buffer:
                count = self._retry.call(path, lambda: store.read_into(place, buffer))
                yield buffer[:count]
        else:
            yield self.read(path, size)

    @contextmanager
    def _reading_unsized(self, path: str, *, is_kept: bool) -> Iterator[bytes]:
        content = self._copy_of(path, None) if is_kept else None
        if content is not None:
            yield content
            return
        content = self.read_start(path, _LARGE_BYTES)
        is_whole = len(content) < _LARGE_BYTES
        # The caller could not claim memory without a size.
        with self.readers.room(len(content) if is_whole else self.size(path), path):
            if not is_whole:
                content = self.read(path)
            if self._disk is not None and is_kept:
                self._disk.put_bytes(self._copy_key(path), content)
            yield content

    def _copy_of(self, path: str, size: int | None, *of: int) -> bytes | None:
        """Return the disk tier's copy of a file or range. Raises PathNotAllowedError."""
        if self._disk is None:
            return None
        self._roots.locate(path)
        return self._disk.get_bytes(self._copy_key(path, size, *of))

    def _copy_key(self, path: str, size: int | None = None, *of: int) -> bytes:
        # With the URL: an operator may give the name to another directory, and the disk tier stays.
        return entry_key(f"{self.name} {self.url}", path, size, *of)

    def read_ranges(
        self, ranges: Sequence[tuple[str, int, int]], *, immutable: bool = False
    ) -> list[bytes | PaimonIndexError]:
        """Read many ranges in parallel, joining close ones of one file into one call.

        Return for each range its bytes, fewer at the end of a file, or an error: one that :meth:`read`
        raises, or that the range is invalid or longer than ``max_file_bytes``. The disk tier may keep ranges
        of immutable files.
        """
        file_ranges = [FileRange(*file_range) for file_range in ranges]
        disk = self._disk if immutable else None
        if disk is None:
            return self._ranges.read(file_ranges)
        contents: dict[FileRange, bytes | PaimonIndexError] = {}
        for file_range in file_ranges:
            # The read below returns the error.
            with suppress(PathNotAllowedError):
                if (
                    content := self._copy_of(file_range.path, None, file_range.offset, file_range.length)
                ) is not None:
                    contents[file_range] = content
        missing = [file_range for file_range in dict.fromkeys(file_ranges) if file_range not in contents]
        for file_range, answer in zip(missing, self._ranges.read(missing), strict=True):
            contents[file_range] = answer
            # A short answer is the whole of an object, but a local file may still be growing.
            if (
                isinstance(answer, bytes)
                and answer
                and (len(answer) == file_range.length or not self.is_local)
            ):
                disk.put_bytes(
                    self._copy_key(file_range.path, None, file_range.offset, file_range.length), answer
                )
        return [contents[file_range] for file_range in file_ranges]

    def list_names(self, directory: str) -> list[str]:
        """Return names of files and directories right below ``directory``, sorted; ``""`` is the root.

        A missing directory has none, as in an object store.
        """
        return sorted({name for name, _ in self.entries(directory)})

    def entries(self, directory: str) -> list[tuple[str, bool]]:
        """List names right below a directory, with True for directories. Links count as files."""
        try:
            return self.ask(StorageOperation.LIST, directory, lambda store, place: store.entries(place))
        except FileMissingError:
            return []

    def has_root(self) -> bool:
        """Return True if the directory of the warehouse, or its bucket, exists."""
        return self.ask(StorageOperation.LIST, "", lambda store, _: store.has_root())

    def exists(self, path: str) -> bool:
        """Return True if there is such a file or directory."""
        try:
            self.size(path)
        except FileMissingError:
            return False
        return True

    def size(self, path: str) -> int:
        """Return the size of a file in bytes, 0 for a directory."""
        return self.ask(StorageOperation.STAT, path, lambda store, place: store.size(place))

    def path_of(self, location: str) -> str:
        """Return the path within the warehouse of a directory that callers name by URL or absolute path.

        Raises NotFoundError if it is outside the warehouse. Raises RequestError if it is not a URL, or has
        ``..``, ``.`` or empty segments.
        """
        # User and password do not identify a place. A file URL has none, so any that it names is an error.
        is_file = location.lower().startswith(("file:", "local:"))
        place = location if is_file else without_credentials(location)
        if place.startswith("/"):
            place = f"file://{place}"
        elif not is_absolute_uri(place):
            raise RequestError(f"location: {place!r} is not a URL: expected one such as s3://bucket/table")
        try:
            uri = normal_uri(place)
            roots = (without_credentials(self.url), f"{normal_uri(self.public_url)}/")
        except PathNotAllowedError as error:
            raise RequestError(f"location: {error}") from error
        for root in roots:
            if uri.startswith(root) and uri != root:
                return uri.removeprefix(root)
        raise NotFoundError(
            f"{place:.300} does not lie below warehouse {self.name!r} at {self.public_url}: name the one "
            f"that it lies below, or have the operator add its root to PAIMON_INDEX_WAREHOUSES"
        )

    def local_path(self, path: str) -> Path | None:
        """Return the path of a file or directory on this machine. Return None if it is elsewhere."""
        store, place = self._roots.locate(path)
        return Path(store.path_of(place)) if isinstance(store, LocalFiles) else None

    def ask(self, kind: StorageOperation, path: str, question: Callable[[Store, str], _Result]) -> _Result:
        """Call ``question`` with the store of a path and the path within it, with retries."""
        is_root = kind is StorageOperation.LIST and not path
        store, place = (self._roots.own.store, "") if is_root else self._roots.locate(path)
        return self._retry.call(path, lambda: question(store, place), kind=kind)

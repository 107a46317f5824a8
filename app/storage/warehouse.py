"""A named warehouse: one directory, on a disk or in an object store, that is only ever read."""

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
from app.storage.stores.store import Result
from app.work import Scratch

DEFAULT_MAX_FILE_BYTES = 1 << 30

_LARGE_BYTES = 4 << 20


class Warehouse:
    """Reads files below one root, and below the external roots that the operator allows.

    Every ``path`` is relative to the root (``sales.db/orders/snapshot/LATEST``) or an absolute URI as
    metadata holds it for external files. Methods block; they may be called from many threads, and may raise
    PathNotAllowedError (the path leaves these roots), FileMissingError, StorageError (storage failed, after
    retries) and DeadlineExceededError.

    What never changes once it is written may be kept in a :class:`~app.storage.disk.disk_tier.DiskTier`.

    Args:
        url: ``file:///data/warehouse``, ``/data/warehouse``, ``s3://bucket/warehouse``,
            ``memory://warehouse``.
        public_url: what others call ``url``, where that is another one.
        allow_external: roots of files outside of the warehouse that its metadata may name, each a ``URI`` or
            ``URI=LOCATION``. With the latter, what metadata calls ``URI`` is read from ``LOCATION``, for
            trees that were moved after they were written.
        options: passed to the storage library for ``url`` and external roots (endpoint, credentials).
        max_file_bytes: no file larger than this is read whole, and no range longer.
        stall_seconds: how long an object store may be silent in a call before it is given up, and repeated.
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
        # Who is told where files lie gets no user and password of the operator's.
        own_url = without_credentials(self.url)
        self.public_url = own_url if public_url is None else public_url.rstrip("/") + "/"
        self._max_file_bytes = max_file_bytes
        self._retry = retry or RetryPolicy()
        self.readers = readers or Readers(warehouse=name)
        self.place = own_url
        """Place that tells its files from those of others, whatever a process calls the warehouse."""
        self._disk = disk
        self._scratch = Scratch()
        self._ranges = RangeReader(self._roots, self._retry, self.readers, max_file_bytes)

    @property
    def url(self) -> str:
        """The root's URI in its normal form, ending in a slash."""
        return self._roots.own.uri

    @property
    def is_local(self) -> bool:
        """Whether all files lie on this machine, those of external roots as well."""
        return self._roots.are_local

    def read(self, path: str, size: int | None = None) -> bytes:
        """The whole file; if it is longer than ``size``, one byte more.

        LimitExceededError: it is larger than ``max_file_bytes``.
        """
        # One byte more than allowed tells a file that is too large without another question.
        most = self._max_file_bytes if size is None else max(0, min(size, self._max_file_bytes))
        content = self.read_start(path, most + 1)
        why = too_large(path, len(content), self._max_file_bytes)
        if why is not None:
            raise why
        return content

    def read_start(self, path: str, count: int) -> bytes:
        """The first ``count`` bytes of a file, fewer where it ends before."""
        return self.ask(StorageOperation.READ, path, lambda store, place: store.read(place, 0, count))

    def start_of(self, path: str, count: int) -> bytes | None:
        """The first ``count`` bytes of a file; None if there is no such file."""
        try:
            return self.read_start(path, count)
        except FileMissingError:
            return None

    def read_immutable(self, path: str, size: int) -> bytes:
        """The whole of a file that never changes, from the disk tier if it is there.

        Only for files under names that no other file ever has, before or after. What is not as long as
        ``size`` is answered, but not kept.
        """
        content = self._copy_of(path, size)
        if content is None:
            content = self.read(path, size)
            if self._disk is not None and size == len(content):
                self._disk.put_bytes(self._copy_key(path, size), content)
        return content

    @contextmanager
    def reading(self, path: str, size: int | None, *, is_kept: bool = True) -> Iterator[bytes | memoryview]:
        """As :meth:`read_immutable`, for content that nobody looks at after the block.

        Large local files share buffers. The disk tier need not keep a file where it keeps what is made of it.
        """
        store, place = self._roots.locate(path)
        if size is None:
            with self._of_unknown_size(path, is_kept=is_kept) as content:
                yield content
        elif is_kept and self._disk is not None:
            yield self.read_immutable(path, size)
        elif isinstance(store, LocalFiles) and _LARGE_BYTES <= size < self._max_file_bytes:
            # One byte more tells a file that is longer than its metadata says.
            with self._scratch.buffer(size + 1) as buffer:
                count = self._retry.call(path, lambda: store.read_into(place, buffer))
                yield buffer[:count]
        else:
            yield self.read(path, size)

    @contextmanager
    def _of_unknown_size(self, path: str, *, is_kept: bool) -> Iterator[bytes]:
        """The whole of a file that never changes; a large one claims memory, since nobody could before."""
        content = self._copy_of(path, None) if is_kept else None
        if content is not None:
            yield content
            return
        content = self.read_start(path, _LARGE_BYTES)
        is_whole = len(content) < _LARGE_BYTES
        with self.readers.room(len(content) if is_whole else self.size(path), path):
            if not is_whole:
                content = self.read(path)
            if self._disk is not None and is_kept:
                self._disk.put_bytes(self._copy_key(path), content)
            yield content

    def _copy_of(self, path: str, size: int | None, *of: int) -> bytes | None:
        """The copy of a file, or of a range of it, if there is one and the file may be read."""
        if self._disk is None:
            return None
        self._roots.locate(path)
        return self._disk.get_bytes(self._copy_key(path, size, *of))

    def _copy_key(self, path: str, size: int | None = None, *of: int) -> bytes:
        # A name may be given to another directory while the disk tier keeps copies of this one.
        return entry_key(f"{self.name} {self.url}", path, size, *of)

    def read_ranges(
        self, ranges: Sequence[tuple[str, int, int]], *, immutable: bool = False
    ) -> list[bytes | PaimonIndexError]:
        """Many ranges at once, read side by side; those of one file that lie close together in one go.

        In the order of ``ranges`` the bytes, fewer where a file ends before; or why there are none: as
        :meth:`read`, or the range is none, or longer than ``max_file_bytes``. The disk tier may keep those
        of immutable files.
        """
        wanted = [FileRange(*one) for one in ranges]
        disk = self._disk if immutable else None
        if disk is None:
            return self._ranges.read(wanted)
        contents: dict[FileRange, bytes | PaimonIndexError] = {}
        for one in wanted:
            # Why a file may not be read is told by who reads it.
            with suppress(PathNotAllowedError):
                if (content := self._copy_of(one.path, None, one.offset, one.length)) is not None:
                    contents[one] = content
        missing = [one for one in dict.fromkeys(wanted) if one not in contents]
        for one, answer in zip(missing, self._ranges.read(missing), strict=True):
            contents[one] = answer
            # Less than was asked for is all of an object, and of a local file all there is so far.
            if isinstance(answer, bytes) and answer and (len(answer) == one.length or not self.is_local):
                disk.put_bytes(self._copy_key(one.path, None, one.offset, one.length), answer)
        return [contents[one] for one in wanted]

    def list_names(self, directory: str) -> list[str]:
        """Names of the files and directories right below ``directory``, sorted; ``""`` is the root.

        A directory that is not there has no names, as in an object store.
        """
        return sorted({name for name, _ in self.entries(directory)})

    def entries(self, directory: str) -> list[tuple[str, bool]]:
        """Names right below a directory, and whether each is a directory's; links are none."""
        try:
            return self.ask(StorageOperation.LIST, directory, lambda store, place: store.entries(place))
        except FileMissingError:
            return []

    def has_root(self) -> bool:
        """Whether the directory of the warehouse is there; of an object store, its bucket."""
        return self.ask(StorageOperation.LIST, "", lambda store, _: store.has_root())

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        try:
            self.size(path)
        except FileMissingError:
            return False
        return True

    def size(self, path: str) -> int:
        """Bytes of the file, 0 for a directory."""
        return self.ask(StorageOperation.STAT, path, lambda store, place: store.size(place))

    def path_of(self, location: str) -> str:
        """The path inside of the warehouse of a directory that callers name by its URL or absolute path.

        Raises:
            NotFoundError: it does not lie below the warehouse's root.
            RequestError: it is no URL, or has ``..``, ``.`` or empty segments.
        """
        # Who reads a place, and by which password, does not tell it from others; nobody logs in to a file.
        is_file = location.lower().startswith(("file:", "local:"))
        place = location if is_file else without_credentials(location)
        if place.startswith("/"):
            place = f"file://{place}"
        elif not is_absolute_uri(place):
            raise RequestError(f"location: {place!r} is no URL: expected one such as s3://bucket/table")
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
        """A file or directory on this machine; None if it lies elsewhere."""
        store, place = self._roots.locate(path)
        return Path(store.path_of(place)) if isinstance(store, LocalFiles) else None

    def ask(self, kind: StorageOperation, path: str, question: Callable[[Store, str], Result]) -> Result:
        """What the store of a path answers, given the path that it has there; asked again where it fails."""
        is_root = kind is StorageOperation.LIST and not path
        store, place = (self._roots.own.store, "") if is_root else self._roots.locate(path)
        return self._retry.call(path, lambda: question(store, place), kind=kind)

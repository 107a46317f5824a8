"""A named warehouse: one directory, on a disk or in an object store, that is only ever read."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from app.errors import FileMissingError, LimitExceededError, PathNotAllowedError, StorageError
from app.storage.locations import Root, check_segments, is_absolute_uri, normal_uri
from app.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_MAX_FILE_BYTES = 1 << 30


class Warehouse:
    """Reads files below one root, and below the external roots that the operator allows.

    Every ``path`` is relative to the root (``sales.db/orders/snapshot/LATEST``) or an absolute URI as
    metadata holds it for external files. Methods block; they may be called from many threads.

    Args:
        name: what callers know it by.
        url: ``file:///data/warehouse``, ``/data/warehouse``, ``s3://bucket/warehouse``,
            ``memory://warehouse``.
        allow_external: roots of files outside of the warehouse that its metadata may name, each a ``URI`` or
            ``URI=LOCATION``. With the latter, what metadata calls ``URI`` is read from ``LOCATION``, for
            trees that were moved after they were written.
        options: passed to the storage library for ``url`` and external roots (endpoint, credentials).
        max_file_bytes: no file larger than this is read whole, and no range longer.
        retry: how failing calls are repeated.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        allow_external: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.name = name
        self._options = dict(options or {})
        self._root = Root.open(url, options=self._options)
        self._external = tuple(Root.external(allowed, self._options) for allowed in allow_external)
        self._max_file_bytes = max_file_bytes
        self._retry = retry or RetryPolicy()

    @property
    def url(self) -> str:
        """The root's URI in its normal form, ending in a slash."""
        return self._root.uri

    def read(self, path: str) -> bytes:
        """The whole file.

        Raises:
            PathNotAllowedError: the path leaves the warehouse and the allowed external roots.
            LimitExceededError: the file is larger than ``max_file_bytes``.
            FileMissingError: there is no such file.
            StorageError: storage failed, after retries.
        """
        # One byte more than allowed tells a file that is too large without another question.
        content = self._slice(path, 0, self._max_file_bytes + 1)
        self._check_size(path, len(content))
        return content

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer where the file ends before.

        Raises:
            PathNotAllowedError: the path leaves the warehouse and the allowed external roots.
            LimitExceededError: the range is longer than ``max_file_bytes``.
            FileMissingError: there is no such file.
            StorageError: storage failed, after retries, or the range is none.
        """
        if offset < 0 or length < 0:
            raise StorageError(f"bytes {offset} to {offset + length} of {path} are no range", path=path)
        self._check_size(path, length)
        return self._slice(path, offset, offset + length) if length else b""

    def list_names(self, directory: str) -> list[str]:
        """Names of the files and directories right below ``directory``, sorted; ``""`` is the root.

        A directory that is not there has no names, as in an object store.

        Raises:
            PathNotAllowedError: the path leaves the warehouse and the allowed external roots.
            StorageError: storage failed, after retries.
        """
        root, place = self._locate(directory) if directory else (self._root, self._root.resolve(""))
        parent = place.strip("/")

        def attempt() -> list[str]:
            return list(root.filesystem.ls(place, detail=False))

        try:
            found = self._retry.call(directory, attempt)
        except FileMissingError:
            return []
        names = (entry.strip("/").rpartition("/") for entry in found)
        # An object store may list the directory's own marker object as well.
        return sorted({name for above, _, name in names if above == parent})

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory.

        Raises:
            PathNotAllowedError: the path leaves the warehouse and the allowed external roots.
            StorageError: storage failed, after retries.
        """
        try:
            self.size(path)
        except FileMissingError:
            return False
        return True

    def size(self, path: str) -> int:
        """Bytes of the file, 0 for a directory.

        Raises:
            PathNotAllowedError: the path leaves the warehouse and the allowed external roots.
            FileMissingError: there is no such file.
            StorageError: storage failed, after retries.
        """
        root, place = self._locate(path)
        information = self._retry.call(path, lambda: root.filesystem.info(place))
        return int(information.get("size") or 0)

    def _slice(self, path: str, start: int, end: int) -> bytes:
        root, place = self._locate(path)

        def attempt() -> bytes:
            try:
                content: bytes = root.filesystem.cat_file(place, start=start, end=end)
            except OSError as error:
                # An object store refuses a range that begins at the end, as that of an empty file does.
                if error.errno == errno.EINVAL:
                    return b""
                raise
            return content

        return self._retry.call(path, attempt)

    def _check_size(self, path: str, size: int) -> None:
        if size > self._max_file_bytes:
            raise LimitExceededError(
                f"{path} is larger than the {self._max_file_bytes} bytes that may be read of one file",
                limit=self._max_file_bytes,
            )

    def _locate(self, path: str) -> tuple[Root, str]:
        """The root that holds ``path``, and its path inside of that root's filesystem."""
        if not is_absolute_uri(path):
            return self._root, self._root.resolve(check_segments(path))
        uri = normal_uri(path)
        for root in (self._root, *self._external):
            if root.holds(uri):
                return root, root.resolve(uri.removeprefix(root.uri))
        raise PathNotAllowedError(
            f"{path} lies outside of warehouse {self.name!r}; the operator can allow its root with "
            f"--allow-external URL or PAIMON_INDEX_ALLOW_EXTERNAL",
            path=path,
        )

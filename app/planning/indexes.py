"""Loads what lies beside data files: file indexes, deletion vectors and hash indexes, decoded and cached.

Index files are written once under names of their own, so a decoded one is good for as long as it fits into
its cache. Decoding errors come back with the file's path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from app.deletion_vectors import read_vector
from app.errors import CorruptIndexError
from app.file_index.container import FileIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.deletion_vectors import DeletionVector
    from app.storage import ByteCache, Readers, Warehouse
    from app.table.index_manifest import DeletionRange, IndexEntry
    from app.table.manifest_entry import ManifestEntry
    from app.table.paths import TablePaths

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True)
class IndexCaches:
    """Decoded index files, shared by all tables."""

    file_indexes: ByteCache[Any]
    deletion_vectors: ByteCache[Any]
    hash_indexes: ByteCache[Any]


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The bytes of a deletion vector file; vectors are decoded and verified when they are asked for."""

    path: str
    content: bytes

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return len(self.content)

    def vector(self, place: DeletionRange) -> DeletionVector:
        """The vector of one data file.

        Raises:
            CorruptIndexError: it is damaged, or does not hold as many positions as the manifest says.
        """
        try:
            found = read_vector(self.content, offset=place.offset, length=place.length)
        except CorruptIndexError as error:
            raise error.at(self.path) from error
        if place.cardinality is not None and found.cardinality != place.cardinality:
            raise CorruptIndexError(
                f"expected {place.cardinality} deleted rows of {place.data_file}, found {found.cardinality}",
                offset=place.offset,
                path=self.path,
            )
        return found


@dataclass(frozen=True, slots=True)
class IndexLoader:
    """Loads the index files of one version of one table.

    Attributes:
        warehouse: where they lie.
        readers: threads that read files side by side.
    """

    warehouse: Warehouse
    readers: Readers
    paths: TablePaths
    caches: IndexCaches

    def has_file_index(self, entry: ManifestEntry) -> bool:
        """Whether the data file has an index, embedded in the manifest or beside it."""
        return entry.file.embedded_index is not None or self.paths.side_index(entry) is not None

    def file_index(self, entry: ManifestEntry) -> FileIndex:
        """The index of a data file that has one.

        Raises:
            CorruptIndexError: it cannot be decoded.
            StorageError: it cannot be read.
            PathNotAllowedError: it lies outside of what the operator allows.
        """
        embedded = entry.file.embedded_index
        if embedded is not None:
            path = f"{self.paths.data_file(entry)} (index embedded in its manifest)"
            key = (self.warehouse.name, path, len(embedded))
            return self._cached(self.caches.file_indexes, key, path, lambda: FileIndex.read(embedded))
        path = self.paths.side_index(entry) or ""
        return self._cached(
            self.caches.file_indexes,
            (self.warehouse.name, path),
            path,
            lambda: FileIndex.read(self.warehouse.read(path)),
        )

    def deletion_file(self, entry: IndexEntry) -> DeletionFile:
        """A file of deletion vectors, read as a whole: one request serves all data files in it.

        Raises:
            CorruptIndexError: it is not as long as the manifest says.
            StorageError: it cannot be read.
            PathNotAllowedError: it lies outside of what the operator allows.
        """
        path = self.paths.index_file(entry)

        def load() -> DeletionFile:
            content = self.warehouse.read(path)
            _check_length(content, entry)
            return DeletionFile(path, content)

        key = (self.warehouse.name, path, entry.file_size)
        return self._cached(self.caches.deletion_vectors, key, path, load)

    def _cached(
        self, cache: ByteCache[Any], key: tuple[object, ...], path: str, load: Callable[[], Decoded]
    ) -> Decoded:
        try:
            decoded: Decoded = cache.get_or_load(key, load)
        except CorruptIndexError as error:
            raise error.at(path) from error
        return decoded


def _check_length(content: bytes, entry: IndexEntry) -> None:
    if len(content) != entry.file_size:
        raise CorruptIndexError(f"expected a file of {entry.file_size} bytes, found {len(content)}")

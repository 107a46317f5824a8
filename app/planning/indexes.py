"""Loads file indexes, decoded and cached; says where everything else that is decoded is kept.

Index files are written once under names of their own, so a decoded one is good for as long as it fits into
its cache. Decoding errors come back with the file's path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from app.errors import CorruptIndexError
from app.file_index.container import FileIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.storage import ByteCache, Readers, Warehouse
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

    def _cached(
        self, cache: ByteCache[Any], key: tuple[object, ...], path: str, load: Callable[[], Decoded]
    ) -> Decoded:
        try:
            decoded: Decoded = cache.get_or_load(key, load)
        except CorruptIndexError as error:
            raise error.at(path) from error
        return decoded

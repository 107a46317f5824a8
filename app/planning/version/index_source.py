"""What a plan loads index files with, and where what is decoded of them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.storage import ByteCache, Readers, Warehouse
    from app.table.paths import TablePaths


@dataclass(frozen=True, slots=True)
class IndexCaches:
    """Decoded index files by kind, shared by all tables.

    Attributes:
        index_headers: heads of ``.index`` files, and small ones of these as a whole.
        bloom_filters: payloads of ``.index`` files, where bloom filters are all that was asked for.
        bitmaps: other payloads.
        deletion_vectors: by file and offset.
        hash_indexes: directories of partitions.
    """

    index_headers: ByteCache[Any]
    bloom_filters: ByteCache[Any]
    bitmaps: ByteCache[Any]
    deletion_vectors: ByteCache[Any]
    hash_indexes: ByteCache[Any]


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Where the index files of one version of one table lie, and who reads them.

    Attributes:
        warehouse: where they lie.
        readers: threads that read files side by side.
        paths: tells where each lies.
        caches: what was loaded before.
    """

    warehouse: Warehouse
    readers: Readers
    paths: TablePaths
    caches: IndexCaches

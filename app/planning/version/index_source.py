"""What a plan loads index files with, and where what is decoded of them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.storage import ByteCache, Readers, Warehouse
from app.table.paths import TablePaths


@dataclass(frozen=True, slots=True)
class IndexCaches:
    """Decoded index files by kind, shared by all tables.

    Attributes:
        file_indexes: ``.index`` files: heads, payloads that filters asked, and small files as a whole.
        deletion_vectors: by file and offset.
        hash_indexes: directories of partitions.
    """

    file_indexes: ByteCache[Any]
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

"""Metadata of index files, held by index manifests so that plans need not read the files."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Index type of files with the key hashes of a dynamic bucket.
HASH: Final = "HASH"
# Index type of files with deletion vectors.
DELETION_VECTORS: Final = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Location of a data file's deletion vector in an index file."""

    data_file: str
    # Byte of the vector's size field.
    offset: int
    # Bytes as recorded; for 32-bit vectors without the size field and the checksum.
    length: int
    # Deleted rows, if recorded.
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """Rows, ``last_row`` included, that a global index file covers, in a table that tracks row ids.

    ``source``: set for an index of a level of a primary key table, which covers files instead of rows.
    """

    first_row: int
    last_row: int
    field_id: int
    extra_field_ids: tuple[int, ...] | None
    metadata: bytes | None
    source: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexFileMeta:
    """Metadata of an index file."""

    # `HASH`, `DELETION_VECTORS`, or the type of a global index.
    index_type: str
    file_name: str
    file_size: int
    # Hashes, deletion vectors, or indexed rows in it.
    row_count: int
    # The vectors of a deletion vector file, in file order; empty for other types.
    ranges: tuple[DeletionRange, ...] = ()
    # Location outside the table's index directory.
    external_path: str | None = None
    global_index: GlobalIndex | None = None


def index_file_names() -> Iterator[str]:
    """Yield endless names for the new index files of one writer: ``index-<uuid>-0``, ``-1``, ..."""
    writer = uuid.uuid4()
    return (f"index-{writer}-{number}" for number in itertools.count())

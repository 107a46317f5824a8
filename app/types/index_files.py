"""Metadata of index files, which index manifests keep, so that no file has to be read for it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

HASH: Final = "HASH"
DELETION_VECTORS: Final = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Location of a data file's deletion vector in an index file.

    Attributes:
        offset: byte of the vector's size field.
        length: bytes as recorded; for 32-bit vectors without the size field and the checksum.
        cardinality: deleted rows, if recorded.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """Rows, ``last_row`` included, that a global index file covers, in a table that tracks row ids.

    ``source`` belongs to an index of a primary key table's level, which covers files instead.
    """

    first_row: int
    last_row: int
    field_id: int
    extra_field_ids: tuple[int, ...] | None
    metadata: bytes | None
    source: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexFileMeta:
    """Index file.

    Attributes:
        index_type: :data:`HASH`, :data:`DELETION_VECTORS`, or the type of a global index.
        row_count: hashes, deletion vectors, or indexed rows in it.
        ranges: the vectors of a deletion vector file, in file order; empty for other types.
        external_path: location outside of the table's index directory.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    ranges: tuple[DeletionRange, ...] = ()
    external_path: str | None = None
    global_index: GlobalIndex | None = None


def index_file_names() -> Iterator[str]:
    """Yield names for the new index files of one writer without end: ``index-<uuid>-0``, ``-1``, ..."""
    writer = uuid.uuid4()
    return (f"index-{writer}-{number}" for number in itertools.count())

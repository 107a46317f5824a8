"""Deletion vectors by the many: what is missing of them is read together, and each is kept decoded.

Only the records that are asked for are read, not the files around them. A record is verified when it is
decoded; that it is the one of the data file is verified whenever it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.deletion_vectors import RECORD_MARGIN_BYTES, read_vector
from app.errors import CorruptIndexError, FileMissingError, PaimonIndexError, SnapshotExpiredError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from app.deletion_vectors import DeletionVector
    from app.planning.indexes import IndexLoader
    from app.table.index_manifest import DeletionRange, IndexEntry

    VectorPlace: TypeAlias = tuple[IndexEntry, DeletionRange, int]
    """An index file, the range of a vector in it, and how many rows its data file has."""


class _Record(NamedTuple):
    """A record of an index file, as the cache knows it."""

    warehouse: str
    path: str
    file_size: int
    offset: int
    length: int

    @property
    def readable_bytes(self) -> int:
        """What is read of it: with size and checksum, but not beyond the file's end."""
        return max(0, min(self.length + RECORD_MARGIN_BYTES, self.file_size - self.offset))


def load_vectors(loader: IndexLoader, places: Sequence[VectorPlace]) -> list[DeletionVector]:
    """The deletion vectors of some data files, in their order.

    Raises:
        SnapshotExpiredError: a file of vectors is gone.
        CorruptIndexError: a vector is damaged, is not what the index manifest says, or deletes rows that the
            data file does not have.
        StorageError: a file cannot be read.
        PathNotAllowedError: a file lies outside of what the operator allows.
    """
    paths = {id(entry): loader.paths.index_file(entry) for entry, _, _ in places}
    records = [
        _Record(loader.warehouse.name, paths[id(entry)], entry.file_size, place.offset, place.length)
        for entry, place, _ in places
    ]
    vectors: dict[_Record, DeletionVector] = loader.caches.deletion_vectors.get_or_load_many(
        records, lambda missing: _read(loader, missing), expected_bytes=lambda record: record.readable_bytes
    )
    found = []
    for record, (_, place, row_count) in zip(records, places, strict=True):
        vector = vectors[record]
        _check(vector, record.path, place, row_count)
        found.append(vector)
    return found


def _read(loader: IndexLoader, records: Sequence[_Record]) -> Iterator[DeletionVector]:
    contents = loader.warehouse.read_ranges(
        [(record.path, record.offset, record.readable_bytes) for record in records], immutable=True
    )
    for record, content in zip(records, contents, strict=True):
        if isinstance(content, FileMissingError):
            raise SnapshotExpiredError(f"{record.path} is gone: its snapshot has expired") from content
        if isinstance(content, PaimonIndexError):
            raise content
        yield _decode(record, content)


def _decode(record: _Record, content: bytes) -> DeletionVector:
    if len(content) < record.readable_bytes:
        raise CorruptIndexError(
            f"expected a file of {record.file_size} bytes, found its end",
            offset=record.offset + len(content),
            path=record.path,
        )
    try:
        return read_vector(content, length=record.length)
    except CorruptIndexError as error:
        raise error.at(record.path, record.offset) from error


def _check(vector: DeletionVector, path: str, place: DeletionRange, row_count: int) -> None:
    if place.cardinality is not None and vector.cardinality != place.cardinality:
        raise CorruptIndexError(
            f"expected {place.cardinality} deleted rows of {place.data_file}, found {vector.cardinality}",
            offset=place.offset,
            path=path,
        )
    if vector.highest is not None and vector.highest >= row_count:
        raise CorruptIndexError(
            f"{place.data_file} has {row_count} rows, but position {vector.highest} is deleted",
            offset=place.offset,
            path=path,
        )

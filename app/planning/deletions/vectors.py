"""Deletion vectors by the many: what is missing of them is read together, and each is kept decoded.

Only the records that are asked for are read, not the files around them. A record is verified when it is
decoded; that it is the one of the data file is verified whenever it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from app.deletion_vectors import RECORD_MARGIN_BYTES, DeletionVector, read_vector
from app.errors import CorruptIndexError, FileMissingError, PaimonIndexError, SnapshotExpiredError
from app.observation import FileFormat, observer
from app.planning.version.index_source import IndexSource
from app.storage import check_deadline
from app.table.manifests.index_manifest import IndexEntry
from app.types.index_files import DeletionRange

VectorPlace: TypeAlias = tuple[IndexEntry, DeletionRange, int]
"""An index file, the range of a vector in it, and how many rows its data file has."""


def load_vectors(source: IndexSource, places: Sequence[VectorPlace]) -> list[DeletionVector]:
    """The deletion vectors of some data files, in their order.

    Raises:
        SnapshotExpiredError: a file of vectors is gone.
        CorruptIndexError: a vector is damaged, is not what the index manifest says, or deletes rows that the
            data file does not have.
        StorageError: a file cannot be read.
        PathNotAllowedError: a file lies outside of what the operator allows.
        DeadlineExceededError: the request's time ran out.
    """
    files = {id(entry): entry for entry, _, _ in places}
    paths = {number: source.paths.index_file(entry) for number, entry in files.items()}
    # A string knows its hash, and there may be many of them.
    keys = [
        f"{source.warehouse.name}\n{paths[id(entry)]}\n{entry.file.file_size} {lies.offset} {lies.length}"
        for entry, lies, _ in places
    ]
    by_key = dict(zip(keys, places, strict=True))

    def read(missing: Sequence[str]) -> Iterator[DeletionVector]:
        unread = [by_key[key] for key in missing]
        ranges = [(paths[id(entry)], lies.offset, _readable_bytes(entry, lies)) for entry, lies, _ in unread]
        # Index files are named after random UUIDs: a path is never given again.
        contents = source.warehouse.read_ranges(ranges, immutable=True)
        for (entry, lies, _), content in zip(unread, contents, strict=True):
            check_deadline()
            yield _decode(content, paths[id(entry)], entry, lies)

    vectors: dict[str, DeletionVector] = source.caches.deletion_vectors.get_or_load_many(
        keys, read, expected_bytes=lambda key: by_key[key][1].length, account=source.readers.loads
    )
    found = [vectors[key] for key in keys]
    for vector, (entry, lies, row_count) in zip(found, places, strict=True):
        _check(vector, paths[id(entry)], lies, row_count)
    return found


def _readable_bytes(entry: IndexEntry, lies: DeletionRange) -> int:
    """What is read of a record: size and checksum too, but nothing beyond the end of the file."""
    return max(0, min(lies.length + RECORD_MARGIN_BYTES, entry.file.file_size - lies.offset))


def _decode(
    content: bytes | PaimonIndexError, path: str, entry: IndexEntry, lies: DeletionRange
) -> DeletionVector:
    if isinstance(content, FileMissingError):
        raise SnapshotExpiredError(f"{path} is gone: its snapshot has expired", path=path) from content
    if isinstance(content, PaimonIndexError):
        raise content
    if len(content) < _readable_bytes(entry, lies):
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"expected a file of {entry.file.file_size} bytes, found its end",
            offset=lies.offset + len(content),
            path=path,
        )
    try:
        return read_vector(content, length=lies.length)
    except CorruptIndexError as error:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise error.at(path, lies.offset) from error


def _check(vector: DeletionVector, path: str, lies: DeletionRange, row_count: int) -> None:
    """Refuses a vector that is not what the index manifest or the data file says."""
    if lies.cardinality is not None and vector.cardinality != lies.cardinality:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"expected {lies.cardinality} deleted rows of {lies.data_file}, found {vector.cardinality}",
            offset=lies.offset,
            path=path,
        )
    if vector.highest is not None and vector.highest >= row_count:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"{lies.data_file} has {row_count} rows, but position {vector.highest} is deleted",
            offset=lies.offset,
            path=path,
        )

"""Merges the hash index files of a partition into one directory, which is cached as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

from app.bucket_index import Hashes, PartitionIndex, hash_index
from app.errors import CorruptFileError, CorruptIndexError, DeadlineExceededError, StorageError
from app.observation import FileFormat, observer
from app.planning.version.version import IndexSource
from app.table.manifests import IndexEntry
from app.types.digest import content_digest

_HASH_BYTES: Final = 4
# Bytes of a key in a directory. Only directories are cached, not the files of single buckets.
_DIRECTORY_BYTES: Final = 6

_Entries: TypeAlias = "Sequence[IndexEntry]"
"""Hash indexes of one partition, in the order of the index manifest."""

Failure: TypeAlias = "tuple[IndexEntry, CorruptFileError | StorageError]"
"""A hash index that cannot be used, with its error."""


def read_directories(source: IndexSource, partitions: Sequence[_Entries]) -> list[PartitionIndex]:
    """Read the hash indexes of partitions, and merge them by partition.

    Raises CorruptIndexError if a file does not hold as many hashes as the manifest records. Raises
    StorageError if a file cannot be read. Raises PathNotAllowedError if a file is outside the places that the
    operator allows. Raises CorruptMetadataError if an entry names an impossible bucket.
    """
    by_key = {_cache_key(source, entries): entries for entries in partitions}
    directories: dict[str, PartitionIndex] = source.caches.hash_indexes.get_or_load_many(
        by_key,
        lambda missing: _merge(source, [by_key[key] for key in missing]),
        expected_bytes=lambda key: _DIRECTORY_BYTES * sum(entry.file.row_count for entry in by_key[key]),
        line=source.warehouse.name,
    )
    return [directories[_cache_key(source, entries)] for entries in partitions]


def read_usable(
    source: IndexSource, partitions: Sequence[_Entries]
) -> list[tuple[PartitionIndex, Sequence[Failure]]]:
    """Read the hash indexes of partitions, skipping files that cannot be used.

    Return each partition's directory, with the hash indexes that it lacks. An incomplete directory is not
    cached. Raises PathNotAllowedError, DeadlineExceededError.
    """
    try:
        return [(directory, ()) for directory in read_directories(source, partitions)]
    except DeadlineExceededError:
        raise
    except (CorruptFileError, StorageError):
        return [_read_usable(source, entries) for entries in partitions]


def _cache_key(source: IndexSource, entries: _Entries) -> str:
    named = (
        f"{source.paths.index_file(entry)}\n{entry.bucket}\n{entry.file.file_size}\n{entry.file.row_count}"
        for entry in entries
    )
    warehouse = source.warehouse.name
    # In the manifest's order: where two buckets list one hash, the order decides between them.
    return content_digest(*(name.encode(errors="surrogatepass") for name in (warehouse, *named)))


def _merge(source: IndexSource, partitions: Sequence[_Entries]) -> Iterator[PartitionIndex]:
    files = iter(
        source.warehouse.readers.map(
            partial(_read, source),
            chain.from_iterable(partitions),
        )
    )
    for entries in partitions:
        yield PartitionIndex.merge([(entry.bucket, next(files)) for entry in entries])


def _read_usable(source: IndexSource, entries: _Entries) -> tuple[PartitionIndex, Sequence[Failure]]:
    files: list[tuple[int, Hashes]] = []
    failures: list[Failure] = []
    outcomes = source.warehouse.readers.map(partial(_try_to_read, source), entries)
    for entry, outcome in zip(entries, outcomes, strict=True):
        if isinstance(outcome, CorruptFileError | StorageError):
            failures.append((entry, outcome))
        else:
            files.append((entry.bucket, outcome))
    try:
        return PartitionIndex.merge(files), failures
    except CorruptFileError as error:
        return PartitionIndex.merge(()), [(entry, error) for entry in entries]


def _read(source: IndexSource, entry: IndexEntry) -> Hashes:
    path, file = source.paths.index_file(entry), entry.file
    # Index files are named after random UUIDs, so a path never gets other content.
    with source.warehouse.readers.room(file.file_size, path):
        content = source.warehouse.read_immutable(path, file.file_size)
        if len(content) != file.file_size or len(content) // _HASH_BYTES != file.row_count:
            observer().undecodable(FileFormat.HASH_INDEX)
            raise CorruptIndexError(
                f"expected {file.row_count} key hashes in {file.file_size} bytes, found {len(content)} bytes",
                path=path,
            )
        return hash_index.read(content)


def _try_to_read(source: IndexSource, entry: IndexEntry) -> Hashes | CorruptFileError | StorageError:
    try:
        return _read(source, entry)
    except DeadlineExceededError:
        raise
    except (CorruptFileError, StorageError) as error:
        return error

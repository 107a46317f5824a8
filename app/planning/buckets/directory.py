"""Hash index files as one directory for each partition, read side by side and cached as a whole.

The files of a bucket are of no use on their own once they are merged, so only the directory stays in memory:
six bytes a key. A commit that changes one bucket makes for another directory.
"""

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
_DIRECTORY_BYTES: Final = 6
"""Of one key."""

Entries: TypeAlias = "Sequence[IndexEntry]"
"""The hash indexes of one partition, in the order of the index manifest."""

Failure: TypeAlias = "tuple[IndexEntry, CorruptFileError | StorageError]"
"""A hash index that cannot be used, and why."""


def read_directories(source: IndexSource, partitions: Sequence[Entries]) -> list[PartitionIndex]:
    """The hash indexes of some partitions, those of each merged.

    Raises:
        CorruptIndexError: one does not hold as many hashes as the manifest says.
        StorageError: one cannot be read.
        PathNotAllowedError: one lies outside of what the operator allows.
        CorruptMetadataError: one is of a bucket that cannot be.
    """
    by_key = {_name(source, entries): entries for entries in partitions}
    directories: dict[str, PartitionIndex] = source.caches.hash_indexes.get_or_load_many(
        by_key,
        lambda missing: _merge(source, [by_key[key] for key in missing]),
        expected_bytes=lambda key: _DIRECTORY_BYTES * sum(entry.file.row_count for entry in by_key[key]),
        line=source.warehouse.name,
    )
    return [directories[_name(source, entries)] for entries in partitions]


def read_usable(
    source: IndexSource, partitions: Sequence[Entries]
) -> list[tuple[PartitionIndex, Sequence[Failure]]]:
    """As :func:`read_directories`, of those hash indexes that can be used.

    Returns:
        For each partition its directory, and the hash indexes that are missing in it. A directory that is
        not whole is not cached.

    Raises:
        PathNotAllowedError: one lies outside of what the operator allows.
        DeadlineExceededError: the request's time ran out.
    """
    try:
        return [(directory, ()) for directory in read_directories(source, partitions)]
    except DeadlineExceededError:
        raise
    except (CorruptFileError, StorageError):
        return [_read_usable(source, entries) for entries in partitions]


def _name(source: IndexSource, entries: Entries) -> str:
    """What the cache knows a directory by: the order decides between buckets that list the same hash."""
    named = (
        f"{source.paths.index_file(entry)}\n{entry.bucket}\n{entry.file.file_size}\n{entry.file.row_count}"
        for entry in entries
    )
    warehouse = source.warehouse.name
    return content_digest(*(name.encode(errors="surrogatepass") for name in (warehouse, *named)))


def _merge(source: IndexSource, partitions: Sequence[Entries]) -> Iterator[PartitionIndex]:
    files = iter(
        source.warehouse.readers.map(
            partial(_read, source),
            chain.from_iterable(partitions),
        )
    )
    for entries in partitions:
        yield PartitionIndex.merge([(entry.bucket, next(files)) for entry in entries])


def _read_usable(source: IndexSource, entries: Entries) -> tuple[PartitionIndex, Sequence[Failure]]:
    files: list[tuple[int, Hashes]] = []
    failures: list[Failure] = []
    tried = source.warehouse.readers.map(partial(_try_to_read, source), entries)
    for entry, outcome in zip(entries, tried, strict=True):
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
    # Index files are named after random UUIDs: a path is never given again.
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

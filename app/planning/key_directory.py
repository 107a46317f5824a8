"""Hash index files as one directory for each partition, read side by side and cached as a whole.

The files of a bucket are of no use on their own once they are merged, so only the directory stays in memory:
six bytes a key. A commit that changes one bucket makes for another directory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from app.bucket_index import PartitionIndex, hash_index
from app.errors import CorruptIndexError, DeadlineExceededError, StorageError
from app.table.digest import content_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.bucket_index import Hashes
    from app.planning.indexes import IndexLoader
    from app.table.index_manifest import IndexEntry

_HASH_BYTES: Final = 4

Failure: TypeAlias = "tuple[IndexEntry, CorruptIndexError | StorageError]"
"""A hash index that cannot be used, and why."""


def read_directory(loader: IndexLoader, entries: Sequence[IndexEntry]) -> PartitionIndex:
    """The hash indexes of one partition, merged.

    Args:
        loader: loads the table's files.
        entries: the partition's hash indexes in the order of the index manifest.

    Raises:
        CorruptIndexError: one does not hold as many hashes as the manifest says.
        StorageError: one cannot be read.
        PathNotAllowedError: one lies outside of what the operator allows.
        CorruptMetadataError: one is of a bucket that cannot be.
    """

    def load() -> PartitionIndex:
        files = loader.readers.map(partial(_read, loader), entries)
        return PartitionIndex.merge(
            [(entry.bucket, file) for entry, file in zip(entries, files, strict=True)]
        )

    # The order decides between buckets that list the same hash; names would make long keys.
    named = (
        f"{loader.paths.index_file(entry)}\n{entry.bucket}\n{entry.file_size}\n{entry.row_count}"
        for entry in entries
    )
    key = (loader.warehouse.name, content_digest(*(each.encode(errors="surrogatepass") for each in named)))
    directory: PartitionIndex = loader.caches.hash_indexes.get_or_load(key, load)
    return directory


def read_usable(
    loader: IndexLoader, entries: Sequence[IndexEntry]
) -> tuple[PartitionIndex, Sequence[Failure]]:
    """As :func:`read_directory`, of those hash indexes that can be used.

    Returns:
        Their directory, and the others; a directory that is not whole is not cached.

    Raises:
        PathNotAllowedError: one lies outside of what the operator allows.
        CorruptMetadataError: one is of a bucket that cannot be.
        DeadlineExceededError: the request's time ran out.
    """
    try:
        return read_directory(loader, entries), ()
    except DeadlineExceededError:
        raise
    except (CorruptIndexError, StorageError):
        tried = loader.readers.map(partial(_try_to_read, loader), entries)
    files: list[tuple[int, Hashes]] = []
    failures: list[Failure] = []
    for entry, found in zip(entries, tried, strict=True):
        if isinstance(found, CorruptIndexError | StorageError):
            failures.append((entry, found))
        else:
            files.append((entry.bucket, found))
    return PartitionIndex.merge(files), failures


def _read(loader: IndexLoader, entry: IndexEntry) -> Hashes:
    path = loader.paths.index_file(entry)
    content = loader.warehouse.read(path)
    if len(content) != entry.file_size or len(content) // _HASH_BYTES != entry.row_count:
        raise CorruptIndexError(
            f"expected {entry.row_count} key hashes in {entry.file_size} bytes, found {len(content)} bytes",
            path=path,
        )
    return hash_index.read(content)


def _try_to_read(loader: IndexLoader, entry: IndexEntry) -> Hashes | CorruptIndexError | StorageError:
    try:
        return _read(loader, entry)
    except DeadlineExceededError:
        raise
    except (CorruptIndexError, StorageError) as error:
        return error

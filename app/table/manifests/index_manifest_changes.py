"""What a commit makes of an index manifest: the previous entries, and those that come and go.

Every index manifest is written anew and lists all index files. What an entry stands for decides what becomes
of it when another one comes:

=====================================  =====================  =============================================
entry                                  known by               a new one
=====================================  =====================  =============================================
hash index                             partition and bucket   replaces the previous one
deletion vectors of a bucket           partition and bucket   replaces the previous one
deletion vectors of an append table    file name              is added; its name must be new, and none of
without buckets                                               its data files may have a vector already
global index                           file name              is added
=====================================  =====================  =============================================

Removals are made before additions. Only the removal of an unknown file of deletion vectors of a table without
buckets is an error; others have had their effect already. (Global indexes of rows that overlap are not
looked for: nothing here makes any.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from app.errors import CommitConflictError, CorruptMetadataError
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest_entry import FileKind
from app.table.schema.schema import BucketMode
from app.types.index_files import DELETION_VECTORS, HASH

Key: TypeAlias = tuple[str, str] | tuple[str, bytes, int]


def combine(previous: IndexManifest, changes: Sequence[IndexEntry], mode: BucketMode) -> IndexManifest:
    """The index manifest after a commit.

    Args:
        previous: that of the latest snapshot; one without entries if it has none.
        changes: additions and removals.
        mode: of the table.

    Returns:
        What is left of the previous entries, in their order, then the additions in theirs.

    Raises:
        CommitConflictError: the changes were made for other entries than the previous ones: a table without
            buckets lacks a file that they remove, or has one of their files or vectors already.
        CorruptMetadataError: the previous entries are not all additions.
    """
    for entry in previous.entries:
        if entry.kind is not FileKind.ADD:
            raise CorruptMetadataError(f"index file {entry.file.file_name!r} is stored as removed")
    entries = {_key(entry, mode): entry for entry in previous.entries}
    for entry in changes:
        if entry.kind is FileKind.DELETE:
            _remove(entries, entry, mode)
    owners = {
        each.data_file: entry.file.file_name
        for entry in entries.values()
        if _stands_alone(entry, mode)
        for each in entry.file.ranges
    }
    for entry in changes:
        if entry.kind is FileKind.ADD:
            if _stands_alone(entry, mode):
                _claim(entries, owners, entry, mode)
            # What is replaced gives up its place.
            entries.pop(_key(entry, mode), None)
            entries[_key(entry, mode)] = entry
    return IndexManifest(tuple(entries.values()))


def _stands_alone(entry: IndexEntry, mode: BucketMode) -> bool:
    """Whether the entry has deletion vectors of a table without buckets."""
    return entry.file.index_type == DELETION_VECTORS and mode is BucketMode.BUCKET_UNAWARE


def _key(entry: IndexEntry, mode: BucketMode) -> Key:
    index_type = entry.file.index_type
    if index_type == HASH or (index_type == DELETION_VECTORS and mode is not BucketMode.BUCKET_UNAWARE):
        return index_type, entry.partition, entry.bucket
    return index_type, entry.file.file_name


def _remove(entries: dict[Key, IndexEntry], entry: IndexEntry, mode: BucketMode) -> None:
    removed = entries.pop(_key(entry, mode), None)
    if removed is None and _stands_alone(entry, mode):
        raise CommitConflictError(
            f"index file {entry.file.file_name!r} cannot be removed: the latest snapshot is without it"
        )


def _claim(
    entries: Mapping[Key, IndexEntry], owners: dict[str, str], entry: IndexEntry, mode: BucketMode
) -> None:
    """Makes the entry the owner of its data files' vectors, if its name and they are without one."""
    name = entry.file.file_name
    if _key(entry, mode) in entries:
        raise CommitConflictError(f"index file {name!r} cannot be added: there is one of that name")
    for each in entry.file.ranges:
        if each.data_file in owners:
            raise CommitConflictError(
                f"index file {name!r} cannot be added: data file {each.data_file!r} has its deletion vector "
                f"in {owners[each.data_file]!r}"
            )
        owners[each.data_file] = name

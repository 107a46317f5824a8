"""Contents of a table's versions: files, places of deletion vectors, hash indexes, and their cache.

Most commits add a manifest and remove no file. Then the files of the other manifests keep their numbers, and
only the new manifest is decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from app.global_index import KINDS
from app.planning.version.files import FileColumns, Files
from app.planning.version.vector_places import VectorPlaces
from app.planning.version.version_files import (
    FORM,
    VersionFiles,
    are_many,
    open_version_files,
    store_version_files,
)
from app.table import POSTPONED_BUCKET, ResolvedSnapshot, Table, TableSchema
from app.table.manifests import (
    Derived,
    IndexEntry,
    Manifest,
    ManifestFile,
    live_rows,
)
from app.types import BytesColumn
from app.types.digest import content_digest
from app.types.index_files import DELETION_VECTORS, HASH, IndexFileMeta

_MEMORY_PER_INDEX_FILE = 1_000


@dataclass(frozen=True, eq=False)
class NeededManifests:
    """The manifests that a filter needs, and totals of all manifests."""

    are_needed: NDArray[np.bool_]  # Shape (manifests,).
    files: int  # Files of the version, including those that no batch read sees.
    rows: int  # Rows of these files.

    def of(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Select the needed manifests from all."""
        return tuple(compress(manifests, self.are_needed))

    @cached_property
    def digest(self) -> str:
        """Key of the set of needed manifests."""
        return content_digest(self.are_needed.tobytes())


@dataclass(frozen=True, slots=True, eq=False)
class VersionContents:
    """Contents of a version except its manifests, cached by the identity of the version."""

    columns: FileColumns
    partitions: BytesColumn
    # Data files that readers never see (level 0 of tables with deletion vectors or first-row, postponed
    # buckets, other levels than the one read), in manifest order; None without any.
    hidden: FileColumns | None
    vectors: VectorPlaces
    hash_indexes: Mapping[bytes, Sequence[IndexEntry]]
    # Index files that the table's options allow to read.
    global_indexes: Mapping[int, Sequence[IndexEntry]]  # Usable here, by the id of their column.
    other_indexes: frozenset[str]  # Kinds that only the engine reads, such as those of vectors.
    columns_bytes: int  # Bytes of ``columns`` that no earlier version shares.
    derived: Derived = field(default_factory=Derived)  # Results computed from the contents once.

    @classmethod
    def read(
        cls,
        live: FileColumns,
        manifests: Sequence[Manifest],
        index_entries: Sequence[IndexEntry],
        schema: TableSchema,
        level: int | None = None,
        before: FileColumns | None = None,
    ) -> VersionContents:
        """Sort files into visible and hidden ones, and index entries by kind.

        ``level``: the only one that is read. None for all. ``before``: columns of an earlier version, with
        which ``live`` may share buffers.
        """
        visible = _is_visible(live, schema, level)
        sees_all = bool(visible.all())
        columns = live if sees_all else live.select(visible)
        hash_indexes, global_indexes = defaultdict(list), defaultdict(list)
        other_indexes = set()
        for entry in index_entries:
            file = entry.file
            if file.index_type == HASH:
                hash_indexes[entry.partition].append(entry)
            elif file.global_index is not None and not schema.options.global_index_read:
                continue
            elif (column_id := _column_of_rows(file, schema)) is not None:
                global_indexes[column_id].append(entry)
            elif file.index_type != DELETION_VECTORS:
                other_indexes.add(file.index_type)
        return cls(
            columns,
            BytesColumn.of(columns.partitions),
            None if sees_all else live.select(~visible),
            VectorPlaces.find(index_entries, Files(columns, manifests)),
            dict(hash_indexes),
            dict(global_indexes),
            frozenset(other_indexes),
            columns.additional_bytes(before),
        )

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        index_files = sum(map(len, (*self.hash_indexes.values(), *self.global_indexes.values())))
        return (
            self.columns_bytes
            + (0 if self.hidden is None else self.hidden.nbytes)
            + self.partitions.nbytes
            + self.vectors.nbytes
            + _MEMORY_PER_INDEX_FILE * index_files
            + self.derived.nbytes
        )


def _column_of_rows(file: IndexFileMeta, schema: TableSchema) -> int | None:
    """Return the column of a global index that can be used here. Return None for other index files."""
    covered = file.global_index
    if covered is None or covered.extra_field_ids or covered.source is not None:
        return None
    return covered.field_id if file.index_type in KINDS and schema.options.data_evolution else None


def _is_visible(files: FileColumns, schema: TableSchema, level: int | None) -> NDArray[np.bool_]:
    visible: NDArray[np.bool_] = files.buckets != POSTPONED_BUCKET
    if level is not None:
        visible &= files.levels == level
    if schema.hides_level_zero:
        visible &= files.levels != 0
    return visible


def read_contents(
    table: Table,
    resolved: ResolvedSnapshot,
    manifests: Sequence[Manifest],
    needed: NeededManifests | None = None,
) -> VersionContents:
    """Return the contents of a version, or of some of its manifests, from the cache where possible.

    Raises SnapshotExpiredError if the version expired, CorruptMetadataError for a damaged index manifest.
    """
    cache = table.reader.manifests

    def read() -> VersionContents:
        keys = table.metadata.manifest_files(resolved)
        newest = ("files", table.reader.storage.name, resolved.directory)
        is_large = are_many(sum(map(len, manifests)))
        entry = table.metadata.entry_of_versions(resolved, FORM) if is_large else None
        files: VersionFiles | None = cache.get(newest)
        before: FileColumns | None = None
        if files is None and entry is not None:
            files = open_version_files(entry)
        if needed is None:
            # The cache usually has the version before, and this one adds a few files.
            before = None if files is None else files.columns
            files = VersionFiles.of(keys, manifests, files)
            if entry is not None:
                files = store_version_files(entry, files)
            cache.put(newest, files)
            columns = files.columns
        elif files is not None and not files.removing and files.is_of(keys):
            columns = files.columns.of_manifests(np.flatnonzero(needed.are_needed))
        else:
            columns = FileColumns.of(manifests, live_rows(manifests))
        return VersionContents.read(
            columns,
            manifests,
            table.metadata.index_entries(resolved),
            resolved.schema,
            resolved.level,
            before,
        )

    contents: VersionContents = cache.get_or_load(_key(resolved, needed), read)
    return contents


def keep_contents(
    table: Table, resolved: ResolvedSnapshot, needed: NeededManifests | None, contents: VersionContents
) -> None:
    """Cache contents again, so that their weight includes data added since they were read."""
    table.reader.manifests.put(_key(resolved, needed), contents)


def _key(resolved: ResolvedSnapshot, needed: NeededManifests | None) -> Hashable:
    return "contents", resolved.identity, None if needed is None else needed.digest

"""A resolved snapshot of a table with its schema. Its files are read on access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.errors import FileMissingError, SnapshotExpiredError, UnsupportedFormatError
from app.observation import Phase, during
from app.planning.version.contents import NeededManifests, VersionContents, keep_contents, read_contents
from app.planning.version.files import Files
from app.predicates import Relation, shown_defaults
from app.storage import ByteCache, Warehouse
from app.table import DataPaths, Partitions, ResolvedSnapshot, Table, TablePaths, TableSchema
from app.table.manifests import Manifest, ManifestFile
from app.types import own_bytes


@dataclass(frozen=True, slots=True)
class IndexCaches:
    """Decoded index files by kind, shared by all tables."""

    file_indexes: ByteCache[Any]
    deletion_vectors: ByteCache[Any]
    hash_indexes: ByteCache[Any]


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Place of the index files of a version, and the storage and caches that read them."""

    warehouse: Warehouse
    paths: TablePaths
    data: DataPaths
    caches: IndexCaches


class Loaded(NamedTuple):
    """Manifests, files and contents of a version."""

    manifest_files: tuple[ManifestFile, ...]
    files: Files
    contents: VersionContents


@dataclass(slots=True)
class Version:
    """One version of one table during one request."""

    table: Table
    resolved: ResolvedSnapshot
    source: IndexSource
    resolving_ms: float = 0.0
    needed: NeededManifests | None = None
    loaded: Loaded | None = None
    partitions: Partitions = field(init=False)
    _schemas: dict[int, TableSchema] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.partitions = Partitions(self.schema)

    def with_manifests(self, needed: NeededManifests) -> Version:
        """Restrict the version to some of its manifests. Its files then count from 0 among these."""
        return replace(self, needed=needed, loaded=None)

    def on_level(self, level: int) -> Version:
        """Restrict the version to the data files of one level."""
        return replace(self, resolved=self.resolved.on_level(level), loaded=None)

    def in_columns_of(self, schema: TableSchema) -> Version:
        """Have filters refer to the columns of another schema of the table."""
        return replace(self, resolved=self.resolved.in_columns_of(schema), loaded=None)

    def load(self) -> Loaded:
        """Read manifests and files at the first call. They stay for the request.

        Raises LimitExceededError if they take too much memory, and cannot be spilled to the disk. Raises
        SnapshotExpiredError if the version expired. Raises CorruptMetadataError if a manifest, or the index
        manifest, is damaged. Raises UnsupportedFormatError if batch reads of the table see other rows.
        """
        if self.loaded is None:
            if (refusal := self.schema.options.refusal) is not None:
                raise UnsupportedFormatError(f"table {self.table.name} {refusal}")
            with during(Phase.LOAD):
                self.table.metadata.begin_index_entries(self.resolved)
                files = self.manifest_files()
                manifests = self.table.metadata.manifests(self.resolved, files)
                contents = read_contents(self.table, self.resolved, manifests, self.needed)
                self.loaded = Loaded(files, Files(contents.columns, manifests), contents)
        return self.loaded

    def manifest_files(self) -> tuple[ManifestFile, ...]:
        """List the manifests in use, by the manifest lists alone."""
        if self.loaded is not None:
            return self.loaded.manifest_files
        files = self.table.metadata.manifest_files(self.resolved)
        return files if self.needed is None else self.needed.of(files)

    def manifests(self) -> Sequence[Manifest]:
        """Return the manifests in use. Raises what :meth:`load` raises."""
        return self.load().files.manifests

    def contents(self) -> VersionContents:
        """Return the version's files. Raises what :meth:`load` raises."""
        return self.load().contents

    def keep_derived(self) -> None:
        """Update the cache's weights of manifests and contents for which more was derived since."""
        if self.loaded is None:
            return
        for file, manifest in zip(self.loaded.manifest_files, self.loaded.files.manifests, strict=True):
            if manifest.derived.has_grown():
                self.table.metadata.keep(file, manifest)
        if self.loaded.contents.derived.has_grown():
            keep_contents(self.table, self.resolved, self.needed, self.loaded.contents)

    def files(self) -> Files:
        """Return the data files that a batch read of the version sees."""
        return self.load().files

    def hidden_files(self) -> Files | None:
        """Return the data files that no batch read sees. Return None without any."""
        hidden = self.contents().hidden
        return None if hidden is None else Files(hidden, self.manifests())

    @property
    def identity(self) -> str:
        """Key that changes with anything that could change an answer."""
        return self.resolved.identity

    @property
    def schema_id(self) -> int:
        """Id of the schema that filters refer to."""
        return self.schema.id

    @property
    def schema(self) -> TableSchema:
        """The schema that filters refer to."""
        return self.resolved.schema

    @property
    def snapshot_id(self) -> int | None:
        """Id of the snapshot. None for a table without snapshots."""
        return None if self.resolved.snapshot is None else self.resolved.snapshot.id

    @property
    def relation(self) -> Relation:
        """The table's name in a filter, and further columns that a query sees."""
        options = self.schema.options
        return Relation(
            self.table.name, self.table.database, options.row_tracking, shown_defaults(options.values)
        )

    def file_schema(self, schema_id: int) -> TableSchema:
        """Return the schema with which data files of this schema id were written."""
        schema = self._schemas.get(schema_id)
        if schema is None:
            schema = self._schemas[schema_id] = self.table.schema(self.resolved, schema_id)
        return schema

    def moved_partitions(self, codes: NDArray[np.int32]) -> dict[int, list[str]]:
        """Return, by code, existing directories of partitions that are not only where the engine puts them.

        A partition without a directory has an empty list. Raises StorageError if a parent cannot be listed.
        """
        contents, source = self.contents(), self.source
        if source.warehouse.engine_writes_only or not source.paths.schema.partition_keys:
            return {}
        partitions = contents.columns.partitions
        is_plain = contents.derived.get_or_make(
            "plain directories", lambda: np.zeros(len(partitions), np.bool_), own_bytes
        )
        used = np.flatnonzero(np.bincount(codes))
        rows = {code: partitions[code] for code in used[~is_plain[used]].tolist()}
        found = dict(zip(rows, source.data.moved([*rows.values()]), strict=True))
        is_plain[[code for code, existing in found.items() if existing is None]] = True
        return {code: existing for code, existing in found.items() if existing is not None}

    def vector_numbers(self, files: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the number of each file's deletion vector, -1 for none or if the options disable vectors."""
        if not self.schema.options.deletion_vectors:
            return np.full(len(files), -1, np.int32)
        return self.contents().vectors.numbers[files]


@contextmanager
def missing_file_means_expired(version: Version) -> Iterator[None]:
    """Check the version again if the block misses a file of it.

    Raises SnapshotExpiredError if the version expired, FileMissingError if it still needs the file.
    """
    try:
        yield
    except SnapshotExpiredError as error:
        version.table.forget_newest(version.resolved)
        path = error.path
        if path is None or not version.table.lacks(version.resolved, path):
            raise
        name = f"tag {version.resolved.tag!r}" if version.resolved.tag else f"snapshot {version.snapshot_id}"
        raise FileMissingError(
            f"{path} is missing, though {name} needs it: restore it, or roll the table back to a version "
            f"that is complete",
            path=path,
        ) from error

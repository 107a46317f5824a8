"""One version of one table, as everything that plans needs it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from app.observation import Phase, during
from app.planning.version.files import Files
from app.planning.version.vector_places import VectorPlaces
from app.predicates.binding.names import Relation
from app.table.paths import POSTPONED_BUCKET
from app.table.schema.options import MergeEngine
from app.table.schema.partition import partition_json, partition_values
from app.types.bytes_column import BytesColumn
from app.types.index_files import HASH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from app.planning.version.files import FileColumns
    from app.planning.version.index_access import IndexLoader
    from app.table.manifests.index_manifest import IndexEntry
    from app.table.manifests.manifest import Manifest
    from app.table.manifests.manifest_list import ManifestFile
    from app.table.schema.schema import TableSchema
    from app.table.table import ResolvedSnapshot, Table
    from app.types import Json, Value
    from app.types.index_files import DeletionRange

_MEMORY_PER_INDEX_FILE = 300


@dataclass(frozen=True, slots=True, eq=False)
class VersionContents:
    """Which files a version has; cached by the version's identity, without the manifests it is read from.

    Attributes:
        columns: data files that a batch read sees, in manifest order.
        partitions: their partition rows, those of ``columns.partitions``.
        hidden: data files that it never sees (level 0 of tables with deletion vectors or first-row, postponed
            buckets), in manifest order; None where it sees all.
        vectors: where the deletion vectors of these files lie.
        hash_indexes: hash index files by partition.
    """

    columns: FileColumns
    partitions: BytesColumn
    hidden: FileColumns | None
    vectors: VectorPlaces
    hash_indexes: Mapping[bytes, Sequence[IndexEntry]]

    @classmethod
    def read(
        cls,
        live: FileColumns,
        manifests: Sequence[Manifest],
        index_entries: Sequence[IndexEntry],
        schema: TableSchema,
    ) -> VersionContents:
        """The contents of a version.

        Args:
            live: its files, those that a batch read does not see included.
            manifests: all of the version's.
            index_entries: those of its index manifest.
            schema: the schema that filters refer to.
        """
        visible = _is_visible(live, schema)
        sees_all = bool(visible.all())
        columns = live if sees_all else live.select(visible)
        hash_indexes = defaultdict(list)
        for entry in index_entries:
            if entry.file.index_type == HASH:
                hash_indexes[entry.partition].append(entry)
        return cls(
            columns,
            BytesColumn.of(columns.partitions),
            None if sees_all else live.select(~visible),
            VectorPlaces.find(index_entries, Files(columns, tuple(manifests))),
            dict(hash_indexes),
        )

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        index_files = sum(map(len, self.hash_indexes.values()))
        return (
            self.columns.nbytes
            + (0 if self.hidden is None else self.hidden.nbytes)
            + self.partitions.nbytes
            + self.vectors.nbytes
            + _MEMORY_PER_INDEX_FILE * index_files
        )


def keeps_one_version(schema: TableSchema) -> bool:
    """Whether the visible files of a primary key table hold at most one live version of a key."""
    return schema.options.deletion_vectors or schema.merge_engine is MergeEngine.FIRST_ROW


def _is_visible(files: FileColumns, schema: TableSchema) -> NDArray[np.bool_]:
    visible: NDArray[np.bool_] = files.buckets != POSTPONED_BUCKET
    if schema.primary_keys and keeps_one_version(schema):
        visible &= files.levels != 0
    return visible


@dataclass(slots=True)
class Version:
    """One version of one table during one request.

    Attributes:
        table: the table.
        resolved: which version.
        loader: loads its index files.
        read_contents: reads, or remembers, which files it has, given its manifests.
        resolving_ms: how long it took to find out which version is meant.
        partitions: values of the partitions met so far, by partition row.
    """

    table: Table
    resolved: ResolvedSnapshot
    loader: IndexLoader
    read_contents: Callable[[Sequence[Manifest]], VersionContents]
    resolving_ms: float = 0.0
    partitions: dict[bytes, tuple[Value | None, ...]] = field(default_factory=dict)
    _schemas: dict[int, TableSchema] = field(default_factory=dict)
    _manifest_files: tuple[ManifestFile, ...] | None = None
    _manifests: tuple[Manifest, ...] | None = None
    _contents: VersionContents | None = None

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The version's manifests, read when somebody first asks; they stay for the request.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
        """
        if self._manifests is None:
            self._manifests = self.table.manifests(self.resolved)
        return self._manifests

    @property
    def manifest_files(self) -> tuple[ManifestFile, ...]:
        """The version's manifests as their lists name them.

        Raises:
            SnapshotExpiredError: the version went away.
        """
        if self._manifest_files is None:
            self._manifest_files = self.table.manifest_files(self.resolved)
        return self._manifest_files

    def keep_derived(self) -> None:
        """Has the cache weigh manifests anew of which more is known than before."""
        for at, manifest in enumerate(self._manifests or ()):
            if manifest.derived.has_grown():
                self.table.keep(self.manifest_files[at], manifest)

    @property
    def contents(self) -> VersionContents:
        """Which files the version has.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
        """
        if self._contents is None:
            with during(Phase.LOAD):
                self._contents = self.read_contents(self.manifests)
        return self._contents

    @property
    def files(self) -> Files:
        """The data files that a batch read of the version sees."""
        return Files(self.contents.columns, self.manifests)

    @property
    def hidden_files(self) -> Files | None:
        """The data files of the version that no batch read sees; None where there are none."""
        hidden = self.contents.hidden
        return None if hidden is None else Files(hidden, self.manifests)

    @property
    def identity(self) -> str:
        """Changes with anything that could change an answer."""
        return self.resolved.identity

    @property
    def schema_id(self) -> int:
        """Number of the schema that filters refer to."""
        return self.schema.id

    @property
    def schema(self) -> TableSchema:
        """The schema that filters refer to."""
        return self.resolved.schema

    @property
    def snapshot_id(self) -> int | None:
        """None for a table that was never written to."""
        return None if self.resolved.snapshot is None else self.resolved.snapshot.id

    def relation(self, alias: str | None) -> Relation:
        """What a query calls the table, whose alias hides its name."""
        if alias is not None:
            return Relation(alias)
        return Relation(self.table.name, self.table.database, self.resolved.branch)

    def file_schema(self, schema_id: int) -> TableSchema:
        """The schema that data files with this schema number were written with."""
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = self.table.schema(self.resolved, schema_id)
        return found

    def partition(self, row: bytes) -> tuple[Value | None, ...]:
        """The values of a partition row, in the order of the partition columns."""
        found = self.partitions.get(row)
        if found is None:
            found = self.partitions[row] = partition_values(row, self.schema)
        return found

    def partition_json(self, row: bytes) -> Mapping[str, Json]:
        """The values of a partition row as typed JSON by column name."""
        return partition_json(row, self.schema)

    def vector_numbers(self, files: NDArray[np.int64]) -> NDArray[np.int32]:
        """Which deletion vector each file has, -1 for none or where the table's options do not honour it."""
        if not self.schema.options.deletion_vectors:
            return np.full(len(files), -1, np.int32)
        return self.contents.vectors.numbers[files]

    def vector(self, file: int) -> tuple[IndexEntry, DeletionRange] | None:
        """Where the deletion vector of a file lies."""
        number = int(self.vector_numbers(np.array([file]))[0])
        return None if number < 0 else self.contents.vectors.places[number]

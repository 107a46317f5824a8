"""One version of one table, as everything that plans needs it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.table.index_manifest import DELETION_VECTORS, HASH
from app.table.options import MergeEngine
from app.table.partition import partition_values
from app.table.paths import POSTPONED_BUCKET
from app.types import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.planning.indexes import IndexLoader
    from app.table.index_manifest import DeletionRange, IndexEntry
    from app.table.manifest_entry import ManifestEntry
    from app.table.schema import TableSchema
    from app.table.table import ResolvedSnapshot, Table
    from app.types import Json, Value

_MEMORY_PER_ENTRY = 300


@dataclass(frozen=True, slots=True)
class VersionContents:
    """The files of a version, sorted for look-ups; cached by the version's identity.

    Attributes:
        visible: data files that a batch read sees, in manifest order.
        invisible: number of those that it never sees.
        vectors: where the deletion vector of ``(partition, bucket, file name)`` lies.
        hash_indexes: hash index files by partition.
        nbytes: about how much memory the object takes, the manifest entries it holds included.
    """

    visible: tuple[ManifestEntry, ...]
    invisible: int
    vectors: Mapping[tuple[bytes, int, str], tuple[IndexEntry, DeletionRange]]
    hash_indexes: Mapping[bytes, Sequence[IndexEntry]]
    nbytes: int

    @classmethod
    def read(cls, table: Table, resolved: ResolvedSnapshot) -> VersionContents:
        """Reads the manifests of a version."""
        live = table.live_files(resolved)
        visible = tuple(entry for entry in live if _is_visible(entry, resolved.schema))
        vectors = {}
        hash_indexes = defaultdict(list)
        for entry in table.index_entries(resolved):
            if entry.index_type == DELETION_VECTORS:
                for place in entry.ranges:
                    vectors[entry.partition, entry.bucket, place.data_file] = (entry, place)
            elif entry.index_type == HASH:
                hash_indexes[entry.partition].append(entry)
        held = sum(_MEMORY_PER_ENTRY + entry.file.nbytes for entry in visible) + _MEMORY_PER_ENTRY * len(
            vectors
        )
        return cls(visible, len(live) - len(visible), vectors, dict(hash_indexes), held)


def keeps_one_version(schema: TableSchema) -> bool:
    """Whether the visible files of a primary key table hold at most one live version of a key."""
    return schema.options.deletion_vectors or schema.merge_engine is MergeEngine.FIRST_ROW


def _is_visible(entry: ManifestEntry, schema: TableSchema) -> bool:
    if entry.bucket == POSTPONED_BUCKET:
        return False
    return not (schema.primary_keys and entry.file.level == 0 and keeps_one_version(schema))


@dataclass(slots=True)
class Version:
    """One version of one table during one request.

    Attributes:
        table: the table.
        resolved: which version.
        loader: loads its index files.
        read_contents: reads, or remembers, its files.
        resolving_ms: how long it took to find out which version is meant.
        partitions: values of the partitions met so far, by partition row.
    """

    table: Table
    resolved: ResolvedSnapshot
    loader: IndexLoader
    read_contents: Callable[[], VersionContents]
    resolving_ms: float = 0.0
    partitions: dict[bytes, tuple[Value | None, ...]] = field(default_factory=dict)
    _schemas: dict[int, TableSchema] = field(default_factory=dict)
    _contents: VersionContents | None = None

    @property
    def contents(self) -> VersionContents:
        """The version's files, read when somebody first asks.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
        """
        if self._contents is None:
            self._contents = self.read_contents()
        return self._contents

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

    def file_schema(self, entry: ManifestEntry) -> TableSchema:
        """The schema that a data file was written with."""
        found = self._schemas.get(entry.file.schema_id)
        if found is None:
            found = self._schemas[entry.file.schema_id] = self.table.schema(
                self.resolved, entry.file.schema_id
            )
        return found

    def partition(self, row: bytes) -> tuple[Value | None, ...]:
        """The values of a partition row, in the order of the partition columns."""
        found = self.partitions.get(row)
        if found is None:
            found = self.partitions[row] = partition_values(row, self.schema)
        return found

    def partition_json(self, row: bytes) -> Mapping[str, Json]:
        """The values of a partition row as typed JSON by column name."""
        fields = self.schema.partition_fields
        return {
            each.name: to_json(value, each.type)
            for each, value in zip(fields, self.partition(row), strict=True)
        }

    def vector(self, entry: ManifestEntry) -> tuple[IndexEntry, DeletionRange] | None:
        """Where the deletion vector of a data file lies, if it has one and the table's options honour it."""
        if not self.schema.options.deletion_vectors:
            return None
        return self.contents.vectors.get((entry.partition, entry.bucket, entry.file.file_name))

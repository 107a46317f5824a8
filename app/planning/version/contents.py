"""Which files a version of a table has, and where that is remembered."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.options.table_options import MergeEngine
from app.planning.version.files import Files
from app.planning.version.live_files import LiveFiles
from app.planning.version.vector_places import VectorPlaces
from app.table.paths import POSTPONED_BUCKET
from app.types.bytes_column import BytesColumn
from app.types.index_files import HASH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from app.planning.version.files import FileColumns
    from app.storage import ByteCache
    from app.table.manifests.index_manifest import IndexEntry
    from app.table.manifests.manifest import Manifest
    from app.table.resolution import ResolvedSnapshot
    from app.table.schema.schema import TableSchema
    from app.table.table import Table

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


@dataclass(frozen=True, slots=True)
class ContentsCache:
    """Remembers which files versions of the tables of one warehouse have.

    Attributes:
        cache: where that is kept, shared with other warehouses.
        warehouse: its name.
    """

    cache: ByteCache[Any]
    warehouse: str

    def read(
        self, table: Table, resolved: ResolvedSnapshot, manifests: Sequence[Manifest]
    ) -> VersionContents:
        """The contents of a version, given all of its manifests.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: its index manifest is damaged.
        """

        def read() -> VersionContents:
            keys = table.manifest_files(resolved)
            newest = ("files", self.warehouse, resolved.directory)
            # Mostly the version before is known, and this one has some files more.
            live = LiveFiles.of(keys, manifests, self.cache.get(newest))
            self.cache.put(newest, live)
            return VersionContents.read(
                live.columns, manifests, table.index_entries(resolved), resolved.schema
            )

        contents: VersionContents = self.cache.get_or_load(("contents", resolved.identity), read)
        return contents

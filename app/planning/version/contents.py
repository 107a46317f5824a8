"""Which files a version of a table has, and where that is remembered.

They are kept on the disk as well, for the processes that start later. One entry for each table and branch
holds the files of a version that was planned. What another version has more than that, as after a commit, is
added as :class:`LiveFiles` does it, so that the entry need not be written anew with each commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.planning.version.files import FileColumns, Files
from app.planning.version.live_files import LiveFiles
from app.planning.version.needed_manifests import NeededManifests
from app.planning.version.passing_manifests import PassingManifests
from app.planning.version.vector_places import VectorPlaces
from app.storage import ByteCache
from app.storage.kept_arrays import KeptArrays
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.kept_values import keep_value, kept_value
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest import Manifest
from app.table.paths import POSTPONED_BUCKET
from app.table.resolution import ResolvedSnapshot
from app.table.schema.schema import TableSchema
from app.table.table import Table
from app.types.bytes_column import BytesColumn
from app.types.index_files import HASH

FORM: Final = "live files 1"
"""What the entry is called among all that is made of a table."""

LEAST_FILES: Final = 10_000
"""Fewer are put together from their manifests in as little time."""
_NEW_SHARE: Final = 8
"""An entry is written anew when more than one file in so many is missing in it."""


def open_live_files(place: KeptArrays) -> LiveFiles | None:
    """The files of the version that was kept, if there is one; their columns are mapped."""
    found = kept_value(place)
    if found is None:
        return None
    starts, some = found["starts"], found["some"]
    ends = np.cumsum(np.diff(starts)[some])[:-1]
    pieces = iter(np.split(found["rows"], ends))
    columns = FileColumns(
        rows=tuple(next(pieces) if chosen else None for chosen in some.tolist()),
        starts=starts,
        partitions=found["partitions"],
        **found["columns"],
    )
    names = (name.decode(errors="surrogatepass") for name in found["names"])
    keys = tuple(zip(names, found["sizes"].tolist(), strict=True))
    return LiveFiles(keys, columns, found["removing"].tolist(), kept=len(columns))


def keep_live_files(place: KeptArrays, live: LiveFiles) -> LiveFiles:
    """Keeps the files of a version if many of them are not kept yet.

    Returns:
        The same files, which know how many of them are kept.
    """
    columns = live.columns
    missing = len(columns) - live.kept
    if len(columns) < LEAST_FILES or missing * _NEW_SHARE <= len(columns):
        return live
    some = [rows for rows in columns.rows if rows is not None]
    value = {
        "names": tuple(name.encode(errors="surrogatepass") for name, _ in live.keys),
        "sizes": np.array([size for _, size in live.keys], np.int64),
        "removing": np.array(live.removing, np.int64),
        "starts": columns.starts,
        "some": np.array([rows is not None for rows in columns.rows], np.bool_),
        "rows": np.concatenate([np.zeros(0, np.int64), *some]),
        "partitions": columns.partitions,
        "columns": columns.arrays,
    }
    keep_value(place, value)
    return replace(live, kept=len(columns))


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
        decoded_bytes: memory that the manifests take at least, if they are kept.
    """

    columns: FileColumns
    partitions: BytesColumn
    hidden: FileColumns | None
    vectors: VectorPlaces
    hash_indexes: Mapping[bytes, Sequence[IndexEntry]]
    decoded_bytes: int

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
            VectorPlaces.find(index_entries, Files(columns, manifests)),
            dict(hash_indexes),
            manifests.decoded_bytes
            if isinstance(manifests, PassingManifests)
            else sum(manifest.decoded_bytes for manifest in manifests),
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


def _is_visible(files: FileColumns, schema: TableSchema) -> NDArray[np.bool_]:
    visible: NDArray[np.bool_] = files.buckets != POSTPONED_BUCKET
    if schema.hides_level_zero:
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

    def warnings(self, contents: VersionContents) -> list[str]:
        """What a caller has to know of every plan of a version, whatever the filter."""
        capacity = self.cache.capacity
        if not 0 < capacity < contents.decoded_bytes:
            return []
        told = (
            f"the version's manifests take {contents.decoded_bytes} bytes of memory, and the cache for them "
            f"has {capacity}: most of them are read again for each plan, unless "
            "PAIMON_INDEX_MEMORY_BYTES is raised, or PAIMON_INDEX_DISK_CACHE a directory"
        )
        return [told]

    def decoded_bytes(self, resolved: ResolvedSnapshot, needed: NeededManifests | None) -> int | None:
        """Memory that manifests of a version take if they are kept; None where nobody has read them.

        Args:
            resolved: the version.
            needed: which of its manifests; None for all.
        """
        known: _DecodedBytes | None = self.cache.get(_key("decoded bytes", resolved, needed))
        return None if known is None else known.count

    def read(
        self,
        table: Table,
        resolved: ResolvedSnapshot,
        manifests: Sequence[Manifest],
        needed: NeededManifests | None = None,
    ) -> VersionContents:
        """The contents of a version, or what some of its manifests tell of them.

        Args:
            table: the table.
            resolved: the version.
            manifests: all of its manifests, or those that are needed.
            needed: which these are; None for all.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: its index manifest is damaged.
        """

        def read() -> VersionContents:
            keys = table.contents.manifest_files(resolved)
            newest = ("files", self.warehouse, resolved.directory)
            is_large = isinstance(manifests, PassingManifests) or sum(map(len, manifests)) >= LEAST_FILES
            place = table.contents.place_of_versions(resolved, FORM) if is_large else None
            known: LiveFiles | None = self.cache.get(newest)
            if known is None and place is not None:
                known = open_live_files(place)
            if needed is None:
                # Mostly the version before is known, and this one has some files more.
                known = LiveFiles.of(keys, manifests, known)
                if place is not None:
                    known = keep_live_files(place, known)
                self.cache.put(newest, known)
                columns = known.columns
            elif known is not None and not known.removing and known.is_of(keys):
                columns = known.columns.of_manifests(np.flatnonzero(needed.are_needed))
            else:
                columns = FileColumns.of(manifests, live_rows(manifests))
            return VersionContents.read(
                columns, manifests, table.contents.index_entries(resolved), resolved.schema
            )

        contents: VersionContents = self.cache.get_or_load(_key("contents", resolved, needed), read)
        weight = _DecodedBytes(contents.decoded_bytes)
        self.cache.put(_key("decoded bytes", resolved, needed), weight)
        return contents


@dataclass(frozen=True, slots=True)
class _DecodedBytes:
    """What the manifests of a version take; remembered even where there is no room for its contents."""

    count: int
    nbytes: int = 100


def _key(
    what: str, resolved: ResolvedSnapshot, needed: NeededManifests | None
) -> tuple[str, str, str | None]:
    """What tells something about a version, or about some of its manifests, from all others."""
    return what, resolved.identity, None if needed is None else needed.digest

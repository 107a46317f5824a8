"""Contents of a table's versions: files, places of deletion vectors, hash indexes, and their cache.

Most commits add a manifest and remove no file. Then the files of the other manifests keep their numbers, and
only the new manifest is decoded. Of large tables, the disk has the files, for processes that start later: one
entry per table and branch, rewritten when it lacks many files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.global_index import KINDS
from app.planning.version.files import FileColumns, Files
from app.storage import TierEntry
from app.table import POSTPONED_BUCKET, ResolvedSnapshot, Table, TableSchema
from app.table.manifests import (
    Derived,
    IndexEntry,
    Manifest,
    ManifestFile,
    live_and_removing,
    live_rows,
    load_value,
    removes_files,
    store_value,
)
from app.types import BytesColumn, own_bytes
from app.types.digest import content_digest
from app.types.index_files import DELETION_VECTORS, HASH, DeletionRange, IndexFileMeta

FORM: Final = "live files 1"
"""Name of the entry among everything derived from a table."""

LEAST_FILES: Final = 10_000
"""Gathering fewer files from manifests takes no longer than reading the entry."""
# An entry is rewritten when it lacks more than one file in this many.
_NEW_SHARE: Final = 8
_BYTES_OF_KEY: Final = 300

UNKNOWN_CARDINALITY: Final = -1

_NONE: Final = -1
_MEMORY_PER_PLACE: Final = 400

_MEMORY_PER_INDEX_FILE = 1_000


@dataclass(frozen=True, eq=False)
class NeededManifests:
    """The manifests that a filter needs, and totals of all manifests."""

    are_needed: NDArray[np.bool_]  # Shape (manifests,).
    files: int  # Files of the version, including those that no batch read sees.
    rows: int  # Rows of these.

    def of(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Select the needed ones of all manifests."""
        return tuple(compress(manifests, self.are_needed))

    @cached_property
    def digest(self) -> str:
        """Key of the set of needed manifests."""
        return content_digest(self.are_needed.tobytes())


@dataclass(frozen=True, slots=True, eq=False)
class VersionFiles:
    """Files of a version, hidden ones included. The first ``on_disk`` of them are in the entry."""

    keys: Sequence[ManifestFile]
    columns: FileColumns
    removing: Sequence[int]
    on_disk: int = 0

    @classmethod
    def of(
        cls, keys: Sequence[ManifestFile], manifests: Sequence[Manifest], other: VersionFiles | None = None
    ) -> Self:
        """Gather the files of a version, starting from those of another version."""
        shared = 0 if other is None else _common(keys, other.keys)
        if (
            other is None
            or any(at >= shared for at in other.removing)
            or any(map(removes_files, manifests[shared:]))
        ):
            # A removal may hit any manifest before it, so nothing of the other version can be kept.
            live, removing = live_and_removing(manifests)
            return cls(keys, FileColumns.of(manifests, live), removing)
        before, added = other.columns.first(shared), manifests[shared:]
        on_disk = min(other.on_disk, len(before))
        if not added:
            return cls(keys, before, other.removing, on_disk)
        # A manifest that removes files may precede the one that adds them.
        rows = live_rows([manifests[at] for at in (*other.removing, *range(shared, len(keys)))])
        rows = rows[len(other.removing) :]
        return cls(keys, before.followed_by(FileColumns.of(added, rows)), other.removing, on_disk)

    def is_of(self, keys: Sequence[ManifestFile]) -> bool:
        """Return True if the version whose manifests have these keys has these files."""
        return len(keys) == len(self.keys) == _common(keys, self.keys)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return self.columns.nbytes + _BYTES_OF_KEY * len(self.keys)


def open_version_files(entry: TierEntry) -> VersionFiles | None:
    """Read an entry, mapping its columns. Return None if there is none."""
    stored = load_value(entry)
    if stored is None:
        return None
    starts, is_partial = stored["starts"], stored["some"]
    ends = np.cumsum(np.diff(starts)[is_partial])[:-1]
    pieces = iter(np.split(stored["rows"], ends))
    columns = FileColumns(
        rows=tuple(next(pieces) if chosen else None for chosen in is_partial.tolist()),
        starts=starts,
        partitions=stored["partitions"],
        **stored["columns"],
    )
    names = (name.decode(errors="surrogatepass") for name in stored["names"])
    keys = tuple(zip(names, stored["sizes"].tolist(), strict=True))
    return VersionFiles(keys, columns, stored["removing"].tolist(), on_disk=len(columns))


def store_version_files(entry: TierEntry, files: VersionFiles) -> VersionFiles:
    """Write an entry, unless it has most of the files."""
    columns = files.columns
    missing = len(columns) - files.on_disk
    if len(columns) < LEAST_FILES or missing * _NEW_SHARE <= len(columns):
        return files
    partial_rows = [rows for rows in columns.rows if rows is not None]
    value = {
        "names": tuple(name.encode(errors="surrogatepass") for name, _ in files.keys),
        "sizes": np.array([size for _, size in files.keys], np.int64),
        "removing": np.array(files.removing, np.int64),
        "starts": columns.starts,
        "some": np.array([rows is not None for rows in columns.rows], np.bool_),
        "rows": np.concatenate([np.zeros(0, np.int64), *partial_rows]),
        "partitions": columns.partitions,
        "columns": columns.arrays,
    }
    store_value(entry, value)
    return replace(files, on_disk=len(columns))


def _common(keys: Sequence[ManifestFile], other_keys: Sequence[ManifestFile]) -> int:
    # The usual case: all of them. One comparison of lists is fastest.
    if [*keys[: len(other_keys)]] == [*other_keys]:
        return len(other_keys)
    pairs = enumerate(zip(keys, other_keys, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(keys), len(other_keys)))


@dataclass(frozen=True, slots=True, eq=False)
class VectorPlaces:
    """The deletion vectors of some files."""

    places: tuple[tuple[IndexEntry, DeletionRange], ...]
    # Shape (vectors,): deleted rows, -1 if the manifest does not count them.
    cardinalities: NDArray[np.int64]
    numbers: NDArray[np.int32]  # Shape (files,): each file's vector, -1 for none.

    @classmethod
    def find(cls, entries: Sequence[IndexEntry], files: Files) -> Self:
        """Find the vectors of ``files`` in index files. The later of two for one file holds."""
        places = tuple(
            (entry, place)
            for entry in entries
            if entry.file.index_type == DELETION_VECTORS
            for place in entry.file.ranges
        )
        cardinalities = [
            UNKNOWN_CARDINALITY if place.cardinality is None else place.cardinality for _, place in places
        ]
        # A broadcast number takes no memory.
        numbers = np.broadcast_to(np.int32(_NONE), len(files))
        if places:
            numbers = numbers.copy()
            names = pa.array([place.data_file.encode() for _, place in places], pa.large_binary())
            named = np.flatnonzero(pc.is_in(files.names(files.all()), value_set=names))
            by_file = {
                (entry.partition, entry.bucket, place.data_file): number
                for number, (entry, place) in enumerate(places)
            }
            numbers[named] = [
                by_file.get((*files.path(file), files.name(file)), _NONE) for file in named.tolist()
            ]
        return cls(places, np.array(cardinalities, np.int64), numbers)

    def deleted_rows(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Count the rows that vectors delete, shape (n,): 0 without a vector, -1 if unknown."""
        return np.append(self.cardinalities, 0)[numbers]

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return own_bytes(self.numbers) + _MEMORY_PER_PLACE * len(self.places)


@dataclass(frozen=True, slots=True, eq=False)
class VersionContents:
    """Contents of a version, cached by its identity without the manifests."""

    columns: FileColumns
    partitions: BytesColumn
    # Data files that readers never see (level 0 of tables with deletion vectors or first-row, postponed
    # buckets, other levels than the one read), in manifest order; None without any.
    hidden: FileColumns | None
    vectors: VectorPlaces
    hash_indexes: Mapping[bytes, Sequence[IndexEntry]]
    # Without those that the table's options forbid to read.
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
        is_large = sum(map(len, manifests)) >= LEAST_FILES
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

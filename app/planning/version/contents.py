"""Which files a version of a table has, where their deletion vectors and hash indexes lie, and its cache.

Most commits add a manifest to those that were there, and remove no file. Then the files of the other
manifests are still there under their numbers, and only entries of the new manifest are looked at.

Large tables have their files on the disk as well, for processes that start later: one entry for each table
and branch, with the files of a version that was planned. It is written anew when it lacks many files.
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


@dataclass(frozen=True, eq=False)
class NeededManifests:
    """The manifests that a filter needs, and what lists and snapshot say of all of them.

    Attributes:
        are_needed: bool, shape (manifests,).
        files: how many files the version has, those that no batch read sees included.
        rows: how many rows these have.
    """

    are_needed: NDArray[np.bool_]
    files: int
    rows: int

    def of(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Selects the needed ones of all manifests."""
        return tuple(compress(manifests, self.are_needed))

    @cached_property
    def digest(self) -> str:
        """Differs between sets of needed manifests of one version."""
        return content_digest(self.are_needed.tobytes())


FORM: Final = "live files 1"
"""What the entry is called among all that is made of a table."""

LEAST_FILES: Final = 10_000
"""Fewer are put together from their manifests in as little time."""
_NEW_SHARE: Final = 8
"""An entry is written anew when more than one file in so many is missing in it."""
_BYTES_OF_KEY: Final = 300


@dataclass(frozen=True, slots=True, eq=False)
class VersionFiles:
    """The files of a version, hidden ones included, of which the first ``on_disk`` lie on the disk."""

    keys: Sequence[ManifestFile]
    columns: FileColumns
    removing: Sequence[int]
    on_disk: int = 0

    @classmethod
    def of(
        cls, keys: Sequence[ManifestFile], manifests: Sequence[Manifest], other: VersionFiles | None = None
    ) -> Self:
        """The files of a version."""
        same = 0 if other is None else _common(keys, other.keys)
        if (
            other is None
            or any(at >= same for at in other.removing)
            or any(map(removes_files, manifests[same:]))
        ):
            live, removing = live_and_removing(manifests)
            return cls(keys, FileColumns.of(manifests, live), removing)
        before, added = other.columns.first(same), manifests[same:]
        on_disk = min(other.on_disk, len(before))
        if not added:
            return cls(keys, before, other.removing, on_disk)
        # What is added may have been removed before.
        rows = live_rows([manifests[at] for at in (*other.removing, *range(same, len(keys)))])
        rows = rows[len(other.removing) :]
        return cls(keys, before.followed_by(FileColumns.of(added, rows)), other.removing, on_disk)

    def is_of(self, keys: Sequence[ManifestFile]) -> bool:
        """Whether these are the files of the version whose manifests have these keys."""
        return len(keys) == len(self.keys) == _common(keys, self.keys)

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return self.columns.nbytes + _BYTES_OF_KEY * len(self.keys)


def open_version_files(entry: TierEntry) -> VersionFiles | None:
    """The files of the version that lies on the disk, if there is one; their columns are mapped."""
    stored = load_value(entry)
    if stored is None:
        return None
    starts, some = stored["starts"], stored["some"]
    ends = np.cumsum(np.diff(starts)[some])[:-1]
    pieces = iter(np.split(stored["rows"], ends))
    columns = FileColumns(
        rows=tuple(next(pieces) if chosen else None for chosen in some.tolist()),
        starts=starts,
        partitions=stored["partitions"],
        **stored["columns"],
    )
    names = (name.decode(errors="surrogatepass") for name in stored["names"])
    keys = tuple(zip(names, stored["sizes"].tolist(), strict=True))
    return VersionFiles(keys, columns, stored["removing"].tolist(), on_disk=len(columns))


def store_version_files(entry: TierEntry, files: VersionFiles) -> VersionFiles:
    """Writes the files of a version to the disk if many of them are not there yet."""
    columns = files.columns
    missing = len(columns) - files.on_disk
    if len(columns) < LEAST_FILES or missing * _NEW_SHARE <= len(columns):
        return files
    some = [rows for rows in columns.rows if rows is not None]
    value = {
        "names": tuple(name.encode(errors="surrogatepass") for name, _ in files.keys),
        "sizes": np.array([size for _, size in files.keys], np.int64),
        "removing": np.array(files.removing, np.int64),
        "starts": columns.starts,
        "some": np.array([rows is not None for rows in columns.rows], np.bool_),
        "rows": np.concatenate([np.zeros(0, np.int64), *some]),
        "partitions": columns.partitions,
        "columns": columns.arrays,
    }
    store_value(entry, value)
    return replace(files, on_disk=len(columns))


def _common(keys: Sequence[ManifestFile], others: Sequence[ManifestFile]) -> int:
    # Mostly these are all of the others, which is told fastest of all of them together.
    if [*keys[: len(others)]] == [*others]:
        return len(others)
    pairs = enumerate(zip(keys, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(keys), len(others)))


UNKNOWN_CARDINALITY: Final = -1

_NONE: Final = -1
_MEMORY_PER_PLACE: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class VectorPlaces:
    """The deletion vectors of some files.

    ``cardinalities``: int64, shape (vectors,): deleted rows, -1 where the index manifest does not tell.
    ``numbers``: int32, shape (files,): each file's vector, -1 for none.
    """

    places: tuple[tuple[IndexEntry, DeletionRange], ...]
    cardinalities: NDArray[np.int64]
    numbers: NDArray[np.int32]

    @classmethod
    def find(cls, entries: Sequence[IndexEntry], files: Files) -> Self:
        """The vectors in some index files that belong to ``files``; of two for one the later one holds."""
        places = tuple(
            (entry, place)
            for entry in entries
            if entry.file.index_type == DELETION_VECTORS
            for place in entry.file.ranges
        )
        cardinalities = [
            UNKNOWN_CARDINALITY if place.cardinality is None else place.cardinality for _, place in places
        ]
        # One number that stands for all of them takes no memory.
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
        """How many rows vectors delete, shape (n,): 0 for no vector, -1 where nobody counted."""
        return np.append(self.cardinalities, 0)[numbers]

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return own_bytes(self.numbers) + _MEMORY_PER_PLACE * len(self.places)


_MEMORY_PER_INDEX_FILE = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class VersionContents:
    """Which files a version has; cached by the version's identity, without the manifests it is read from.

    Attributes:
        hidden: data files that it never sees (level 0 of tables with deletion vectors or first-row, postponed
            buckets, other levels than the one that is read), in manifest order; None where it sees all.
        global_indexes: entries of the global indexes that are read here, by the id of their column.
        other_indexes: the kinds of index files that the engine alone reads, such as those of vectors.
        columns_bytes: memory of ``columns`` beside that of an earlier version in the same place.
        derived: what was worked out of these once.
    """

    columns: FileColumns
    partitions: BytesColumn
    hidden: FileColumns | None
    vectors: VectorPlaces
    hash_indexes: Mapping[bytes, Sequence[IndexEntry]]
    global_indexes: Mapping[int, Sequence[IndexEntry]]
    other_indexes: frozenset[str]
    columns_bytes: int
    derived: Derived = field(default_factory=Derived)

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
        """The contents of a version.

        ``level``: the only one that is read; None for all. ``before``: of an earlier version, which ``live``
        may lie in the same place as.
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
        """About how much memory the object takes."""
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
    """The column that a global index which is read here tells rows by; None of other index files."""
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
    """The contents of a version, or what some of its manifests tell of them; remembered.

    Raises SnapshotExpiredError: the version went away. Raises CorruptMetadataError: its index manifest is
    damaged.
    """
    cache = table.reader.manifests

    def read() -> VersionContents:
        keys = table.metadata.manifest_files(resolved)
        newest = ("files", table.reader.storage.name, resolved.directory)
        is_large = sum(map(len, manifests)) >= LEAST_FILES
        entry = table.metadata.entry_of_versions(resolved, FORM) if is_large else None
        known: VersionFiles | None = cache.get(newest)
        before: FileColumns | None = None
        if known is None and entry is not None:
            known = open_version_files(entry)
        if needed is None:
            # Mostly the version before is known, and this one has some files more.
            before = None if known is None else known.columns
            known = VersionFiles.of(keys, manifests, known)
            if entry is not None:
                known = store_version_files(entry, known)
            cache.put(newest, known)
            columns = known.columns
        elif known is not None and not known.removing and known.is_of(keys):
            columns = known.columns.of_manifests(np.flatnonzero(needed.are_needed))
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
    """Weighs contents anew, of which more is known than when they were read."""
    table.reader.manifests.put(_key(resolved, needed), contents)


def _key(resolved: ResolvedSnapshot, needed: NeededManifests | None) -> Hashable:
    return "contents", resolved.identity, None if needed is None else needed.digest

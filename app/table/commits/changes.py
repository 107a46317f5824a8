"""Changes of a commit, and the checks that they still fit the latest snapshot.

A commit is computed from an earlier snapshot. The checks are the engine's, except for index files of bucketed
tables: the engine relies on one writer for each bucket, and replaces whatever is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.errors import CommitConflictError
from app.table.manifests.index_manifest import IndexEntry, takes_place
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.table.schema.schema import BucketMode
from app.types.index_files import DELETION_VECTORS, HASH

# Serialized partition row, and bucket number.
Bucket: TypeAlias = "tuple[bytes, int]"


@dataclass(frozen=True, slots=True)
class Expectations:
    """State that a commit was computed from. The highest sequence number of an empty bucket is -1."""

    # New rows continue a bucket's sequence numbers: rows of a concurrent commit would win over them, or tie.
    sequences: Mapping[Bucket, int] = field(default_factory=dict)
    # A concurrent commit may have put keys that are new here into other buckets.
    hash_indexes: Mapping[bytes, frozenset[str]] = field(default_factory=dict)

    def check(self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry]) -> None:
        """Check a snapshot. Raises CommitConflictError if another commit has changed the state."""
        if self.sequences:
            now = highest_sequences(manifests)
            for (partition, bucket), expected in self.sequences.items():
                actual = now.get((partition, bucket), -1)
                if actual > expected:
                    raise CommitConflictError(
                        f"bucket {bucket} of a partition has rows up to sequence number {actual} now: "
                        f"another commit has added some"
                    )
        names = hash_index_names(index_entries)
        for partition, listed in self.hash_indexes.items():
            if names.get(partition, frozenset()) != listed:
                raise CommitConflictError("another commit has changed the hash indexes of a partition")


def highest_sequences(manifests: Sequence[Manifest]) -> dict[Bucket, int]:
    """Return the highest sequence number of each bucket that has files."""
    by_bucket: dict[Bucket, int] = {}
    for manifest, rows in zip(manifests, live_rows(manifests), strict=True):
        pairs = np.stack([manifest.partition_codes[rows], manifest.buckets[rows]], axis=1)
        distinct, places = np.unique(pairs, axis=0, return_inverse=True)
        highest = np.full(len(distinct), -1, np.int64)
        np.maximum.at(highest, places.reshape(-1), manifest.max_sequence_numbers[rows])
        for (code, bucket), number in zip(distinct.tolist(), highest.tolist(), strict=True):
            key = (manifest.partitions[code], bucket)
            by_bucket[key] = max(number, by_bucket.get(key, -1))
    return by_bucket


def hash_index_names(index_entries: Collection[IndexEntry]) -> dict[bytes, frozenset[str]]:
    """Return the names of hash indexes by partition."""
    by_partition: dict[bytes, set[str]] = {}
    for entry in index_entries:
        if entry.file.index_type == HASH:
            by_partition.setdefault(entry.partition, set()).add(entry.file.file_name)
    return {partition: frozenset(names) for partition, names in by_partition.items()}


# Partition, bucket, level, name, extra files, embedded index, external path: identifies a data file.
Identity: TypeAlias = "tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]"


_NOTHING_EXPECTED: Final = Expectations()


class CommitKind(StrEnum):
    """Kind of a commit, as snapshots record it."""

    # Adds rows.
    APPEND = "APPEND"
    # Rewrites rows without changing them.
    COMPACT = "COMPACT"
    # Removes rows.
    OVERWRITE = "OVERWRITE"


@dataclass(frozen=True, slots=True)
class Changes:
    """Additions and removals of a commit. A data file whose metadata changes is removed and added."""

    kind: CommitKind
    files: tuple[ManifestEntry, ...] = ()
    index_files: tuple[IndexEntry, ...] = ()
    expected: Expectations = _NOTHING_EXPECTED

    def files_of(self, kind: FileKind) -> list[ManifestEntry]:
        """Return the entries that add data files, or those that remove them."""
        return [entry for entry in self.files if entry.kind is kind]

    @property
    def row_count(self) -> int:
        """Rows that data files gain, deleted ones included."""
        added, removed = (
            sum(entry.file.row_count for entry in self.files_of(kind))
            for kind in (FileKind.ADD, FileKind.DELETE)
        )
        return added - removed

    def check(
        self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry], mode: BucketMode
    ) -> None:
        """Check that the changes fit a snapshot. Raises CommitConflictError if they do not."""
        vectors = [
            (entry, vector.data_file)
            for entry in self.index_files
            if entry.kind is FileKind.ADD and entry.file.index_type == DELETION_VECTORS
            for vector in entry.file.ranges
        ]
        names = {entry.file.file_name for entry in self.files} | {name for _, name in vectors}
        live = live_entries(manifests, names)
        self._check_files(live, removed_identities(manifests, names))
        if self.kind is not CommitKind.OVERWRITE:
            self._check_buckets(manifests)
        self._check_index_files(index_entries, mode)
        self.expected.check(manifests, index_entries)
        remaining = live.keys() - {identity(entry) for entry in self.files_of(FileKind.DELETE)}
        remaining |= {identity(entry) for entry in self.files_of(FileKind.ADD)}
        files = {(partition, bucket, name) for partition, bucket, _, name, *_ in remaining}
        for entry, name in vectors:
            # A deletion vector must belong to a data file that exists after the commit.
            if (entry.partition, entry.bucket, name) not in files:
                raise CommitConflictError(
                    f"rows of data file {name!r} cannot be deleted: another commit has removed the file"
                )

    def are_in(self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry]) -> bool:
        """Return True if a snapshot contains the changes."""
        # Names of added files are unique to a commit, so additions identify it.
        added = self.files_of(FileKind.ADD)
        if added:
            names = {entry.file.file_name for entry in added}
            recorded = live_entries(manifests, names).keys() | removed_identities(manifests, names)
            return all(identity(entry) in recorded for entry in added)
        new = {entry.file.file_name for entry in self.index_files if entry.kind is FileKind.ADD}
        return bool(new) and new <= {entry.file.file_name for entry in index_entries}

    def _check_files(self, live: Mapping[Identity, ManifestEntry], gone: Collection[Identity]) -> None:
        removed = [identity(entry) for entry in self.files_of(FileKind.DELETE)]
        added = [identity(entry) for entry in self.files_of(FileKind.ADD)]
        for label, identities in (("removed", removed), ("added", added)):
            for file, count in Counter(identities).items():
                if count > 1:
                    raise CommitConflictError(f"data file {file[3]!r} cannot be {label} twice")
        for file in removed:
            # A removed file must exist, with the level, index and location it had then.
            if file not in live:
                raise CommitConflictError(
                    f"data file {file[3]!r} has been removed or changed by another commit"
                )
        for file in added:
            if file in live or file in removed:
                raise CommitConflictError(f"data file {file[3]!r} exists already")
            # Readers drop whatever any manifest removes, so a file never returns under its old identity.
            if file in gone:
                raise CommitConflictError(
                    f"data file {file[3]!r} cannot come back as what it was before it was removed"
                )

    def _check_buckets(self, manifests: Sequence[Manifest]) -> None:
        bucket_counts: dict[bytes, int] = {}
        for entry in self.files_of(FileKind.ADD):
            if entry.total_buckets > 0:
                bucket_counts[entry.partition] = entry.total_buckets
        if not bucket_counts:
            return
        for manifest, rows in zip(manifests, live_rows(manifests), strict=True):
            pairs = np.stack([manifest.partition_codes[rows], manifest.total_buckets[rows]], axis=1)
            for code, buckets in np.unique(pairs, axis=0).tolist():
                expected = bucket_counts.get(manifest.partitions[code])
                # A partition keeps its number of buckets until an overwrite.
                if buckets > 0 and expected not in (None, buckets):
                    raise CommitConflictError(
                        f"a partition has {buckets} buckets now, and files for {expected} cannot be "
                        f"added to it"
                    )

    def _check_index_files(self, index_entries: Collection[IndexEntry], mode: BucketMode) -> None:
        files = {(entry.partition, entry.bucket, entry.file.file_name) for entry in index_entries}
        removed = set()
        for entry in self.index_files:
            if entry.kind is FileKind.DELETE:
                place = (entry.partition, entry.bucket, entry.file.file_name)
                removed.add(place)
                if place not in files:
                    raise CommitConflictError(
                        f"index file {entry.file.file_name!r} cannot be replaced: another commit has done so"
                    )
        slots = {
            _slot(entry): entry
            for entry in index_entries
            if (entry.partition, entry.bucket, entry.file.file_name) not in removed
        }
        for entry in self.index_files:
            # A new index file must replace exactly the one that this commit has read.
            if entry.kind is FileKind.ADD and takes_place(entry, mode) and _slot(entry) in slots:
                other = slots[_slot(entry)].file.file_name
                raise CommitConflictError(
                    f"bucket {entry.bucket} has index file {other!r} now, which another commit has written"
                )


def identity(entry: ManifestEntry) -> Identity:
    """Return the identity of an entry's file."""
    file = entry.file
    return (
        entry.partition,
        entry.bucket,
        file.level,
        file.file_name,
        file.extra_files,
        file.embedded_index,
        file.external_path,
    )


def live_entries(manifests: Sequence[Manifest], names: Iterable[str]) -> dict[Identity, ManifestEntry]:
    """Return a snapshot's live files that have one of ``names``."""
    return {identity(entry): entry for _, _, entry in _named(manifests, live_rows(manifests), names)}


def removed_identities(manifests: Sequence[Manifest], names: Iterable[str]) -> set[Identity]:
    """Return identities of files with one of ``names`` that a snapshot's manifests remove."""
    rows = [np.flatnonzero(manifest.kinds == FileKind.DELETE) for manifest in manifests]
    return {identity(entry) for _, _, entry in _named(manifests, rows, names)}


def live_places(
    manifests: Sequence[Manifest], entries: Iterable[ManifestEntry]
) -> dict[int, dict[int, ManifestEntry]]:
    """Locate live files of a snapshot: entries by manifest number and row."""
    identities = {identity(entry) for entry in entries}
    names = {name for _, _, _, name, *_ in identities}
    places: dict[int, dict[int, ManifestEntry]] = {}
    for number, row, entry in _named(manifests, live_rows(manifests), names):
        if identity(entry) in identities:
            places.setdefault(number, {})[row] = entry
    return places


def _named(
    manifests: Sequence[Manifest], rows: Sequence[NDArray[np.int64]], names: Iterable[str]
) -> Iterator[tuple[int, int, ManifestEntry]]:
    requested = pa.array([name.encode() for name in names], pa.large_binary())
    for number, (manifest, chosen) in enumerate(zip(manifests, rows, strict=True)):
        of_manifest = manifest.file_names.take(chosen).to_arrow()
        for row in chosen[np.asarray(pc.is_in(of_manifest, value_set=requested))].tolist():
            yield number, row, manifest.entry(row)


def _slot(entry: IndexEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.index_type

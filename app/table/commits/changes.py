"""What a commit changes, and whether a snapshot lets it.

A commit is made of what somebody read some time ago. It fits the latest snapshot if

* every data file that it removes is there, with the level, index and place that it had then;
* no data file that it adds is there, or was removed under the same identity: readers drop what any manifest
  removes, so a file never comes back as what it was;
* a partition keeps its number of buckets, unless the commit overwrites;
* every index file that it removes is there, and where it adds one that takes the place of another (see
  :mod:`app.table.manifests.index_manifest`), it removes just that one;
* every deletion vector that it adds is about a data file that is there;
* what else it was worked out from is still so (below).

The engine asks the same, but for index files of tables with buckets: it takes the place of whatever is there,
since it relies on one writer for each bucket.

New rows of a bucket are numbered from the highest sequence number of its files on: rows that another commit
has added meanwhile would win over them, or tie with them. New keys of a dynamic-bucket table get their
buckets from the hash indexes of their partition: another commit may have put the same keys into other
buckets.
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

Bucket: TypeAlias = "tuple[bytes, int]"
"""Serialized row of a partition, and number of a bucket of it."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What must still be so; the highest sequence number is -1 of buckets that were empty."""

    sequences: Mapping[Bucket, int] = field(default_factory=dict)
    hash_indexes: Mapping[bytes, frozenset[str]] = field(default_factory=dict)

    def check(self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry]) -> None:
        """Checks a snapshot."""
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
    """The highest sequence number of each bucket that has files."""
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
    """Names of the hash indexes of each partition that has some."""
    by_partition: dict[bytes, set[str]] = {}
    for entry in index_entries:
        if entry.file.index_type == HASH:
            by_partition.setdefault(entry.partition, set()).add(entry.file.file_name)
    return {partition: frozenset(names) for partition, names in by_partition.items()}


Identity: TypeAlias = "tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]"
"""What tells a file from all others: partition, bucket, level, name, extra files, index, external path."""


_NOTHING_EXPECTED: Final = Expectations()


class CommitKind(StrEnum):
    """What a commit does, as snapshots tell it."""

    APPEND = "APPEND"
    """Adds rows."""
    COMPACT = "COMPACT"
    """Says the same rows otherwise."""
    OVERWRITE = "OVERWRITE"
    """Takes rows away."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a commit adds and removes; a data file whose metadata changes is removed and added."""

    kind: CommitKind
    files: tuple[ManifestEntry, ...] = ()
    index_files: tuple[IndexEntry, ...] = ()
    expected: Expectations = _NOTHING_EXPECTED

    def files_of(self, kind: FileKind) -> list[ManifestEntry]:
        """The data files that are added, or those that are removed."""
        return [entry for entry in self.files if entry.kind is kind]

    @property
    def row_count(self) -> int:
        """How many rows more there are in data files, deleted ones included."""
        added, removed = (
            sum(entry.file.row_count for entry in self.files_of(kind))
            for kind in (FileKind.ADD, FileKind.DELETE)
        )
        return added - removed

    def check(
        self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry], mode: BucketMode
    ) -> None:
        """Checks that the changes fit a snapshot."""
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
        left = live.keys() - {identity(entry) for entry in self.files_of(FileKind.DELETE)}
        left |= {identity(entry) for entry in self.files_of(FileKind.ADD)}
        files = {(partition, bucket, name) for partition, bucket, _, name, *_ in left}
        for entry, name in vectors:
            if (entry.partition, entry.bucket, name) not in files:
                raise CommitConflictError(
                    f"rows of data file {name!r} cannot be deleted: another commit has removed the file"
                )

    def are_in(self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry]) -> bool:
        """Whether a snapshot has the changes, told by what they add, whose names nobody else gives."""
        added = self.files_of(FileKind.ADD)
        if added:
            names = {entry.file.file_name for entry in added}
            known = live_entries(manifests, names).keys() | removed_identities(manifests, names)
            return all(identity(entry) in known for entry in added)
        new = {entry.file.file_name for entry in self.index_files if entry.kind is FileKind.ADD}
        return bool(new) and new <= {entry.file.file_name for entry in index_entries}

    def _check_files(self, live: Mapping[Identity, ManifestEntry], gone: Collection[Identity]) -> None:
        removed = [identity(entry) for entry in self.files_of(FileKind.DELETE)]
        added = [identity(entry) for entry in self.files_of(FileKind.ADD)]
        for what, identities in (("removed", removed), ("added", added)):
            for file, count in Counter(identities).items():
                if count > 1:
                    raise CommitConflictError(f"data file {file[3]!r} cannot be {what} twice")
        for file in removed:
            if file not in live:
                raise CommitConflictError(
                    f"data file {file[3]!r} is not what it was: another commit has removed or changed it"
                )
        for file in added:
            if file in live or file in removed:
                raise CommitConflictError(f"data file {file[3]!r} is there already")
            if file in gone:
                raise CommitConflictError(
                    f"data file {file[3]!r} cannot come back as what it was before it was removed"
                )

    def _check_buckets(self, manifests: Sequence[Manifest]) -> None:
        wanted: dict[bytes, int] = {}
        for entry in self.files_of(FileKind.ADD):
            if entry.total_buckets > 0:
                wanted[entry.partition] = entry.total_buckets
        if not wanted:
            return
        for manifest, rows in zip(manifests, live_rows(manifests), strict=True):
            pairs = np.stack([manifest.partition_codes[rows], manifest.total_buckets[rows]], axis=1)
            for code, buckets in np.unique(pairs, axis=0).tolist():
                expected = wanted.get(manifest.partitions[code])
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
            if entry.kind is FileKind.ADD and takes_place(entry, mode) and _slot(entry) in slots:
                other = slots[_slot(entry)].file.file_name
                raise CommitConflictError(
                    f"bucket {entry.bucket} has index file {other!r} now, which another commit has written"
                )


def identity(entry: ManifestEntry) -> Identity:
    """What tells the file from all others."""
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
    """The files of a snapshot that have one of some names."""
    return {identity(entry): entry for _, _, entry in _named(manifests, live_rows(manifests), names)}


def removed_identities(manifests: Sequence[Manifest], names: Iterable[str]) -> set[Identity]:
    """The identities of files of some names that the manifests of a snapshot remove."""
    rows = [np.flatnonzero(manifest.kinds == FileKind.DELETE) for manifest in manifests]
    return {identity(entry) for _, _, entry in _named(manifests, rows, names)}


def live_places(
    manifests: Sequence[Manifest], entries: Iterable[ManifestEntry]
) -> dict[int, dict[int, ManifestEntry]]:
    """Where some files of a snapshot stand: by the number of a manifest and of its record."""
    wanted = {identity(entry) for entry in entries}
    names = {name for _, _, _, name, *_ in wanted}
    places: dict[int, dict[int, ManifestEntry]] = {}
    for number, row, entry in _named(manifests, live_rows(manifests), names):
        if identity(entry) in wanted:
            places.setdefault(number, {})[row] = entry
    return places


def _named(
    manifests: Sequence[Manifest], rows: Sequence[NDArray[np.int64]], names: Iterable[str]
) -> Iterator[tuple[int, int, ManifestEntry]]:
    wanted = pa.array([name.encode() for name in names], pa.large_binary())
    for number, (manifest, chosen) in enumerate(zip(manifests, rows, strict=True)):
        of_manifest = manifest.file_names.take(chosen).to_arrow()
        for row in chosen[np.asarray(pc.is_in(of_manifest, value_set=wanted))].tolist():
            yield number, row, manifest.entry(row)


def _slot(entry: IndexEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.index_type

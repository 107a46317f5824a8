"""What a commit of new rows was worked out from, and what must still be so when it is made.

New rows of a bucket are numbered from the highest sequence number of its files on: rows that another commit
has added meanwhile would win over them, or tie with them. New keys of a dynamic-bucket table get their
buckets from the hash indexes of their partition: another commit may have put the same keys into other
buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from app.errors import CommitConflictError
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest import Manifest
from app.types.index_files import HASH

Bucket: TypeAlias = "tuple[bytes, int]"
"""Serialized row of a partition, and number of a bucket of it."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What must still be so.

    Attributes:
        sequences: the highest sequence number of each bucket that gets rows; -1 where there were none.
        hash_indexes: names of the hash indexes of each partition that gets keys.
    """

    sequences: Mapping[Bucket, int] = field(default_factory=dict)
    hash_indexes: Mapping[bytes, frozenset[str]] = field(default_factory=dict)

    def check(self, manifests: Sequence[Manifest], index_entries: Collection[IndexEntry]) -> None:
        """Checks a snapshot.

        Args:
            manifests: of the snapshot.
            index_entries: its index files.

        Raises:
            CommitConflictError: another commit has changed what counts.
        """
        if self.sequences:
            now = highest_sequences(manifests)
            for (partition, bucket), expected in self.sequences.items():
                found = now.get((partition, bucket), -1)
                if found > expected:
                    raise CommitConflictError(
                        f"bucket {bucket} of a partition has rows up to sequence number {found} now: another "
                        f"commit has added some"
                    )
        names = hash_index_names(index_entries)
        for partition, listed in self.hash_indexes.items():
            if names.get(partition, frozenset()) != listed:
                raise CommitConflictError("another commit has changed the hash indexes of a partition")


def highest_sequences(manifests: Sequence[Manifest]) -> dict[Bucket, int]:
    """The highest sequence number of each bucket that has files."""
    found: dict[Bucket, int] = {}
    for manifest, rows in zip(manifests, live_rows(manifests), strict=True):
        pairs = np.stack([manifest.partition_codes[rows], manifest.buckets[rows]], axis=1)
        distinct, places = np.unique(pairs, axis=0, return_inverse=True)
        highest = np.full(len(distinct), -1, np.int64)
        np.maximum.at(highest, places.reshape(-1), manifest.max_sequence_numbers[rows])
        for (code, bucket), number in zip(distinct.tolist(), highest.tolist(), strict=True):
            key = (manifest.partitions[code], bucket)
            found[key] = max(number, found.get(key, -1))
    return found


def hash_index_names(index_entries: Collection[IndexEntry]) -> dict[bytes, frozenset[str]]:
    """Names of the hash indexes of each partition that has some."""
    found: dict[bytes, set[str]] = {}
    for entry in index_entries:
        if entry.file.index_type == HASH:
            found.setdefault(entry.partition, set()).add(entry.file.file_name)
    return {partition: frozenset(names) for partition, names in found.items()}

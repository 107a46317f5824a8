"""Rows through assigners and into hash indexes, commit after commit, with writers that start anew."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from app.bucket_index import (
    AssignerOptions,
    DynamicBucketIndexMaintainer,
    DynamicBucketOptions,
    HashBucketAssigner,
    Hashes,
    KeyBatch,
    PartitionIndex,
    assigners_of,
    hash_index,
)
from app.types import parse_type
from app.types.binary_row.row import write_row
from app.types.index_files import HASH, IndexFileMeta

Place: TypeAlias = tuple[bytes, int]

PARTITIONS = [write_row((number,), [parse_type("INT")]) for number in range(3)]
ROUNDS = 9
ROWS = 4_000


class Table:
    """The hash indexes of the latest snapshot; files by name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.indexes: dict[Place, IndexFileMeta] = {}

    def load_partition(self, row: bytes) -> PartitionIndex:
        return PartitionIndex.merge(
            [
                (bucket, hash_index.read_whole(self.files[meta.file_name], meta))
                for (partition, bucket), meta in self.indexes.items()
                if partition == row
            ]
        )

    def restore(self, place: Place) -> DynamicBucketIndexMaintainer:
        meta = self.indexes.get(place)
        if meta is None:
            return DynamicBucketIndexMaintainer()
        return DynamicBucketIndexMaintainer.restore(meta, self.files[meta.file_name])

    def write(self, place: Place, index: DynamicBucketIndexMaintainer) -> None:
        content, name = index.content(), f"index-{len(self.files)}"
        self.files[name] = content
        self.indexes[place] = IndexFileMeta(HASH, name, len(content), len(index))


class Job:
    """A writer: an assigner per channel, and the indexes of what they write."""

    def __init__(self, table: Table, options: DynamicBucketOptions, parallelism: int) -> None:
        self.table = table
        self.places: tuple[AssignerOptions, ...] = options.assigners(parallelism)
        self.assigners = [
            HashBucketAssigner(place, table.load_partition, np.random.default_rng(place.assign_id))
            for place in self.places
        ]
        self.indexes: dict[Place, DynamicBucketIndexMaintainer] = {}

    def write(self, batch: KeyBatch) -> NDArray[np.int32]:
        channels, assigners = self.places[0].channels, self.places[0].assigners
        routed = assigners_of(batch.partition_hashes, batch.hashes, channels, assigners)
        buckets = np.empty(len(batch.hashes), np.int32)
        for number, assigner in enumerate(self.assigners):
            mine = routed == number
            own = KeyBatch.of(batch.partitions, batch.codes[mine], batch.hashes[mine])
            buckets[mine] = assigner.assign_batch(own).buckets
            for code, bucket in sorted(set(zip(own.codes.tolist(), buckets[mine].tolist(), strict=True))):
                place = own.partitions[code], bucket
                if place not in self.indexes:
                    self.indexes[place] = self.table.restore(place)
                self.indexes[place].record(own.hashes[(own.codes == code) & (buckets[mine] == bucket)])
        return buckets

    def commit(self) -> None:
        for place, index in self.indexes.items():
            if index.is_modified:
                self.table.write(place, index)
        self.indexes.clear()


def rows_of(round_number: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Hashes]:
    """Rows of a round: old keys and new ones; each third round leaves the last partition alone."""
    hashes = rng.integers(-3_000, 3_000 * round_number, ROWS).astype(np.int32) * np.int32(700_001)
    return rng.integers(0, 2 if round_number % 3 else 3, ROWS), hashes


@pytest.mark.parametrize("restart_every", [1, 4, ROUNDS])
@pytest.mark.parametrize(
    ("options", "parallelism"),
    [
        (DynamicBucketOptions(target_rows=500), 1),
        (DynamicBucketOptions(target_rows=500), 3),
        (DynamicBucketOptions(target_rows=300, initial_buckets=2), 4),
        (DynamicBucketOptions(target_rows=300, initial_buckets=2), 5),
        (DynamicBucketOptions(target_rows=300, max_buckets=8), 3),
    ],
)
def test_each_key_keeps_its_bucket(
    options: DynamicBucketOptions, parallelism: int, restart_every: int
) -> None:
    rng = np.random.default_rng(parallelism)
    table = Table()
    bucket_of: dict[tuple[int, int], int] = {}
    for identifier in range(1, ROUNDS + 1):
        if (identifier - 1) % restart_every == 0:
            job = Job(table, options, parallelism)
        codes, hashes = rows_of(identifier, rng)
        parts = np.array_split(np.arange(ROWS), 5)
        buckets = np.concatenate([job.write(KeyBatch.of(PARTITIONS, codes[at], hashes[at])) for at in parts])
        job.commit()
        for key, bucket in zip(
            zip(codes.tolist(), hashes.tolist(), strict=True), buckets.tolist(), strict=True
        ):
            assert bucket_of.setdefault(key, bucket) == bucket

        listed = {
            place: hash_index.read(table.files[meta.file_name]).tolist()
            for place, meta in table.indexes.items()
        }
        expected: dict[Place, set[int]] = {}
        for (code, hashed), bucket in bucket_of.items():
            expected.setdefault((PARTITIONS[code], bucket), set()).add(hashed)
        assert {place: set(found) for place, found in listed.items()} == expected
        assert all(len(found) == len(set(found)) for found in listed.values())
        if options.max_buckets < 0:
            # Five channels are no multiple of two assigners: two of a partition may own the same buckets.
            owners = 2 if parallelism == 5 else 1
            assert max(map(len, listed.values())) <= owners * options.target_rows
        else:
            assert max(bucket for _, bucket in listed) < options.max_buckets

    for code, row in enumerate(PARTITIONS):
        keys = [hashed for where, hashed in bucket_of if where == code]
        found = table.load_partition(row).lookup(keys)
        assert found.tolist() == [bucket_of[code, hashed] for hashed in keys]

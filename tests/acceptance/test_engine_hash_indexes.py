"""The Java engine reads the hash indexes that are written here, beside those of its own."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.bucket_index import (
    DynamicBucketIndexMaintainer,
    DynamicBucketOptions,
    HashBucketAssigner,
    KeyBatch,
    PartitionIndex,
    assigners_of,
    hash_index,
)
from app.table.manifests.index_manifest import IndexEntry, IndexManifest, combine
from app.table.manifests.manifest_entry import FileKind
from app.table.schema.schema import BucketMode
from app.types.index_files import HASH, IndexFileMeta
from tests import golden_tables
from tests.acceptance.java_engine import JavaEngine
from tests.golden_tables import GoldenWarehouse

pytestmark = [pytest.mark.shared, pytest.mark.engine]

NEW_KEYS = 700
_ARITY_BYTES = 4


class Table:
    """A copy of a golden table whose latest snapshot gets more hashes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        latest = (directory / "snapshot" / "LATEST").read_text()
        self.snapshot_path = directory / "snapshot" / f"snapshot-{latest}"
        self.snapshot: dict[str, Any] = json.loads(self.snapshot_path.read_text())
        content = (directory / "manifest" / self.snapshot["indexManifest"]).read_bytes()
        self.manifest = IndexManifest.read(content)
        # Manifests keep a partition with its number of fields, assigners without.
        self.serialized = {entry.partition[_ARITY_BYTES:]: entry.partition for entry in self.manifest.entries}

    def content(self, file: IndexFileMeta) -> bytes:
        return (self.directory / "index" / file.file_name).read_bytes()

    def load_partition(self, row: bytes) -> PartitionIndex:
        return PartitionIndex.merge(
            [
                (entry.bucket, hash_index.read_whole(self.content(entry.file), entry.file))
                for entry in self.manifest.entries
                if entry.partition == self.serialized[row]
            ]
        )

    def restore(self, row: bytes, bucket: int) -> DynamicBucketIndexMaintainer:
        for entry in self.manifest.entries:
            if (entry.partition, entry.bucket) == (self.serialized[row], bucket):
                return DynamicBucketIndexMaintainer.restore(entry.file, self.content(entry.file))
        return DynamicBucketIndexMaintainer()

    def store(self, index: DynamicBucketIndexMaintainer, number: int) -> IndexFileMeta:
        content, name = index.content(), f"index-ours-{number}"
        (self.directory / "index" / name).write_bytes(content)
        return IndexFileMeta(HASH, name, len(content), len(index))

    def commit(self, changes: list[IndexEntry]) -> None:
        self.manifest = combine(self.manifest, changes, BucketMode.HASH_DYNAMIC)
        (self.directory / "manifest" / "index-manifest-ours-0").write_bytes(self.manifest.write())
        self.snapshot_path.write_text(json.dumps(self.snapshot | {"indexManifest": "index-manifest-ours-0"}))


def add_keys(table: Table, options: DynamicBucketOptions, channels: int) -> dict[tuple[bytes, int], set[int]]:
    """Assigns and records new keys in all partitions; returns them by partition and bucket."""
    rng = np.random.default_rng(3)
    partitions = list(table.serialized)
    batch = KeyBatch.of(
        partitions, rng.integers(0, len(partitions), NEW_KEYS), rng.integers(-(2**31), 2**31, NEW_KEYS)
    )
    added: dict[tuple[bytes, int], set[int]] = {}
    indexes: dict[tuple[bytes, int], DynamicBucketIndexMaintainer] = {}
    for place in options.assigners(channels):
        routed = assigners_of(batch.partition_hashes, batch.hashes, place.channels, place.assigners)
        mine = routed == place.assign_id
        own = KeyBatch.of(partitions, batch.codes[mine], batch.hashes[mine])
        buckets = HashBucketAssigner(place, table.load_partition, rng).assign_batch(own).buckets
        for code, bucket, hashed in zip(
            own.codes.tolist(), buckets.tolist(), own.hashes.tolist(), strict=True
        ):
            bucket_of_partition = partitions[code], bucket
            if bucket_of_partition not in indexes:
                indexes[bucket_of_partition] = table.restore(*bucket_of_partition)
            indexes[bucket_of_partition].record([hashed])
            added.setdefault(bucket_of_partition, set()).add(hashed)
    table.commit(
        [
            IndexEntry(FileKind.ADD, table.serialized[row], bucket, table.store(index, number))
            for number, ((row, bucket), index) in enumerate(indexes.items())
        ]
    )
    return added


def digest(hashes: set[int]) -> str:
    return hashlib.sha256(json.dumps(sorted(hashes), separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize("name", ["dyn_bucket", "dyn_bucket_two", "dyn_bucket_max"])
def test_the_engine_finds_all_hashes(
    golden: GoldenWarehouse, engine: JavaEngine, tmp_path: Path, name: str
) -> None:
    directory = shutil.copytree(golden.table(name), tmp_path / name)
    recorded = golden_tables.expected(name)
    table = Table(directory)
    options = DynamicBucketOptions.parse(recorded["options"])
    expected = {
        (entry.partition[_ARITY_BYTES:], entry.bucket): set(
            hash_index.read(table.content(entry.file)).tolist()
        )
        for entry in table.manifest.entries
    }
    before = engine.read_back(directory)

    for place, hashes in add_keys(table, options, recorded["dynamic_bucket"]["channels"]).items():
        expected.setdefault(place, set()).update(hashes)

    after = engine.read_back(directory)
    assert after["rows_sha256"] == before["rows_sha256"]
    assert after["hash_indexes"] != before["hash_indexes"]
    assert Counter(
        (found["bucket"], found["row_count"], found["read"], found["sorted_sha256"])
        for found in after["hash_indexes"]
    ) == Counter(
        (bucket, len(hashes), len(hashes), digest(hashes)) for (_, bucket), hashes in expected.items()
    )

"""Keys of the golden dynamic-bucket tables: where they are, where new ones go, and the files that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from app.bucket_index import HashBucketAssigner, PartitionIndex, Strategy, hash_index
from app.bucket_index.hash_index import DynamicBucketIndexMaintainer
from app.bucket_index.key_batch import KeyBatch
from app.bucket_index.partition_buckets import assigners_of
from app.options.dynamic_buckets import DynamicBucketOptions
from app.table.manifests.index_manifest import IndexManifest
from app.types import parse_type
from app.types.binary_row.row import row_hash, write_row
from app.types.index_files import IndexFileMeta
from tests import golden_tables
from tests.golden_tables import GoldenWarehouse

TABLES = ("dyn_bucket", "dyn_bucket_two", "dyn_bucket_max")


def partition_row(entry: dict[str, Any]) -> bytes:
    """The partition's row; each of these tables is partitioned by one STRING column."""
    (value,) = entry["partition"].values()
    return write_row((value.encode(),), [parse_type("STRING")])


class Index:
    def __init__(self, name: str) -> None:
        self.golden = golden_tables.expected(name)["dynamic_bucket"]

    def load(self, row: bytes) -> PartitionIndex:
        return PartitionIndex.merge(
            [
                (entry["bucket"], hash_index.read(hash_index.write(entry["hashes"])))
                for entry in self.golden["buckets"]
                if partition_row(entry) == row
            ]
        )


@pytest.mark.parametrize("name", TABLES)
def test_written_keys_are_found_in_their_buckets(name: str) -> None:
    index = Index(name)
    for row in set(map(partition_row, index.golden["keys"])):
        keys = [key for key in index.golden["keys"] if partition_row(key) == row]
        assert {key["partition_hash"] for key in keys} == {row_hash(row)}
        assert [row_hash(bytes.fromhex(key["key_row_hex"])) for key in keys] == [key["hash"] for key in keys]
        found = index.load(row).lookup([key["hash"] for key in keys])
        assert found.tolist() == [key["bucket"] for key in keys]


class EngineChoices:
    """Gives the numbers that lead to the buckets that the engine chose at random."""

    def __init__(self, keys: Iterable[dict[str, Any]]) -> None:
        self.numbers = iter([self.number(key) for key in keys])

    @staticmethod
    def number(key: dict[str, Any]) -> float:
        permitted = key["permitted"] or [key["bucket"]]
        return (permitted.index(key["bucket"]) + 0.5) / len(permitted)

    def random(self, size: int) -> NDArray[np.float64]:
        return np.array([*islice(self.numbers, size)])


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_new_keys_go_where_the_engine_sent_them(name: str, size: int) -> None:
    index = Index(name)
    golden = index.golden
    options = DynamicBucketOptions(golden["target_row_num"], golden["max_buckets"], golden["assigners"])
    strategies: Counter[Strategy] = Counter()
    for place in options.assigners(golden["channels"]):
        own = [key for key in golden["new_keys"] if key["assigner"] == place.assign_id]
        rows = [partition_row(key) for key in own]
        batch = KeyBatch.of(rows, range(len(own)), [key["hash"] for key in own])
        routed = assigners_of(batch.partition_hashes, batch.hashes, place.channels, place.assigners)
        assert set(routed.tolist()) == {place.assign_id}
        is_new = [index.load(row).lookup([key["hash"]])[0] < 0 for key, row in zip(own, rows, strict=True)]
        assigner = HashBucketAssigner(place, index.load, EngineChoices(compress(own, is_new)))
        for start in range(0, len(own), size):
            part = slice(start, start + size)
            found = assigner.assign_batch(
                KeyBatch.of(batch.partitions, batch.codes[part], batch.hashes[part])
            )
            assert found.buckets.tolist() == [key["bucket"] for key in own[part]]
            strategies.update(assignment.strategy for assignment in found.tolist())
    assert (Strategy.RANDOM in strategies) == (golden["max_buckets"] > 0)
    assert strategies[Strategy.NON_FULL] > 0
    assert strategies[Strategy.NEW] > 0


def index_files(table: Path, manifest: str) -> dict[tuple[bytes, int], tuple[IndexFileMeta, bytes]]:
    entries = IndexManifest.read((table / "manifest" / manifest).read_bytes()).entries
    return {
        (entry.partition, entry.bucket): (entry.file, (table / "index" / entry.file.file_name).read_bytes())
        for entry in entries
    }


@pytest.mark.parametrize(
    ("name", "files"), [("dyn_bucket", 18), ("dyn_bucket_two", 26), ("dyn_bucket_max", 18)]
)
def test_each_commit_lists_what_the_engine_lists(golden: GoldenWarehouse, name: str, files: int) -> None:
    document = golden_tables.expected(name)
    previous: dict[tuple[bytes, int], tuple[IndexFileMeta, bytes]] = {}
    rebuilt = 0
    for snapshot in sorted(document["snapshots"], key=lambda snapshot: int(snapshot["id"])):
        current = index_files(golden.table(name), snapshot["indexManifest"])
        for place, (meta, content) in current.items():
            if previous.get(place) == (meta, content):
                continue
            known = previous.get(place)
            maintainer = (
                DynamicBucketIndexMaintainer()
                if known is None
                else DynamicBucketIndexMaintainer.restore(*known)
            )
            listed = set(hash_index.read(content).tolist())
            before = set() if known is None else set(hash_index.read(known[1]).tolist())
            maintainer.record(list(listed - before))
            assert maintainer.is_modified
            assert hash_index.read(maintainer.content()).tolist() == sorted(listed)
            assert (len(maintainer), 4 * len(maintainer)) == (meta.row_count, meta.file_size)
            rebuilt += 1
        previous = current
    assert rebuilt == files

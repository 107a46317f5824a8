"""Hash indexes of dynamic-bucket tables: golden ones, and those of writers that start anew after commits."""

from collections import Counter
from collections.abc import Iterable
from itertools import compress, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from app.bucket_index import (
    DynamicBucketIndexMaintainer,
    HashBucketAssigner,
    Hashes,
    KeyBatch,
    PartitionIndex,
    assigners_of,
    hash_index,
)
from app.bucket_index.partition_buckets import Strategy
from app.options.table_options import AssignerOptions, DynamicBucketOptions
from app.table.manifests.index_manifest import IndexManifest
from app.types import parse_type
from app.types.binary_row.row import row_hash, write_row
from app.types.index_files import HASH, IndexFileMeta
from tests import golden_cases
from tests.examples import share
from tests.golden_cases import GoldenWarehouse

TABLES = ("dyn_bucket", "dyn_bucket_two", "dyn_bucket_max")


def partition_row(entry: dict[str, Any]) -> bytes:
    """Return the partition's row; each of these tables is partitioned by one STRING column."""
    (value,) = entry["partition"].values()
    return write_row((value.encode(),), [parse_type("STRING")])


class Index:
    def __init__(self, name: str) -> None:
        self.golden = golden_cases.expected(name)["dynamic_bucket"]

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
    document = golden_cases.expected(name)
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


Place: TypeAlias = tuple[bytes, int]

PARTITIONS = [write_row((number,), [parse_type("INT")]) for number in range(3)]
ROUNDS = 9
ROWS = 4_000


class Table:
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


@pytest.mark.parametrize("restart_every", share([4, 1, ROUNDS], 3))
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
            # Five channels are not a multiple of two assigners: two of a partition may own the same buckets.
            owners = 2 if parallelism == 5 else 1
            assert max(map(len, listed.values())) <= owners * options.target_rows
        else:
            assert max(bucket for _, bucket in listed) < options.max_buckets

    for code, row in enumerate(PARTITIONS):
        keys = [hashed for where, hashed in bucket_of if where == code]
        found = table.load_partition(row).lookup(keys)
        assert found.tolist() == [bucket_of[code, hashed] for hashed in keys]

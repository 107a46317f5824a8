"""The Java engine takes what is written here: deleted rows are gone, keys are where hash indexes say."""

import hashlib
import io
import json
import shutil
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.bucket_index import (
    DynamicBucketIndexMaintainer,
    HashBucketAssigner,
    KeyBatch,
    PartitionIndex,
    assigners_of,
    hash_index,
)
from app.deletion_vectors import (
    VectorChange,
    VectorFile,
    VectorOptions,
    delete_in_bucket,
    delete_without_buckets,
    files_to_read,
)
from app.options.table_options import DynamicBucketOptions
from app.table import BucketMode
from app.table.manifests.index_manifest import IndexEntry, IndexManifest, combine
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import HASH, IndexFileMeta, index_file_names
from tests import golden_cases
from tests.acceptance.java_engine import JavaEngine
from tests.golden_cases import GoldenWarehouse, expected
from tests.golden_checks import positions

pytestmark = [pytest.mark.engine, pytest.mark.shared]


class WritableTable:
    """A copy of a golden table, with what its document says of the latest version."""

    def __init__(self, golden: GoldenWarehouse, name: str, directory: Path) -> None:
        self.directory = shutil.copytree(golden.table(name), directory)
        self.document = expected(name)
        self.mode = BucketMode(self.document["bucket_mode"])
        (self.version,) = (each for each in self.document["versions"] if not any(each["at"].values()))
        self.visible_files = [file for file in self.version["files"] if file["visible"]]
        # Every partition of these tables has an index file, of which both say whose it is.
        named = {each["file_name"]: json.dumps(each["partition"]) for each in self.version["index_entries"]}
        partitions = {named[entry.file.file_name]: entry.partition for entry in self.index_manifest().entries}
        self.buckets = {
            file["file"]: (partitions[json.dumps(file["partition"])], file["bucket"])
            for file in self.visible_files
        }

    def index_manifest(self) -> IndexManifest:
        return IndexManifest.read(
            (self.directory / "manifest" / self.snapshot()["indexManifest"]).read_bytes()
        )

    def snapshot(self) -> dict[str, Any]:
        snapshots = self.directory / "snapshot"
        latest: dict[str, Any] = json.loads(
            (snapshots / f"snapshot-{(snapshots / 'LATEST').read_text()}").read_text()
        )
        return latest

    def delete(self, deletions: Mapping[str, np.ndarray], options: VectorOptions) -> None:
        by_bucket: dict[tuple[bytes, int], dict[str, np.ndarray]] = defaultdict(dict)
        for data_file, rows in deletions.items():
            by_bucket[self.buckets[data_file]][data_file] = rows
        names = index_file_names()
        entries: list[IndexEntry] = []
        for bucket, of_bucket in by_bucket.items():
            change = self.change(bucket, of_bucket, names, options)
            for written in change.added:
                (self.directory / "index" / written.meta.file_name).write_bytes(written.content)
            entries += (IndexEntry(FileKind.DELETE, *bucket, meta) for meta in change.removed)
            entries += (IndexEntry(FileKind.ADD, *bucket, written.meta) for written in change.added)
        self.commit(entries)

    def change(
        self,
        bucket: tuple[bytes, int],
        rows: Mapping[str, np.ndarray],
        names: Iterator[str],
        options: VectorOptions,
    ) -> VectorChange:
        previous = [
            entry.file for entry in self.index_manifest().entries if (entry.partition, entry.bucket) == bucket
        ]
        if self.mode is BucketMode.BUCKET_UNAWARE:
            contents = {
                meta.file_name: self.content(meta.file_name) for meta in files_to_read(previous, rows)
            }
            return delete_without_buckets(previous, contents, rows, names, options)
        (meta,) = previous
        return delete_in_bucket(VectorFile(meta, self.content(meta.file_name)), rows, next(names), options)

    def content(self, index_file: str) -> bytes:
        return (self.directory / "index" / index_file).read_bytes()

    def commit(self, changes: Iterable[IndexEntry]) -> None:
        """Commit index files alone: the delta has no manifests, the base has all there were."""
        snapshot = self.snapshot()
        combined = combine(self.index_manifest(), tuple(changes), self.mode)
        lists = [snapshot["baseManifestList"], snapshot["deltaManifestList"]]
        base = self.write_list(lists)
        delta = self.write_list(lists[:1], keep=False)
        snapshot |= {
            "id": snapshot["id"] + 1,
            "baseManifestList": base.name,
            "baseManifestListSize": base.stat().st_size,
            "deltaManifestList": delta.name,
            "deltaManifestListSize": delta.stat().st_size,
            "indexManifest": self.write("index-manifest", combined.write()).name,
            "commitUser": "tests",
            "commitIdentifier": snapshot["commitIdentifier"] + 1,
            "commitKind": "OVERWRITE",
            "deltaRecordCount": 0,
        }
        snapshots = self.directory / "snapshot"
        (snapshots / f"snapshot-{snapshot['id']}").write_text(json.dumps(snapshot))
        (snapshots / "LATEST").write_text(str(snapshot["id"]))

    def write_list(self, names: Iterable[str], *, keep: bool = True) -> Path:
        """Return a manifest list of all that some lists have, or of nothing."""
        records: list[Any] = []
        for name in names:
            with (self.directory / "manifest" / name).open("rb") as file:
                reader = fastavro.reader(file)
                records += reader if keep else ()
                schema = reader.writer_schema
        out = io.BytesIO()
        fastavro.writer(out, schema, records, codec="zstandard")
        return self.write("manifest-list", out.getvalue())

    def write(self, kind: str, content: bytes) -> Path:
        path = self.directory / "manifest" / f"{kind}-{uuid.uuid4()}-0"
        path.write_bytes(content)
        return path


def deleted_positions(files: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    return {
        file["file"]: set() if file["deletion"] is None else set(positions(file["deletion"]["positions"]))
        for file in files
    }


def plain_rows(
    table: WritableTable, columns: list[str], deleted: Mapping[str, set[int]]
) -> list[tuple[Any, ...]]:
    """Return the rows of the visible files that are not deleted, found without any of this project's code."""
    rows: list[tuple[Any, ...]] = []
    for file in table.visible_files:
        data = pq.read_table(table.directory / file["path"], columns=columns, partitioning=None)
        kept = [row for row in range(len(data)) if row not in deleted[file["file"]]]
        rows += map(tuple, (record.values() for record in data.take(pa.array(kept, pa.int64())).to_pylist()))
    return sorted(rows, key=repr)


def exact_columns(table: WritableTable) -> list[str]:
    """Columns whose values JSON says as Arrow does."""
    (file, *_) = table.visible_files
    schema = pq.read_schema(table.directory / file["path"])
    names = [field["name"] for field in table.document["schema"]["fields"]]
    return [
        name
        for name in names
        if pa.types.is_integer(schema.field(name).type) or pa.types.is_string(schema.field(name).type)
    ]


@pytest.mark.parametrize("name", ["append_dv32", "bucketed_dv", "pk_dv"])
def test_deleted_rows_are_gone_and_all_others_are_there(
    engine: JavaEngine, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    table = WritableTable(golden, name, tmp_path / name)
    options = VectorOptions.parse(table.document["options"])
    other_width = VectorOptions(bitmap64=not options.bitmap64, target_bytes=options.target_bytes)
    deleted = deleted_positions(table.visible_files)
    files = {file["file"]: file["row_count"] for file in table.visible_files}
    rounds = [
        (options, {file: np.arange(at, rows, 5) for at, (file, rows) in enumerate(files.items()) if at % 3}),
        (other_width, {file: np.arange(0, rows, 11) for file, rows in list(files.items())[::2]}),
    ]

    for written_by, deletions in rounds:
        table.delete(deletions, written_by)
        for file, rows in deletions.items():
            deleted[file].update(rows.tolist())

    found = engine.read_back(table.directory, max_rows=len(files) * 1000)
    assert found["snapshot"]["id"] == table.version["snapshot"]["id"] + len(rounds)
    assert deleted_positions(file for file in found["files"] if file["visible"]) == deleted
    columns = exact_columns(table)
    rows_of_engine = [tuple(row[column] for column in columns) for row in found["rows"]]
    assert sorted(rows_of_engine, key=repr) == plain_rows(table, columns, deleted)
    assert {entry["file_name"] for entry in found["index_entries"]} == {
        entry.file.file_name for entry in table.index_manifest().entries
    }


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
    """Assign and record new keys in all partitions; return them by partition and bucket."""
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
    recorded = golden_cases.expected(name)
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

"""Rows that this project deletes are gone for the Java engine, and no others are."""

from __future__ import annotations

import io
import json
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.deletion_vectors import (
    VectorChange,
    VectorFile,
    VectorOptions,
    delete_in_bucket,
    delete_without_buckets,
    files_to_read,
)
from app.table.manifests.index_manifest import IndexEntry, IndexManifest, combine
from app.table.manifests.manifest_entry import FileKind
from app.table.schema.schema import BucketMode
from app.types.index_files import index_file_names
from tests.acceptance.java_engine import JavaEngine
from tests.golden_checks import positions
from tests.golden_tables import GoldenWarehouse, expected

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
        """Deletes rows, bucket by bucket, and commits that."""
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
        """Commits index files alone: the delta has no manifests, the base has all there were."""
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
        """A manifest list of all that some lists have, or of nothing."""
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
    """By data file, as golden documents and the engine describe files."""
    return {
        file["file"]: set() if file["deletion"] is None else set(positions(file["deletion"]["positions"]))
        for file in files
    }


def plain_rows(
    table: WritableTable, columns: list[str], deleted: Mapping[str, set[int]]
) -> list[tuple[Any, ...]]:
    """The rows of the visible files that are not deleted, found without any of this project's code."""
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

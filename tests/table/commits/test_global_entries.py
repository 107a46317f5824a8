"""Entries of global indexes are after each commit of ours as their writer wrote them."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson
import pytest

from app.deletion_vectors import VectorOptions, delete_without_buckets
from app.jobs.build_index import commit_replacements
from app.storage.writing import Writing
from app.table.commits import Changes, CommitKind
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import index_file_names
from tests.copied_tables import WritableTable, open_table
from tests.golden_cases import DATABASE
from tests.golden_global_indexes import unpack
from tests.table.later_release import add_unknown_members

TABLES = ("pypaimon.db/external", "pypaimon.db/updated_and_rebuilt", "java.db/column_anew")


def written_entries(directory: Path) -> dict[str, bytes]:
    """Global entries of the latest snapshot by file name, as the bytes of their records."""
    number = (directory / "snapshot" / "LATEST").read_text()
    snapshot = orjson.loads((directory / "snapshot" / f"snapshot-{number}").read_bytes())
    with (directory / "manifest" / snapshot["indexManifest"]).open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Any] = list(reader)
        schema: Any = reader.writer_schema
    found = {}
    for record in records:
        if record["_GLOBAL_INDEX"] is not None:
            encoded = io.BytesIO()
            fastavro.schemaless_writer(encoded, schema, record)
            found[record["_FILE_NAME"]] = encoded.getvalue()
    return found


def add_source(directory: Path) -> None:
    """Give every global entry what releases since 2.0 tell of its source."""
    for manifest in (directory / "manifest").glob("index-manifest-*"):
        with manifest.open("rb") as file:
            reader = fastavro.reader(file)
            records: list[Any] = list(reader)
            schema: Any = reader.writer_schema
        covered = next(each for each in schema["fields"] if each["name"] == "_GLOBAL_INDEX")["type"][1]
        if all(each["name"] != "_SOURCE_META" for each in covered["fields"]):
            covered["fields"].append({"name": "_SOURCE_META", "type": ["null", "bytes"], "default": None})
        for at, record in enumerate(records):
            record["_GLOBAL_INDEX"]["_SOURCE_META"] = b"source %d" % at
            record["_GLOBAL_INDEX"]["_EXTRA_FIELD_IDS"] = [at, 7]
        with manifest.open("wb") as file:
            fastavro.writer(file, schema, records)


def build_indexes(opened: WritableTable) -> None:
    """Give each data file a file index, as the job does."""
    entries = opened.entries()
    commit_replacements(
        opened.committer,
        [(entry, replace(entry, file=replace(entry.file, embedded_index=b"new"))) for entry in entries],
    )


def delete_first_rows(opened: WritableTable) -> None:
    """Write a deletion vector for each data file, as the job does."""
    entries, resolved = opened.entries(), opened.table.resolve()
    for entry in entries:
        change = delete_without_buckets(
            [],
            {},
            {entry.file.file_name: np.array([0])},
            index_file_names(),
            VectorOptions.parse(resolved.schema.options.values),
        )
        (file,) = change.added
        new = IndexEntry(FileKind.ADD, entry.partition, entry.bucket, file.meta)
        Writing(opened.warehouse).create(
            opened.table.data_paths(resolved).paths.index_file(new), file.content
        )
        opened.committer.commit(Changes(CommitKind.OVERWRITE, (), (new,)))


def append(opened: WritableTable) -> None:
    old = opened.entries()[0]
    added = replace(old, file=replace(old.file, file_name="data-new-0.parquet"))
    opened.committer.commit(Changes(CommitKind.APPEND, (added,)))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("global_entries"))


@pytest.mark.parametrize("change", [build_indexes, delete_first_rows, append])
@pytest.mark.parametrize("name", TABLES)
def test_a_commit_leaves_entries_and_files_alone(
    warehouse: Path, tmp_path: Path, name: str, change: Callable[[WritableTable], None]
) -> None:
    table = name.rpartition("/")[2]
    directory = Path(shutil.copytree(warehouse / name, tmp_path / f"{DATABASE}.db" / table))
    add_source(directory)
    add_unknown_members(directory)
    before = written_entries(directory)
    files = {path.name: path.read_bytes() for path in directory.glob("index/*")}
    opened = open_table(tmp_path, table)

    change(opened)

    assert len(before) > 1
    assert written_entries(directory) == before
    assert {name: (directory / "index" / name).read_bytes() for name in files} == files

"""What a later release writes into metadata is there after a commit, whatever that changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest

from app.errors import UnsupportedFormatError
from app.jobs.build_index import commit_replacements
from app.table.commits import Changes, CommitKind
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import DELETION_VECTORS, GlobalIndex, IndexFileMeta
from tests.copied_tables import open_table
from tests.golden_cases import GoldenWarehouse
from tests.table.later_release import UNKNOWN, add_unknown_members, read_records, unknown_members


def by_name(directory: Path, *files: str) -> dict[str, Any]:
    """Return the records of some metadata files, by the name that each is about."""
    records = [record for name in files for record in read_records(directory / "manifest" / name)]
    return {(record.get("_FILE") or record)["_FILE_NAME"]: record for record in records}


def latest(directory: Path) -> dict[str, Any]:
    number = (directory / "snapshot" / "LATEST").read_text()
    document: dict[str, Any] = orjson.loads((directory / "snapshot" / f"snapshot-{number}").read_bytes())
    return document


def listed(directory: Path) -> dict[str, Any]:
    document = latest(directory)
    return by_name(directory, document["baseManifestList"], document["deltaManifestList"])


def later_table(golden: GoldenWarehouse, name: str, root: Path) -> Path:
    directory = golden.copy(name, root)
    add_unknown_members(directory)
    return directory


def test_of_a_file_that_is_replaced(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = later_table(golden, "append_embedded", tmp_path)
    before, opened = listed(directory), open_table(tmp_path, "append_embedded")
    old = opened.entries()[0]
    written = by_name(directory, *before)[old.file.file_name]

    commit_replacements(opened.committer, [(old, old.without_index())])

    (new,) = read_records(directory / "manifest" / latest(directory)["deltaManifestList"])
    entries = read_records(directory / "manifest" / new["_FILE_NAME"])
    assert [entry["_KIND"] for entry in entries] == [FileKind.DELETE, FileKind.ADD]
    for entry in entries:
        assert unknown_members(entry) == unknown_members(written)
    assert set(unknown_members(written)) == {"", "._FILE", "._FILE._KEY_STATS", "._FILE._VALUE_STATS"}
    assert entries[1] == written | {"_FILE": written["_FILE"] | {"_EMBEDDED_FILE_INDEX": None}}
    assert open_table(tmp_path, "append_embedded").entries()[-1].file.embedded_index is None


def test_of_other_manifests_and_of_the_snapshot(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = later_table(golden, "append_embedded", tmp_path)
    before, opened = listed(directory), open_table(tmp_path, "append_embedded")
    old = opened.entries()[0]
    for at in range(2):
        added = replace(old, file=replace(old.file, file_name=f"data-new-{at}.parquet"))
        opened.committer.commit(Changes(CommitKind.APPEND, (added,)))

    assert before.items() <= listed(directory).items()
    assert all(set(unknown_members(record)) == {"", "._PARTITION_STATS"} for record in before.values())
    assert latest(directory)[UNKNOWN] == {"whatever": [1, None]}


def test_of_one_commit_alone_the_next_one_says_nothing(golden: GoldenWarehouse, tmp_path: Path) -> None:
    """The engine keeps the highest sequence number among the properties: an old one would lose rows."""
    directory = golden.copy("append_embedded", tmp_path)
    snapshot = directory / "snapshot" / f"snapshot-{(directory / 'snapshot' / 'LATEST').read_text()}"
    of_commit = {"properties": {"sequence.generation.max-sequence-number": "7"}, "operation": "WRITE"}
    snapshot.write_bytes(orjson.dumps(latest(directory) | of_commit | {"watermark": 5}))
    opened = open_table(tmp_path, "append_embedded")
    old = opened.entries()[0]

    commit_replacements(opened.committer, [(old, old.without_index())])

    assert not of_commit.keys() & latest(directory).keys()
    assert latest(directory)["watermark"] == 5


@pytest.mark.parametrize("name", ["append_dv32", "bucketed_dv", "dyn_bucket"])
def test_of_index_files(golden: GoldenWarehouse, tmp_path: Path, name: str) -> None:
    directory = golden.copy(name, tmp_path)
    opened = open_table(tmp_path, name)
    there = opened.table.metadata.index_entries(opened.table.resolve())
    covered = IndexFileMeta("btree", "global-0", 1, 1, global_index=GlobalIndex(0, 9, 1, None, b"meta"))
    index_manifest = directory / "manifest" / latest(directory)["indexManifest"]
    index_manifest.write_bytes(
        IndexManifest((*there, IndexEntry(FileKind.ADD, there[0].partition, 0, covered))).write()
    )
    add_unknown_members(directory)
    before = by_name(directory, index_manifest.name)
    opened = open_table(tmp_path, name)
    old = there[0]
    new = replace(old, file=replace(old.file, file_name="index-new-0"))

    opened.committer.commit(Changes(CommitKind.OVERWRITE, (), (replace(old, kind=FileKind.DELETE), new)))

    after = by_name(directory, latest(directory)["indexManifest"])
    assert after.pop("index-new-0")["_ROW_COUNT"] == old.file.row_count
    assert after == {name: record for name, record in before.items() if name != old.file.file_name}
    assert "._GLOBAL_INDEX" in unknown_members(after["global-0"])
    if old.file.index_type == DELETION_VECTORS and len(after) > 1:
        assert any("._DELETIONS_VECTORS_RANGES[0]" in unknown_members(record) for record in after.values())
    assert new in open_table(tmp_path, name).table.metadata.index_entries(
        open_table(tmp_path, name).table.resolve()
    )


def test_of_entries_and_manifests_where_others_are_merged(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = later_table(golden, "append_embedded", tmp_path)
    schema = directory / "schema" / "schema-0"
    document = orjson.loads(schema.read_bytes())
    document["options"]["manifest.merge-min-count"] = "2"
    schema.write_bytes(orjson.dumps(document))
    before = listed(directory)
    entries = by_name(directory, *before)
    opened = open_table(tmp_path, "append_embedded")
    old = opened.entries()[0]
    for at in range(2):
        added = replace(old, file=replace(old.file, file_name=f"data-new-{at}.parquet"))
        opened.committer.commit(Changes(CommitKind.APPEND, (added,)))

    after = listed(directory)
    assert not before.keys() & after.keys(), "everything is merged"
    found = by_name(directory, *after)
    assert {name: record for name, record in found.items() if name in entries} == entries
    of_manifests = [value for record in after.values() for value in unknown_members(record).values()]
    assert of_manifests
    assert not any(of_manifests)


def test_two_types_of_one_member_are_refused(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = later_table(golden, "append_embedded", tmp_path)
    delta = directory / "manifest" / latest(directory)["deltaManifestList"]
    with delta.open("rb") as file:
        reader = fastavro.reader(file)
        schema = orjson.loads(reader.metadata["avro.schema"])
        records: list[Any] = list(reader)
    schema["fields"][-1]["type"] = "long"
    with delta.open("wb") as file:
        fastavro.writer(file, schema, [record | {UNKNOWN: 1} for record in records])
    number = (directory / "snapshot" / "LATEST").read_text()
    size = {"deltaManifestListSize": delta.stat().st_size}
    (directory / "snapshot" / f"snapshot-{number}").write_bytes(orjson.dumps(latest(directory) | size))
    opened = open_table(tmp_path, "append_embedded")
    with pytest.raises(UnsupportedFormatError, match=f"field {UNKNOWN}, .*has two types"):
        commit_replacements(opened.committer, [(each, each.without_index()) for each in opened.entries()])

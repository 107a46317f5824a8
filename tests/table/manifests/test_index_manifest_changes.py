from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CommitConflictError, CorruptMetadataError
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.index_manifest_changes import combine
from app.table.manifests.manifest_entry import FileKind
from app.table.schema.schema import BucketMode
from app.types.index_files import DELETION_VECTORS, HASH, DeletionRange, IndexFileMeta
from tests import golden_unit
from tests.table.golden_index_entries import golden_entry

COMBINATIONS = golden_unit.document("index-manifest", "combine")["combinations"]
ADD, DELETE = FileKind.ADD, FileKind.DELETE
UNAWARE, FIXED = BucketMode.BUCKET_UNAWARE, BucketMode.HASH_FIXED


def hashes(name: str, bucket: int = 0, kind: FileKind = ADD) -> IndexEntry:
    return IndexEntry(kind, b"p", bucket, IndexFileMeta(HASH, name, 4, 1))


def vectors(name: str, *data_files: str, kind: FileKind = ADD) -> IndexEntry:
    ranges = tuple(DeletionRange(each, 1 + 32 * at, 24, 1) for at, each in enumerate(data_files))
    return IndexEntry(kind, b"p", 0, IndexFileMeta(DELETION_VECTORS, name, 100, len(ranges), ranges))


def listed(mode: BucketMode, previous: list[IndexEntry], *changes: IndexEntry) -> list[str]:
    return [entry.file.file_name for entry in combine(IndexManifest(tuple(previous)), changes, mode).entries]


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda each: each["name"])
def test_combinations_are_the_engine_s(combination: dict[str, Any]) -> None:
    previous = IndexManifest(tuple(map(golden_entry, combination["previous"])))
    changes = [golden_entry(entry) for entry in combination["added"]]
    mode = BucketMode[combination["bucket_mode"]]

    if "error" in combination:
        with pytest.raises(CommitConflictError):
            combine(previous, changes, mode)
    else:
        combined = combine(previous, changes, mode).entries
        expected = [golden_entry(entry) for entry in combination["result_sorted_by_file_name"]]
        assert sorted(combined, key=lambda entry: entry.file.file_name) == expected


def test_what_is_left_keeps_its_place_and_what_comes_follows() -> None:
    previous = [hashes("a", 0), hashes("b", 1), vectors("v", "x"), hashes("c", 2)]

    assert listed(FIXED, previous, hashes("b2", 1), hashes("d", 3)) == ["a", "v", "c", "b2", "d"]
    assert listed(FIXED, previous) == ["a", "b", "v", "c"]


def test_removals_come_first_in_whatever_order_they_are_listed() -> None:
    previous = [vectors("v", "x", "y"), vectors("w", "z")]
    removal = vectors("v", "x", "y", kind=DELETE)

    assert listed(UNAWARE, previous, vectors("n", "y"), removal) == ["w", "n"]
    assert listed(UNAWARE, previous, removal, vectors("v", "x")) == ["w", "v"]


def test_a_bucket_has_one_file_of_each_type_and_another_bucket_has_its_own() -> None:
    previous = [hashes("h"), vectors("v", "x")]

    assert listed(FIXED, previous, vectors("v2", "x"), vectors("v3", "y")) == ["h", "v3"]
    assert listed(FIXED, previous, hashes("absent", 7, DELETE)) == ["h", "v"]


@pytest.mark.parametrize("mode", BucketMode)
def test_global_indexes_gather_by_name(mode: BucketMode) -> None:
    def tree(name: str, kind: FileKind = ADD) -> IndexEntry:
        return IndexEntry(kind, b"p", 0, IndexFileMeta("btree", name, 4, 1))

    assert listed(mode, [tree("a")], tree("b"), tree("gone", DELETE), tree("c")) == ["a", "b", "c"]
    assert listed(mode, [tree("a"), tree("b")], tree("a", DELETE)) == ["b"]


def test_two_vectors_of_one_data_file_are_refused_also_within_the_changes() -> None:
    with pytest.raises(CommitConflictError, match=r"'w'.*'x'.*'v'"):
        listed(UNAWARE, [], vectors("v", "x"), vectors("w", "x"))
    with pytest.raises(CommitConflictError, match="'x'"):
        listed(UNAWARE, [], vectors("v", "x", "x"))


def test_stored_removals_are_corrupt() -> None:
    with pytest.raises(CorruptMetadataError, match="'h'"):
        listed(FIXED, [hashes("h", kind=DELETE)])


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3))), st.sampled_from([FIXED, UNAWARE]))
def test_commits_one_by_one_keep_the_last_hash_index_of_each_bucket(
    commits: list[tuple[str, int]], mode: BucketMode
) -> None:
    manifest = IndexManifest(())
    for name, bucket in commits:
        manifest = combine(manifest, [hashes(name, bucket)], mode)

    found = {entry.bucket: entry.file.file_name for entry in manifest.entries}
    assert found == {bucket: name for name, bucket in commits}
    assert len(manifest.entries) == len(found)

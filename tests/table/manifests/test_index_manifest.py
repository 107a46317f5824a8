"""Index manifest entries as the golden documents write them."""

import contextlib
import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import (
    CommitConflictError,
    CorruptMetadataError,
    PaimonIndexError,
    RequestError,
    UnsupportedFormatError,
)
from app.table import BucketMode
from app.table.manifests.index_manifest import IndexEntry, IndexManifest, combine
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import DELETION_VECTORS, HASH, DeletionRange, GlobalIndex, IndexFileMeta
from benchmarks.avro_schemas import INDEX_MANIFEST
from tests import golden_cases
from tests.examples import examples


def golden_entry(recorded: dict[str, Any]) -> IndexEntry:
    ranges = tuple(
        DeletionRange(each["data_file"], each["offset"], each["length"], each["cardinality"])
        for each in recorded["dv_ranges"] or ()
    )
    file = IndexFileMeta(
        index_type=recorded["index_type"],
        file_name=recorded["file_name"],
        file_size=recorded["file_size"],
        row_count=recorded["row_count"],
        ranges=ranges,
        external_path=recorded["external_path"],
        global_index=_global_index(recorded["global_index"]),
    )
    kind, partition = FileKind[recorded["kind"]], bytes.fromhex(recorded["partition_hex"])
    return IndexEntry(kind, partition, recorded["bucket"], file)


def _global_index(recorded: dict[str, Any] | None) -> GlobalIndex | None:
    if recorded is None:
        return None
    extra, metadata = recorded["extra_field_ids"], recorded["index_meta_hex"]
    return GlobalIndex(
        recorded["row_range_start"],
        recorded["row_range_end"],
        recorded["index_field_id"],
        None if extra is None else tuple(extra),
        None if metadata is None else bytes.fromhex(metadata),
    )


KIND = "index-manifest"
GOLDEN = {file["file"]: file for file in golden_cases.document(KIND, "files")["files"]}
SYNC_BYTES = 16

INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**63 - 1)
RANGES = st.builds(
    DeletionRange, st.text(), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.none() | LONG
)
GLOBAL_INDEXES = st.builds(
    GlobalIndex, LONG, LONG, INT, st.none() | st.lists(INT, max_size=3).map(tuple), st.none() | st.binary()
)
FILES = st.one_of(
    st.builds(IndexFileMeta, st.just(HASH), st.text(), LONG, LONG, external_path=st.none() | st.text()),
    st.builds(
        IndexFileMeta,
        st.just(DELETION_VECTORS),
        st.text(),
        LONG,
        LONG,
        st.lists(RANGES, max_size=4).map(tuple),
    ),
    st.builds(IndexFileMeta, st.text(), st.text(), LONG, LONG, global_index=st.none() | GLOBAL_INDEXES),
)
ENTRIES = st.builds(IndexEntry, st.sampled_from(FileKind), st.binary(max_size=20), INT, FILES)


@pytest.mark.parametrize("name", GOLDEN)
def test_entries_are_what_the_engine_wrote(name: str) -> None:
    found = IndexManifest.read(golden_cases.files(KIND)[name])

    assert list(found.entries) == [golden_entry(entry) for entry in GOLDEN[name]["entries"]]


@pytest.mark.parametrize("name", [name for name in GOLDEN if "snappy" not in name])
def test_entries_are_written_as_the_engine_writes_them(name: str) -> None:
    content = golden_cases.files(KIND)[name]
    manifest = IndexManifest(tuple(map(golden_entry, GOLDEN[name]["entries"])))

    written = manifest.write(GOLDEN[name]["compression"])

    # The engine's marker between blocks was random too.
    assert written.replace(written[-SYNC_BYTES:], content[-SYNC_BYTES:]) == content


def test_snappy_has_no_one_form_but_the_same_head_and_records() -> None:
    content = golden_cases.files(KIND)["entries-snappy.avro"]

    written = IndexManifest.read(content).write("snappy")

    assert list(fastavro.reader(io.BytesIO(written))) == list(fastavro.reader(io.BytesIO(content)))
    head = content.index(content[-SYNC_BYTES:])
    assert written[:head] == content[:head]


@given(st.lists(ENTRIES, max_size=6), st.sampled_from(["zstd", "deflate", "snappy", "null"]))
def test_what_is_written_reads_back(entries: list[IndexEntry], compression: str) -> None:
    manifest = IndexManifest(tuple(entries))

    assert IndexManifest.read(manifest.write(compression)) == manifest


def test_many_entries_make_blocks_of_64_000_bytes_and_the_rest_of_an_entry() -> None:
    files = (IndexFileMeta(HASH, f"index-{number}", 4 * number, number) for number in range(10_000))
    manifest = IndexManifest(tuple(IndexEntry(FileKind.ADD, bytes(12), 0, file) for file in files))

    content = manifest.write("null")

    *full, last = [block.size for block in fastavro.block_reader(io.BytesIO(content))]
    assert len(full) > 1
    assert all(64_000 <= size < 64_100 for size in full)
    assert 0 < last < 64_000
    assert IndexManifest.read(content) == manifest


def test_a_manifest_weighs_what_it_keeps() -> None:
    def weight(file: IndexFileMeta) -> int:
        return IndexManifest((IndexEntry(FileKind.ADD, b"", 0, file),)).nbytes

    covered = GlobalIndex(0, 9, 1, None, bytes(5000))
    assert weight(IndexFileMeta("btree", "g", 1, 1, global_index=covered)) > 5000
    ranges = tuple(DeletionRange(str(number), 1, 20, 1) for number in range(100))
    assert weight(IndexFileMeta(DELETION_VECTORS, "d", 1, 1, ranges)) > 100 * 200


def test_older_writers_leave_trailing_fields_out() -> None:
    out = io.BytesIO()
    record = dict.fromkeys(field["name"] for field in INDEX_MANIFEST["fields"]) | {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": b"p",
        "_BUCKET": 3,
        "_INDEX_TYPE": HASH,
        "_FILE_NAME": "index-1",
        "_FILE_SIZE": 8,
        "_ROW_COUNT": 2,
    }
    fastavro.writer(out, INDEX_MANIFEST, [record])

    (entry,) = IndexManifest.read(out.getvalue()).entries

    assert entry == IndexEntry(FileKind.ADD, b"p", 3, IndexFileMeta(HASH, "index-1", 8, 2))


@pytest.mark.parametrize(
    ("bucket", "file"),
    [
        (2**31, IndexFileMeta(HASH, "index-1", 4, 1)),
        (0, IndexFileMeta(HASH, "index-1", 2**63, 1)),
        (0, IndexFileMeta(DELETION_VECTORS, "index-1", 2**32, 1, (DeletionRange("data-1", 2**31, 24, 1),))),
        (0, IndexFileMeta(DELETION_VECTORS, "index-1", 2**32, 1, (DeletionRange("\ud800", 1, 24, 1),))),
    ],
)
def test_values_that_no_field_takes_are_refused(bucket: int, file: IndexFileMeta) -> None:
    with pytest.raises(RequestError, match="does not fit"):
        IndexManifest((IndexEntry(FileKind.ADD, b"", bucket, file),)).write()


def test_codecs_that_the_engine_lacks_are_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="lz4"):
        IndexManifest(()).write("lz4")


@examples(300)
@given(st.sampled_from(sorted(GOLDEN)), st.data())
def test_damage_raises_nothing_but_our_errors(name: str, data: st.DataObject) -> None:
    damaged = bytearray(golden_cases.files(KIND)[name])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PaimonIndexError):
        IndexManifest.read(bytes(damaged))


COMBINATIONS = golden_cases.document("index-manifest", "combine")["combinations"]
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

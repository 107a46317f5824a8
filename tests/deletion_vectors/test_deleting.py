"""Deleting rows, file by file, beside dictionaries of what is deleted."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import (
    EncodedVector,
    VectorChange,
    VectorFile,
    VectorOptions,
    delete_in_bucket,
    delete_without_buckets,
    files_to_read,
    read_file,
    read_vectors,
    vector32,
    vector64,
    write_file,
    write_files,
)
from app.deletion_vectors.file import stored_data
from app.errors import CorruptIndexError, CorruptMetadataError, RequestError
from app.types.index_files import DELETION_VECTORS, DeletionRange, IndexFileMeta, index_file_names
from tests import golden_cases
from tests.deletion_vectors.golden_positions import golden_positions

NARROW, WIDE = VectorOptions(target_bytes=100), VectorOptions(bitmap64=True, target_bytes=100)
DELETIONS = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.integers(0, 40), max_size=8), max_size=4)
COMMITS = st.lists(st.tuples(DELETIONS, st.sampled_from([NARROW, WIDE])), max_size=6)


def vector_file(name: str, vectors: dict[str, set[int]], *, is64: bool = False) -> VectorFile:
    encoded = [EncodedVector.encode(key, BitMap(rows), is64=is64) for key, rows in vectors.items()]
    return write_file(encoded, name)


def vectors_of(file: VectorFile) -> dict[str, tuple[set[int], bool]]:
    found = read_vectors(file.content, [(place.offset, place.length) for place in file.meta.ranges])
    return {
        place.data_file: (set(vector.positions), vector.is64)
        for place, vector in zip(file.meta.ranges, found, strict=True)
    }


def rows(**deletions: set[int]) -> dict[str, BitMap]:
    return {data_file: BitMap(positions) for data_file, positions in deletions.items()}


@dataclass
class Partition:
    """The vector files of an append table's partition, as commits leave them."""

    names = index_file_names()
    files: dict[str, VectorFile] = field(default_factory=dict)

    def delete(self, deletions: dict[str, BitMap], options: VectorOptions = NARROW) -> VectorChange:
        metas = [file.meta for file in self.files.values()]
        contents = {
            meta.file_name: self.files[meta.file_name].content for meta in files_to_read(metas, deletions)
        }
        change = delete_without_buckets(metas, contents, deletions, self.names, options)
        for meta in change.removed:
            del self.files[meta.file_name]
        self.files |= {file.meta.file_name: file for file in change.added}
        return change


@given(COMMITS)
def test_without_buckets_every_row_stays_deleted_and_every_data_file_has_one_vector(
    commits: list[tuple[dict[str, set[int]], VectorOptions]],
) -> None:
    partition = Partition()
    deleted: dict[str, set[int]] = {}
    for deletions, options in commits:
        before = {name: vectors_of(file) for name, file in partition.files.items()}

        change = partition.delete(rows(**deletions), options)

        grown = {each for each, positions in deletions.items() if positions - deleted.get(each, set())}
        assert {meta.file_name for meta in change.removed} == {
            name for name, vectors in before.items() if grown & vectors.keys()
        }
        for each in grown:
            deleted.setdefault(each, set()).update(deletions[each])
        found = [vector for file in partition.files.values() for vector in vectors_of(file).items()]
        assert {data_file: positions for data_file, (positions, _) in found} == deleted
        assert len(found) == len(deleted)
        for file in partition.files.values():
            assert [place.cardinality for place in file.meta.ranges] == [
                len(deleted[place.data_file]) for place in file.meta.ranges
            ]


@given(COMMITS)
def test_a_bucket_has_one_file_of_all_its_vectors(
    commits: list[tuple[dict[str, set[int]], VectorOptions]],
) -> None:
    names = index_file_names()
    file: VectorFile | None = None
    deleted: dict[str, set[int]] = {}
    for deletions, options in commits:
        change = delete_in_bucket(file, rows(**deletions), next(names), options)

        changes = any(positions - deleted.get(each, set()) for each, positions in deletions.items())
        for each, positions in deletions.items():
            if positions:
                deleted.setdefault(each, set()).update(positions)
        assert len(change.added) == changes
        if changes:
            assert list(change.removed) == ([] if file is None else [file.meta])
            (file,) = change.added
        if file is not None:
            assert {each: found for each, (found, _) in vectors_of(file).items()} == deleted


def test_unchanged_vectors_keep_their_bytes_and_all_keep_their_order() -> None:
    old = vector_file("index-1", {"a": {1, 2}, "b": set(range(9000)), "c": {5}})

    (new,) = delete_in_bucket(old, rows(d={4}, c={6}), "index-2", NARROW).added

    assert [place.data_file for place in new.meta.ranges] == ["a", "b", "c", "d"]
    for before, after in zip(old.meta.ranges[:2], new.meta.ranges[:2], strict=True):
        assert after == before
        assert stored_data(new.content, after.offset) == stored_data(old.content, before.offset)
    assert vectors_of(new)["c"] == ({5, 6}, False)


def test_vectors_are_carried_over_with_bytes_that_this_writer_would_not_choose() -> None:
    unoptimised = vector32.MAGIC + BitMap(list(range(100)), optimize=False).serialize()
    assert unoptimised != vector32.write(BitMap(range(100)))
    old = write_file(
        [EncodedVector("a", unoptimised, 100), EncodedVector.encode("b", BitMap([1]), is64=True)], "x"
    )

    (new,) = delete_in_bucket(old, rows(c={4}), "y", NARROW).added

    assert new.content.startswith(old.content)


def test_vectors_widen_when_they_change_and_never_narrow() -> None:
    old = write_file(
        [
            EncodedVector.encode(name, BitMap([1]), is64=name == "wide")
            for name in ("changed", "kept", "wide")
        ],
        "x",
    )

    (widened,) = delete_in_bucket(old, rows(changed={2}, new={3}), "y", WIDE).added
    assert vectors_of(widened) == {
        "changed": ({1, 2}, True),
        "kept": ({1}, False),
        "wide": ({1}, True),
        "new": ({3}, True),
    }
    (narrow,) = delete_in_bucket(old, rows(changed={2}, wide={2}, new={3}), "y", NARROW).added
    assert vectors_of(narrow) == {
        "changed": ({1, 2}, False),
        "kept": ({1}, False),
        "wide": ({1, 2}, True),
        "new": ({3}, False),
    }


def test_wide_positions_need_wide_vectors() -> None:
    old = vector_file("index-1", {"a": {1}})
    deletions = {"a": np.array([2**31])}

    with pytest.raises(RequestError, match=r"'a'.*2147483648.*bitmap64"):
        delete_in_bucket(old, deletions, "index-2", NARROW)
    (file,) = delete_in_bucket(old, deletions, "index-2", WIDE).added
    assert vectors_of(file) == {"a": ({1, 2**31}, True)}
    far = {"a": np.array([2**33])}
    (file,) = delete_in_bucket(file, far, "index-3", NARROW).added
    assert vectors_of(file) == {"a": ({1, 2**31, 2**33}, True)}


def test_changed_and_unchanged_vectors_roll_together() -> None:
    partition = Partition()
    partition.delete(rows(**{name: {1, 3, 5} for name in "abcdefgh"}), replace(NARROW, target_bytes=10_000))

    change = partition.delete(rows(c={7}), replace(NARROW, target_bytes=100))

    assert len(change.removed) == 1
    assert [[place.data_file for place in file.meta.ranges] for file in change.added] == [
        ["a", "b", "c"],
        ["d", "e", "f"],
        ["g", "h"],
    ]


def test_only_files_with_vectors_of_the_data_files_are_needed() -> None:
    files = [vector_file("index-1", {"a": {1}, "b": {1}}), vector_file("index-2", {"c": {1}})]
    metas = [file.meta for file in files]

    assert files_to_read(metas, {"b", "x"}) == (metas[0],)
    change = delete_without_buckets(metas, {}, rows(x={1}), index_file_names(), NARROW)
    assert change.removed == ()
    with pytest.raises(RequestError, match="'index-2'"):
        delete_without_buckets(metas, {"index-1": files[0].content}, rows(c={2}), index_file_names(), NARROW)


@pytest.mark.parametrize("bad", [np.array([-3]), np.array([1.5])])
def test_rows_that_are_none_are_named_with_their_data_file(bad: np.ndarray) -> None:
    with pytest.raises(RequestError, match="'data-7'"):
        delete_in_bucket(None, {"data-7": bad}, "index-1", NARROW)


def test_two_vectors_of_one_data_file_are_corrupt() -> None:
    files = [vector_file("index-1", {"a": {1}}), vector_file("index-2", {"a": {2}})]
    metas = [file.meta for file in files]
    contents = {file.meta.file_name: file.content for file in files}

    with pytest.raises(CorruptMetadataError, match=r"'a'.*'index-1' and 'index-2'"):
        delete_without_buckets(metas, contents, rows(b={1}), index_file_names(), NARROW)
    twice = replace(metas[0], ranges=metas[0].ranges * 2)
    with pytest.raises(CorruptMetadataError, match="'a'"):
        delete_in_bucket(VectorFile(twice, files[0].content), rows(a={3}), "index-3", NARROW)


@given(st.data())
def test_one_changed_byte_of_a_previous_file_is_never_carried_over(data: st.DataObject) -> None:
    old = vector_file("index-1", {"a": {1, 2}, "b": set(range(0, 99, 3))})
    damaged = bytearray(old.content)
    # The version is that of another file format, not damage to a vector.
    damaged[data.draw(st.integers(1, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(CorruptIndexError) as caught:
        delete_in_bucket(VectorFile(old.meta, bytes(damaged)), rows(c={1}), "index-2", NARROW)
    assert caught.value.path == "index-1"


def test_previous_files_are_what_the_index_manifest_says() -> None:
    old = vector_file("index-1", {"a": {1, 2}})
    (place,) = old.meta.ranges

    wrong = replace(old.meta, ranges=(replace(place, cardinality=3),))
    with pytest.raises(CorruptIndexError, match="expected 3 deleted rows of a, found 2"):
        delete_in_bucket(VectorFile(wrong, old.content), rows(b={1}), "index-2", NARROW)
    with pytest.raises(CorruptIndexError, match=f"expected a file of {old.meta.file_size} bytes"):
        delete_in_bucket(VectorFile(old.meta, old.content[:-1]), rows(b={1}), "index-2", NARROW)
    unstated = replace(old.meta, ranges=(replace(place, cardinality=None),))
    (file,) = delete_in_bucket(VectorFile(unstated, old.content), rows(b={1}), "index-2", NARROW).added
    assert file.meta.ranges[0] == place


KIND = "deletion-vectors"
DOCUMENTS = {
    name: golden_cases.document(KIND, name)
    for name in golden_cases.documents(KIND)
    if name not in ("blobs", "damaged")
}
NEVER = 2**62


def golden_vectors(document: dict[str, Any]) -> Iterator[EncodedVector]:
    for file in document["files"]:
        for vector in file["vectors"]:
            positions = golden_positions(vector["positions"])
            # One golden file has both widths: 64 bits where 32 are too few.
            is64 = positions.max() >= 2**31 if document["bitmap64"] is None else document["bitmap64"]
            yield EncodedVector.encode(vector["data_file"], positions, is64=is64)


def golden_meta(recorded: dict[str, Any]) -> IndexFileMeta:
    ranges = tuple(
        DeletionRange(each["data_file"], each["offset"], each["length"], each["cardinality"])
        for each in recorded["dv_ranges"]
    )
    return IndexFileMeta(
        recorded["index_type"],
        recorded["file_name"],
        recorded["file_size"],
        recorded["row_count"],
        ranges,
        recorded["external_path"],
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_are_written_and_rolled_as_in_the_engine(name: str) -> None:
    document = DOCUMENTS[name]
    expected = [golden_meta(file["index_file_meta"]) for file in document["files"]]
    names = (meta.file_name for meta in expected)
    target = document["rolling_target_bytes"]

    vectors = golden_vectors(document)
    files = [write_file(vectors, next(names))] if target is None else write_files(vectors, names, target)

    assert [file.meta for file in files] == expected
    assert [file.content for file in files] == [golden_cases.files(KIND)[meta.file_name] for meta in expected]


def test_arrays_make_the_vectors_that_sets_make() -> None:
    rows = np.array([70_000, 3, 3, 1])
    for is64 in (False, True):
        vector = EncodedVector.encode("a", rows, is64=is64)
        assert vector == EncodedVector.encode("a", BitMap(rows), is64=is64)
        assert vector == EncodedVector.encode("a", BitMap64(rows), is64=is64)
        assert vector.cardinality == 3


@given(st.lists(st.integers(0, 300), max_size=20), st.integers(1, 400))
def test_a_file_exceeds_its_target_by_less_than_its_last_vector(sizes: list[int], target: int) -> None:
    vectors = [
        EncodedVector.encode(f"data-{at}", BitMap(range(0, 2 * size, 2)), is64=at % 2 == 0)
        for at, size in enumerate(sizes)
    ]

    files = write_files(vectors, index_file_names(), target)

    for file in files:
        assert file.meta.ranges[-1].offset <= target
        assert file.meta.file_size == len(file.content)
        assert file.meta.row_count == len(file.meta.ranges) > 0
    assert all(len(file.content) > target for file in files[:-1])
    written = [place.data_file for file in files for place in file.meta.ranges]
    assert written == [vector.data_file for vector in vectors]
    found = [vector.cardinality for file in files for vector in read_file(file.content)]
    assert found == sizes


def test_without_vectors_a_bucket_has_a_file_and_other_tables_have_none() -> None:
    assert write_file([], "index-1").content == b"\x01"
    assert write_files([], index_file_names(), 400) == ()


def test_names_are_the_writer_s_and_a_number() -> None:
    vectors = [EncodedVector.encode(name, BitMap([1]), is64=False) for name in "abc"]

    names = [file.meta.file_name for file in write_files(vectors, index_file_names(), 1)]

    writer = names[0].removesuffix("-0")
    assert names == [f"{writer}-0", f"{writer}-1", f"{writer}-2"]
    assert writer.startswith("index-")
    assert len(writer) == len("index-") + 36
    assert not next(index_file_names()).startswith(writer)


@pytest.mark.parametrize("target", [1, NEVER])
def test_a_data_file_has_one_vector(target: int) -> None:
    vectors = [EncodedVector.encode(name, BitMap([1]), is64=False) for name in ("a", "b", "a")]

    with pytest.raises(RequestError, match="'a'"):
        write_files(vectors, index_file_names(), target)
    with pytest.raises(RequestError, match="'a'"):
        write_file(vectors, "index-1")


@pytest.mark.parametrize(
    ("rows", "is64", "message"),
    [
        (np.array([5, 2**31]), False, "'a': .*2147483648.*bitmap64"),
        (BitMap64([2**40]), False, f"'a': .*{2**40}"),
        (BitMap64([vector64.MAX_POSITION + 1]), True, f"'a': .*{vector64.MAX_POSITION + 1}"),
        # Every key below the highest is written: this would be a vector of 12 GB.
        (np.array([2**62]), True, f"'a': position {2**62} .*bytes"),
        (np.array([-1]), True, "'a': .*-1"),
        (np.array([0.5]), False, "'a': .*float64"),
    ],
)
def test_rows_that_a_vector_does_not_hold_are_named(rows: Any, is64: bool, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        EncodedVector.encode("a", rows, is64=is64)


def test_metas_are_of_deletion_vectors() -> None:
    (file,) = write_files([EncodedVector.encode("a", BitMap([1]), is64=False)], iter(["index-1"]), NEVER)

    assert file.meta == IndexFileMeta(DELETION_VECTORS, "index-1", 31, 1, (DeletionRange("a", 1, 22, 1),))

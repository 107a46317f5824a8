"""Files of deletion vectors, written as the Java engine writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import EncodedVector, read_file, vector64, write_file, write_files
from app.errors import RequestError
from app.types.index_files import DELETION_VECTORS, DeletionRange, IndexFileMeta, index_file_names
from tests import golden_unit
from tests.deletion_vectors.golden_positions import golden_positions

KIND = "deletion-vectors"
DOCUMENTS = {
    name: golden_unit.document(KIND, name)
    for name in golden_unit.documents(KIND)
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
    assert [file.content for file in files] == [golden_unit.files(KIND)[meta.file_name] for meta in expected]


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
def test_rows_that_a_vector_does_not_hold_are_named(rows: Any, is64: bool, message: str) -> None:  # noqa: FBT001 - a row of the table
    with pytest.raises(RequestError, match=message):
        EncodedVector.encode("a", rows, is64=is64)


def test_metas_are_of_deletion_vectors() -> None:
    (file,) = write_files([EncodedVector.encode("a", BitMap([1]), is64=False)], iter(["index-1"]), NEVER)

    assert file.meta == IndexFileMeta(DELETION_VECTORS, "index-1", 31, 1, (DeletionRange("a", 1, 22, 1),))

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bucket_index import UNKNOWN, HashIndex, PartitionIndex, hash_index
from app.bucket_index.partition_index import MAX_BUCKET
from app.errors import CorruptMetadataError
from tests import golden_unit

I32 = st.integers(-(2**31), 2**31 - 1)
# Few values, so that hashes repeat within and among files.
HASHES = st.lists(I32 | st.integers(-20, 20), max_size=40)
FILES = st.lists(st.tuples(st.integers(0, 5) | st.integers(0, MAX_BUCKET), HASHES), max_size=6)


def index_of(hashes: list[int]) -> HashIndex:
    return hash_index.read(hash_index.write(hashes))


@pytest.mark.parametrize(
    "golden", golden_unit.document("hash-index", "files")["files"], ids=lambda golden: golden["file"]
)
def test_files_read_and_write_as_in_the_engine(golden: dict[str, list[int]]) -> None:
    content = golden_unit.files("hash-index")[str(golden["file"])]
    index = hash_index.read(content)
    assert hash_index.read_stored_order(memoryview(content)).tolist() == golden["hashes"]
    assert index.hashes.tolist() == sorted(golden["hashes"])
    assert index.rows == len(golden["hashes"])
    assert hash_index.write(golden["hashes"]) == content[: 4 * index.rows]
    assert index.contains(golden["hashes"]).all()


@settings(deadline=None)
@given(HASHES, HASHES)
def test_contains_tells_members(stored: list[int], asked: list[int]) -> None:
    assert index_of(stored).contains(asked).tolist() == [value in stored for value in asked]


@settings(deadline=None)
@given(st.binary(max_size=50))
def test_any_bytes_are_a_file_whose_tail_is_ignored(content: bytes) -> None:
    stored = hash_index.read_stored_order(content)
    assert stored.tolist() == [
        int.from_bytes(content[at : at + 4], "big", signed=True) for at in range(0, len(content) // 4 * 4, 4)
    ]
    assert hash_index.read(content).nbytes == len(content) // 4 * 4


@settings(deadline=None)
@given(FILES, HASHES)
def test_lookups_answer_as_a_map_filled_in_reading_order(
    files: list[tuple[int, list[int]]], asked: list[int]
) -> None:
    expected = {value: bucket for bucket, hashes in files for value in hashes}
    index = PartitionIndex.merge([(bucket, index_of(hashes)) for bucket, hashes in files])
    everything = [*asked, *expected]
    buckets = [expected.get(value, UNKNOWN) for value in everything]
    assert index.lookup(everything).tolist() == buckets
    assert [index.find(value) for value in everything] == buckets
    assert index.hashes.tolist() == sorted(expected)
    assert index.nbytes == 6 * len(expected)


@settings(deadline=None)
@given(FILES)
def test_rows_count_stored_hashes_and_keep_the_order_of_buckets(files: list[tuple[int, list[int]]]) -> None:
    expected: dict[int, int] = {}
    for bucket, hashes in files:
        if hashes:
            expected[bucket] = expected.get(bucket, 0) + len(hashes)
    index = PartitionIndex.merge([(bucket, index_of(hashes)) for bucket, hashes in files])
    assert list(index.rows.items()) == list(expected.items())


@pytest.mark.parametrize("bucket", [-1, -2, MAX_BUCKET + 1, 2**31 - 1])
def test_buckets_that_cannot_be_are_corrupt(bucket: int) -> None:
    with pytest.raises(CorruptMetadataError, match="bucket"):
        PartitionIndex.merge([(0, index_of([1])), (bucket, index_of([2]))])


def test_decoded_arrays_cannot_be_changed() -> None:
    index = index_of([3, 1, 2])
    merged = PartitionIndex.merge([(0, index)])
    for array in (index.hashes, merged.hashes, merged.buckets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    assert merged.lookup(np.array([3], dtype=np.int32)).tolist() == [0]

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import UNKNOWN, PartitionIndex, hash_index
from app.errors import CorruptIndexError, CorruptMetadataError, RequestError
from app.options.table_options import MAX_BUCKET
from app.types.index_files import HASH, IndexFileMeta
from tests import golden_cases

I32 = st.integers(-(2**31), 2**31 - 1)
# Few values, so that hashes repeat within and among files.
HASHES = st.lists(I32 | st.integers(-20, 20), max_size=40)
FILES = st.lists(st.tuples(st.integers(0, 5) | st.integers(0, MAX_BUCKET), HASHES), max_size=6)


def merged(files: list[tuple[int, list[int]]]) -> PartitionIndex:
    return PartitionIndex.merge(
        [(bucket, hash_index.read(hash_index.write(hashes))) for bucket, hashes in files]
    )


@pytest.mark.parametrize(
    "golden", golden_cases.document("hash-index", "files")["files"], ids=lambda golden: golden["file"]
)
def test_files_read_and_write_as_in_the_engine(golden: dict[str, list[int]]) -> None:
    content = golden_cases.files("hash-index")[str(golden["file"])]
    assert hash_index.read(memoryview(content)).tolist() == golden["hashes"]
    assert hash_index.write(golden["hashes"]) == content[: 4 * len(golden["hashes"])]


@given(st.binary(max_size=50))
def test_any_bytes_are_a_file_whose_tail_is_ignored(content: bytes) -> None:
    assert hash_index.read(content).tolist() == [
        int.from_bytes(content[at : at + 4], "big", signed=True) for at in range(0, len(content) // 4 * 4, 4)
    ]


@pytest.mark.parametrize(
    ("content", "size", "rows"),
    [(bytes(8), 8, 3), (bytes(8), 8, 1), (bytes(8), 12, 3), (bytes(9), 9, 2), (bytes(4), 8, 2), (b"", 4, 1)],
)
def test_a_file_that_is_not_whole_is_refused(content: bytes, size: int, rows: int) -> None:
    meta = IndexFileMeta(HASH, "index-of-7", size, rows)
    with pytest.raises(CorruptIndexError, match=f"index-of-7.*{rows} key hashes.*found {len(content)} bytes"):
        hash_index.read_whole(content, meta)
    assert len(hash_index.read_whole(bytes(8), IndexFileMeta(HASH, "whole", 8, 2))) == 2


@pytest.mark.parametrize("hashes", [[2**31], [0, -(2**31) - 1], [2**64], [1.5], ["a"], [[1]]])
def test_what_is_no_32_bit_integer_is_not_written(hashes: Any) -> None:
    with pytest.raises(RequestError, match=r"signed 32-bit integer|list of integers"):
        hash_index.write(hashes)
    wide = np.array([2**31 - 1, -(2**31)], np.int64)
    assert hash_index.write(wide).hex() == "7fffffff80000000"
    assert hash_index.write([]) == b""


@given(FILES, HASHES)
def test_lookups_answer_as_a_map_filled_in_reading_order(
    files: list[tuple[int, list[int]]], asked: list[int]
) -> None:
    expected = {value: bucket for bucket, hashes in files for value in hashes}
    index = merged(files)
    everything = [*asked, *expected]
    buckets = [expected.get(value, UNKNOWN) for value in everything]
    assert index.lookup(everything).tolist() == buckets


@given(FILES, HASHES)
def test_every_bucket_that_lists_a_hash_holds_it(
    files: list[tuple[int, list[int]]], asked: list[int]
) -> None:
    index = merged(files)
    for wanted in ([], asked, [value for _, hashes in files for value in hashes][:3]):
        assert index.holding(wanted) == {bucket for bucket, hashes in files if set(hashes) & set(wanted)}


@given(FILES)
def test_a_key_takes_six_bytes(files: list[tuple[int, list[int]]]) -> None:
    index = merged(files)
    assert index.nbytes == 6 * sum(len(set(hashes)) for _, hashes in files)
    assert index.hashes.tolist() == sorted(value for _, hashes in files for value in set(hashes))


@given(FILES)
def test_rows_count_stored_hashes_and_keep_the_order_of_buckets(files: list[tuple[int, list[int]]]) -> None:
    expected: dict[int, int] = {}
    for bucket, hashes in files:
        if hashes:
            expected[bucket] = expected.get(bucket, 0) + len(hashes)
    assert list(merged(files).rows.items()) == list(expected.items())


@pytest.mark.parametrize("bucket", [-1, -2, MAX_BUCKET + 1, 2**31 - 1])
def test_buckets_that_cannot_be_are_corrupt(bucket: int) -> None:
    with pytest.raises(CorruptMetadataError, match="bucket"):
        merged([(0, [1]), (bucket, [2])])


def test_more_files_than_buckets_can_have_are_corrupt() -> None:
    most: list[tuple[int, list[int]]] = [(0, [])] * (1 << 16)
    assert merged([*most[:-1], (7, [5])]).lookup([5]).tolist() == [7]
    with pytest.raises(CorruptMetadataError, match="65536"):
        merged([*most, (7, [5])])


def test_decoded_arrays_cannot_be_changed() -> None:
    index = merged([(0, [3, 1, 2])])
    for array in (index.hashes, index.buckets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    assert index.lookup(np.array([3], dtype=np.int32)).tolist() == [0]

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import (
    RECORD_MARGIN_BYTES,
    EncodedVector,
    read_file,
    read_vector,
    read_vectors,
    vector32,
    vector64,
)
from app.deletion_vectors.deleting import write_file as write_file_of
from app.deletion_vectors.file import write_record
from app.errors import CorruptIndexError, RequestError, UnsupportedFormatError
from app.types.index_files import DeletionRange
from tests import golden_cases
from tests.deletion_vectors.golden_positions import golden_positions
from tests.examples import examples

NARROW = st.sets(st.integers(0, vector32.MAX_POSITION)) | st.builds(
    range, st.integers(0, 2**20), st.integers(2**20, 2**21), st.integers(1, 5000)
)
# Keys stay small: every key below the highest is written.
WIDE = st.sets(st.integers(0, 2**35))
DATA = NARROW.map(lambda positions: vector32.write(BitMap(positions))) | WIDE.map(
    lambda positions: vector64.write(BitMap64(positions))
)


def write_file(datas: list[bytes]) -> tuple[bytes, tuple[DeletionRange, ...]]:
    vectors = [EncodedVector(f"data-{at}", data, 0) for at, data in enumerate(datas)]
    file = write_file_of(vectors, "index-1")
    return file.content, file.meta.ranges


def record_with_checksum_of(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


@given(NARROW)
def test_32_bit_vectors_read_back(positions: set[int] | range) -> None:
    vector = read_vector(write_record(vector32.write(BitMap(positions))))
    assert vector.positions == BitMap(positions)
    assert not vector.is64


@given(WIDE)
def test_64_bit_vectors_read_back(positions: set[int]) -> None:
    vector = read_vector(write_record(vector64.write(BitMap64(positions))))
    assert list(vector.positions) == sorted(positions)
    assert vector.cardinality == len(positions)
    assert vector.is64
    assert isinstance(vector.positions, BitMap) == all(position < 2**32 for position in positions)


@given(st.lists(DATA, max_size=5))
def test_files_read_in_order_and_by_range(datas: list[bytes]) -> None:
    content, ranges = write_file(datas)
    expected = [read_vector(write_record(data)) for data in datas]
    assert read_file(content) == expected
    shuffled = list(reversed(ranges))
    assert read_vectors(content, [(r.offset, r.length) for r in shuffled]) == list(reversed(expected))
    for place, vector in zip(ranges, expected, strict=True):
        fetched = content[place.offset : place.offset + place.length + RECORD_MARGIN_BYTES]
        assert read_vector(fetched, length=place.length) == vector


@examples(300)
@given(st.lists(DATA, min_size=1, max_size=3), st.data())
def test_one_changed_byte_is_always_found(datas: list[bytes], data: st.DataObject) -> None:
    content, ranges = write_file(datas)
    damaged = bytearray(content)
    damaged[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((CorruptIndexError, UnsupportedFormatError)):
        read_vectors(bytes(damaged), [(place.offset, place.length) for place in ranges])


@examples(500)
@given(DATA, st.data())
def test_damage_under_a_right_checksum_reads_as_positions_or_as_corrupt(
    vector: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(vector)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        found = read_vector(record_with_checksum_of(bytes(damaged)))
    except CorruptIndexError:
        return
    assert (found.highest or 0) < (2**63 if found.is64 else 2**31)
    assert len(list(found.positions)) == found.cardinality


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        read_vector(content)


def test_a_failed_checksum_is_an_error_although_the_engine_never_looks_at_it() -> None:
    # apache/paimon #9992, #10070
    record = bytearray(write_record(vector32.write(BitMap([3, 4]))))
    assert read_vector(bytes(record)).cardinality == 2
    record[-5] ^= 1
    with pytest.raises(CorruptIndexError, match="checksum"):
        read_vector(bytes(record))


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_half_a_checksum_is_an_error(missing: int) -> None:
    record = write_record(vector32.write(BitMap([3, 4])))
    with pytest.raises(CorruptIndexError, match="checksum"):
        read_vector(record[:-missing])


def test_a_file_may_end_without_its_last_checksum() -> None:
    content, (first, second) = write_file([vector32.write(BitMap([1])), vector64.write(BitMap64([2]))])
    cut = content[:-4]
    assert [list(vector.positions) for vector in read_file(cut)] == [[1], [2]]
    assert list(read_vector(cut, offset=second.offset, length=second.length).positions) == [2]
    assert list(read_vector(cut, offset=first.offset, length=first.length).positions) == [1]


def test_length_leaves_out_size_and_checksum_for_32_bits_only() -> None:
    # apache/paimon #3313
    content, (narrow, wide) = write_file([vector32.write(BitMap([1])), vector64.write(BitMap64([1]))])
    assert wide.offset == narrow.offset + narrow.length + RECORD_MARGIN_BYTES
    assert wide.offset + wide.length == len(content)
    for place, wrong in ((narrow, narrow.length + 8), (wide, wide.length - 8), (narrow, 0)):
        with pytest.raises(CorruptIndexError, match="length"):
            read_vector(content, offset=place.offset, length=wrong)


@pytest.mark.parametrize("offset", [-1, 27, 2**31])
def test_offsets_outside_of_the_file_are_corrupt(offset: int) -> None:
    content, _ = write_file([vector32.write(BitMap([1]))])
    with pytest.raises(CorruptIndexError):
        read_vector(content, offset=offset)


@pytest.mark.parametrize("size", [-1, 0, 3, 23, 2**31 - 1])
def test_sizes_beyond_the_bytes_are_corrupt(size: int) -> None:
    record = write_record(vector32.write(BitMap([1])))
    with pytest.raises(CorruptIndexError, match="size"):
        read_vector(struct.pack(">i", size) + record[4:-4])


def test_an_empty_file_has_no_version() -> None:
    with pytest.raises(CorruptIndexError, match="version"):
        read_file(b"")


def test_bytes_behind_the_last_record_are_corrupt() -> None:
    content, _ = write_file([vector32.write(BitMap([1]))])
    with pytest.raises(CorruptIndexError):
        read_file(content + b"\0\0")


def test_errors_tell_where_in_the_buffer_the_fault_lies() -> None:
    whole = vector32.write(BitMap([1]))
    content, (_, broken) = write_file([whole, whole[:4] + b"\x3a\x30\x00\x01" + whole[8:]])
    with pytest.raises(CorruptIndexError) as caught:
        read_file(content)
    assert caught.value.offset == broken.offset + 4 + len(vector32.MAGIC)


KIND = "deletion-vectors"
FILES = [name for name in golden_cases.documents(KIND) if name not in ("blobs", "damaged")]
BLOBS = golden_cases.document(KIND, "blobs")
DAMAGED = golden_cases.document(KIND, "damaged")["blobs"]


def encode(positions: BitMap64, *, is64: bool) -> bytes:
    return vector64.write(positions) if is64 else vector32.write(BitMap(positions))


@pytest.mark.parametrize("name", FILES)
def test_files_read_as_in_the_engine(name: str) -> None:
    for golden in golden_cases.document(KIND, name)["files"]:
        content = golden_cases.files(KIND)[golden["index_file_meta"]["file_name"]]
        expected = [golden_positions(vector["positions"]) for vector in golden["vectors"]]
        ranges = [(vector["offset"], vector["length"]) for vector in golden["vectors"]]

        in_order = read_file(content)
        by_range = read_vectors(memoryview(content), ranges)
        assert [BitMap64(vector.positions) for vector in in_order] == expected
        assert [BitMap64(vector.positions) for vector in by_range] == expected
        assert [vector.cardinality for vector in in_order] == [v["cardinality"] for v in golden["vectors"]]
        assert sum(vector.record_bytes for vector in in_order) == len(content) - 1


@pytest.mark.parametrize("blob", BLOBS["blobs"], ids=lambda blob: f"{blob['name']}-{blob['bitmap64']}")
def test_single_vectors_read_and_write_as_in_the_engine(blob: dict[str, Any]) -> None:
    record = bytes.fromhex(blob["hex"])
    vector = read_vector(record)
    assert list(vector.positions) == blob["positions"]
    assert vector.is64 == blob["bitmap64"]
    assert vector.highest == max(blob["positions"], default=None)
    if blob["name"].startswith("widened"):
        data = vector64.write(BitMap(blob["positions"]))
    else:
        data = encode(BitMap64(blob["positions"]), is64=blob["bitmap64"])
    assert write_record(data) == record


@pytest.mark.parametrize("blob", DAMAGED, ids=lambda blob: f"{blob['name']}-{blob['bitmap64']}")
def test_damaged_vectors_fail_wherever_the_engine_fails_and_on_their_checksum(blob: dict[str, Any]) -> None:
    if "file_hex" in blob:
        with pytest.raises(UnsupportedFormatError):
            read_vectors(bytes.fromhex(blob["file_hex"]), [(blob["offset"], blob["length"])])
        return
    record = bytes.fromhex(blob["hex"])
    if "error" in blob["expect"] or blob["name"] == "bad_crc":
        with pytest.raises(CorruptIndexError):
            read_vector(record, length=blob["length"])
    else:
        assert read_vector(record, length=blob["length"]).cardinality == blob["expect"]["cardinality"]


@pytest.mark.parametrize(
    "limit", [limit for limit in BLOBS["position_limits"] if limit["position"] >= 0], ids=str
)
def test_writers_refuse_the_positions_that_the_engine_refuses(limit: dict[str, Any]) -> None:
    positions = BitMap64([limit["position"]])
    if limit["error"] is None:
        record = write_record(encode(positions, is64=limit["bitmap64"]))
        assert read_vector(record).highest == limit["position"]
    else:
        with pytest.raises(RequestError):
            encode(positions, is64=limit["bitmap64"])

"""Files and single vectors of the Java engine, read, and the vectors written again byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import read_file, read_vector, read_vectors, vector32, vector64
from app.deletion_vectors.file import write_record
from app.errors import CorruptIndexError, RequestError, UnsupportedFormatError
from tests import golden_unit
from tests.deletion_vectors.golden_positions import golden_positions

KIND = "deletion-vectors"
FILES = [name for name in golden_unit.documents(KIND) if name not in ("blobs", "damaged")]
BLOBS = golden_unit.document(KIND, "blobs")
DAMAGED = golden_unit.document(KIND, "damaged")["blobs"]


def encode(positions: BitMap64, *, is64: bool) -> bytes:
    return vector64.write(positions) if is64 else vector32.write(BitMap(positions))


@pytest.mark.parametrize("name", FILES)
def test_files_read_as_in_the_engine(name: str) -> None:
    for golden in golden_unit.document(KIND, name)["files"]:
        content = golden_unit.files(KIND)[golden["index_file_meta"]["file_name"]]
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

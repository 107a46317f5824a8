"""Blocks decoded into columns: what their bytes say, and nothing that is not all of them."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.table.avro.container import MAGIC, AvroBlock, decode_blocks, open_encoded
from app.table.avro.whole_records import decode_block
from app.table.manifests.manifest_entry import RECORD
from app.table.records.columns import RecordOf
from tests.examples import examples
from tests.golden_cases import GoldenWarehouse

SCHEMA_OF_BLOCKS: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "size", "type": "long"},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
    ],
}
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(max_size=5),
            "size": st.integers(-(2**63), 2**63 - 1),
            "tags": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        }
    ),
    max_size=8,
)


def encoded(records: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(out, SCHEMA_OF_BLOCKS, record)
    return out.getvalue()


def decoded(*blocks: tuple[int, bytes]) -> list[dict[str, Any]]:
    """Return the records of blocks with these counts and contents; the first lies at offset 100."""
    placed = [AvroBlock(100 + at, count, content) for at, (count, content) in enumerate(blocks)]
    records: list[dict[str, Any]] = decode_blocks(placed, orjson.dumps(SCHEMA_OF_BLOCKS)).to_pylist()
    return records


@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_records_of_all_blocks_come_in_order(blocks: list[list[dict[str, Any]]]) -> None:
    found = decoded(*((len(records), encoded(records)) for records in blocks))
    assert found == [record for records in blocks for record in records]


@given(st.lists(RECORDS, min_size=2, max_size=6), st.data())
def test_bytes_on_the_wrong_side_of_a_boundary_are_noticed(
    blocks: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    contents = [(len(records), encoded(records)) for records in blocks]
    at = data.draw(st.integers(0, len(contents) - 2), label="boundary")
    (count, left), (next_count, right) = contents[at : at + 2]
    cut = data.draw(st.integers(0, len(left + right)).filter(lambda cut: cut != len(left)), label="cut")
    contents[at : at + 2] = [(count, (left + right)[:cut]), (next_count, (left + right)[cut:])]
    with pytest.raises(CorruptMetadataError) as caught:
        decoded(*contents)
    assert caught.value.offset == 100


@pytest.mark.parametrize(
    "behind",
    [b"\x00", b"\x00" * 40, b"\x00" + bytes(range(60)), b"\x02" + encoded([{"name": "b", "size": 1}])],
    ids=["an end", "many ends", "an end and more", "a further record"],
)
def test_what_stands_behind_the_records_is_noticed(behind: bytes) -> None:
    content = encoded([{"name": "a", "size": 1}])
    assert len(decoded((1, content))) == 1
    with pytest.raises(CorruptMetadataError, match=r"do not fill|cannot be decoded") as caught:
        decoded((1, content), (1, content + behind), (1, content))
    assert caught.value.offset == 100


def test_a_block_without_records_has_no_bytes() -> None:
    assert decoded((0, b"")) == []
    with pytest.raises(CorruptMetadataError, match="do not fill"):
        decoded((0, b"a" * 40))


class PlainReader:
    """Reads records of the schema above as Avro's specification says, one byte after the other."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, length: int) -> bytes:
        assert 0 <= length <= len(self.content) - self.at
        self.at += length
        return self.content[self.at - length : self.at]

    def long(self) -> int:
        value, shift = 0, 0
        while (byte := self.take(1)[0]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
        value |= byte << shift
        return (value >> 1) ^ -(value & 1)

    def string(self) -> str:
        return self.take(self.long()).decode()

    def is_there(self) -> bool:
        # Any branch but null's is taken for the other one.
        return self.long() != 0

    def tags(self) -> list[str | None]:
        tags = []
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            tags += [self.string() if self.is_there() else None for _ in range(count)]
        return tags

    def record(self) -> dict[str, Any]:
        return {"name": self.string(), "size": self.long(), "tags": self.tags() if self.is_there() else None}


@examples(300)
@given(RECORDS.filter(bool), st.data())
def test_what_is_accepted_is_what_the_bytes_say(records: list[dict[str, Any]], data: st.DataObject) -> None:
    damaged = bytearray(encoded(records))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decoded((len(records), bytes(damaged)))
    except CorruptMetadataError:
        return
    reader = PlainReader(bytes(damaged))
    assert found == [reader.record() for _ in records]
    assert reader.at == len(damaged)


def avro_files(*roots: Path) -> Iterator[Path]:
    for root in roots:
        for path in sorted(root.glob("**/manifest/*")):
            with path.open("rb") as file:
                if file.read(len(MAGIC)) == MAGIC:
                    yield path


def test_the_metadata_of_golden_tables_of_every_release_is_decoded_alike(
    golden: GoldenWarehouse, golden_versions: Path
) -> None:
    compared = 0
    for path in avro_files(golden.root, golden_versions):
        is_manifest = re.match("manifest-(?!list)", path.name)
        file = open_encoded(path.read_bytes(), RECORD if is_manifest else RecordOf({}))
        stored = list(file.blocks)
        if not stored:
            continue
        plain = [record for block in stored for record, _ in decode_block(block, file.schema.text)]

        assert decode_blocks(stored, file.schema.text).to_pylist() == plain, path
        compared += 1
    assert compared > 500

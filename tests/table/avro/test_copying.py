"""Records that are copied as they are encoded: the same ones are in the new files, whole and in order."""

import io
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro.writing import CopiedFrom, copy_records
from app.table.records.columns import Nullable, RecordOf

EXPECTED = RecordOf({"name": "string", "size": "long", "tag": Nullable("bytes")})
FIELDS = [
    {"name": "name", "type": "string"},
    {"name": "size", "type": "long"},
    {"name": "tag", "type": ["null", "bytes"]},
]
UNKNOWN = {"name": "of a later release", "type": {"type": "array", "items": "double"}}
SCHEMA = {"type": "record", "name": "record", "fields": [*FIELDS, UNKNOWN]}
WITHOUT_UNKNOWN = {"type": "record", "name": "record", "fields": FIELDS}
RECORDS = st.builds(
    lambda **record: record | {"of a later release": [record["size"] / 4] * (record["size"] % 3)},
    name=st.text(max_size=3),
    size=st.integers(-(1 << 63), (1 << 63) - 1),
    tag=st.none() | st.binary(max_size=200),
)
LARGEST = 1 << 30


def avro(
    records: list[dict[str, Any]], schema: Any = SCHEMA, codec: str = "zstandard", block: int = 100
) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, sync_interval=block)
    return out.getvalue()


def source(data: bytes, rows: list[int], count: int) -> CopiedFrom:
    return CopiedFrom(data, np.array(rows, np.int64), count)


def copied(
    files: list[CopiedFrom], compression: str = "zstd", target_bytes: int = LARGEST
) -> list[list[Any]]:
    contents = copy_records(files, EXPECTED, compression, target_bytes)
    return [list(fastavro.reader(io.BytesIO(content))) for content in contents]


@given(st.data())
def test_the_chosen_records_are_copied_in_order_with_fields_that_nobody_knows(data: st.DataObject) -> None:
    files, expected = [], []
    for records in data.draw(st.lists(st.lists(RECORDS, max_size=12), max_size=4)):
        rows = sorted(data.draw(st.sets(st.sampled_from(range(len(records))))) if records else [])
        codec = data.draw(st.sampled_from(["null", "deflate", "zstandard"]))
        files.append(source(avro(records, codec=codec), rows, len(records)))
        expected += [records[row] for row in rows]

    target_bytes = data.draw(st.sampled_from([1, 1_000, LARGEST]))
    found = copied(files, data.draw(st.sampled_from(["zstd", "deflate", "snappy", "null"])), target_bytes)

    assert [record for records in found for record in records] == expected
    assert all(found)


def test_a_file_is_closed_at_its_target() -> None:
    records = [{"name": "a", "size": 1, "tag": bytes(20_000), "of a later release": []}] * 16
    data = avro(records)
    # A block is closed at 64,000 bytes, and a file at the end of a block.
    sizes = [len(each) for each in copied([source(data, [*range(16)], 16)], "null", 100_000)]
    assert sizes == [8, 8]
    assert [len(each) for each in copied([source(data, [*range(16)], 16)], "null")] == [16]


def test_a_new_file_is_begun_where_the_schema_changes() -> None:
    known = {"name": "a", "size": 1, "tag": None}
    whole = known | {"of a later release": [0.5]}
    later, earlier = source(avro([whole]), [0], 1), source(avro([known], WITHOUT_UNKNOWN), [0], 1)
    assert copied([earlier, earlier, later, earlier]) == [[known, known], [whole], [known]]


def test_records_that_are_unions_with_null_are_copied_as_such() -> None:
    """As releases up to 0.8.2 write them."""
    records = [{"name": str(at), "size": at, "tag": None} for at in range(5)]
    data = avro(records, ["null", WITHOUT_UNKNOWN])
    assert copied([source(data, [1, 3], 5)]) == [[records[1], records[3]]]


def test_what_has_not_the_records_it_should_have_is_no_file_to_copy() -> None:
    records = [{"name": "a", "size": at, "tag": None} for at in range(40)]
    data = avro(records, WITHOUT_UNKNOWN)
    for count in (39, 41):
        with pytest.raises(CorruptMetadataError, match=f"expected {count} records, found"):
            copied([source(data, [0], count)])
    with pytest.raises(CorruptMetadataError, match=r"expected record\.size to be long"):
        copied(
            [source(avro([], {**SCHEMA, "fields": [FIELDS[0], {"name": "size", "type": "string"}]}), [], 0)]
        )


@pytest.mark.parametrize(
    ("claimed", "message"), [(2, "more than the records it claims"), (4, "records cannot be decoded")]
)
def test_a_block_that_does_not_hold_what_it_claims_is_damaged(claimed: int, message: str) -> None:
    data = avro([{"name": "a", "size": at, "tag": None} for at in range(3)], WITHOUT_UNKNOWN, "null")
    sync = data[-16:]
    block = data.index(sync) + len(sync)
    assert data[block] == 3 << 1
    damaged = data[:block] + bytes([claimed << 1]) + data[block + 1 :]
    with pytest.raises(CorruptMetadataError, match=message):
        copied([source(damaged, [0], claimed)])


def test_an_unknown_compression_is_refused() -> None:
    data = avro([{"name": "a", "size": 1, "tag": None}], WITHOUT_UNKNOWN)
    with pytest.raises(UnsupportedFormatError, match=r"manifest\.compression"):
        copied([source(data, [0], 1)], "lzo")

import bz2
import contextlib
import io
import json
import lzma
import struct
import zlib
from typing import Any

import cramjam
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, MemoryShortError, PaimonIndexError
from app.table.avro.container import MAGIC, read_columns
from app.table.records.columns import ArrayOf, Nullable, RecordOf
from app.table.records.expansion import claiming, expand
from tests.examples import examples

CODECS = ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"]
EXPECTED = RecordOf(
    {
        "name": "string",
        "size": "long",
        "tags": Nullable(ArrayOf(Nullable("string"))),
        "inner": Nullable(RecordOf({"flag": "int"})),
    }
)
NAME, SIZE = {"name": "name", "type": "string"}, {"name": "size", "type": "long"}
WRITTEN: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "namespace": "org.example",
    "fields": [
        NAME,
        SIZE,
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "i", "fields": [{"name": "flag", "type": "int"}]}],
        },
        {
            "name": "later",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
    ],
}
RECORDS = [
    {"name": f"file-{number}", "size": number << 33, "tags": ["a", None], "inner": {"flag": 1}, "later": None}
    for number in range(300)
]


def read_records(data: bytes, expected: RecordOf) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = pa.concat_arrays(read_columns(data, expected).pieces).to_pylist()
    return records


def container(records: list[dict[str, Any]], codec: str = "null", schema: dict[str, Any] = WRITTEN) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, sync_interval=500)
    return out.getvalue()


def long(number: int) -> bytes:
    out, rest = bytearray(), (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def handmade(
    schema: object, count: int, block: bytes, codec: bytes = b"null", length: int | None = None
) -> bytes:
    """Return a file with one block whose parts need not fit each other."""
    text, sync = json.dumps(schema).encode(), bytes(16)
    pairs = [(b"avro.schema", text), (b"avro.codec", codec)]
    header = long(len(pairs)) + b"".join(long(len(part)) + part for pair in pairs for part in pair) + long(0)
    size = len(block) if length is None else length
    return MAGIC + header + sync + long(count) + long(size) + block + sync


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str) -> None:
    assert read_records(container(RECORDS, codec), EXPECTED) == RECORDS


def test_a_large_file_is_decoded_in_pieces_that_stay_in_order() -> None:
    padding = "x" * 20_000
    names = [f"{number} {padding}" for number in range(1_000)]
    laters = [number % 2 or None for number in range(1_000)]
    tags = [[str(number)] for number in range(1_000)]
    columns = zip(names, range(1_000), tags, laters, strict=True)
    written = [
        {"name": name, "size": size, "tags": tagged, "inner": None, "later": later}
        for name, size, tagged, later in columns
    ]

    found = read_columns(container(written), EXPECTED)

    assert len(found.pieces) > 1
    assert len(found) == len(names)
    assert found.objects("name") == names
    assert list(found.strings("name")) == [name.encode() for name in names]
    assert found.integers("size", np.int64).tolist() == list(range(1_000))
    assert found.optional_integers("later").tolist() == laters
    assert found.lists("tags", pa.string()).to_pylist() == tags


def test_an_empty_file_has_no_records() -> None:
    assert read_records(container([]), EXPECTED) == []


def test_older_writers_leave_out_nullable_fields() -> None:
    written = [{"name": "a", "size": 1}]
    assert read_records(container(written, schema=record()), EXPECTED) == written


def test_a_nullable_field_may_be_written_without_null() -> None:
    schema = record({"name": "tags", "type": {"type": "array", "items": "string"}})
    written = [{"name": "a", "size": 1, "tags": ["x"]}]
    assert read_records(container(written, schema=schema), EXPECTED) == written


def test_logical_types_stay_numbers() -> None:
    size = {"name": "size", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    data = handmade(of_fields(NAME, size), 1, b"\x02a" + long(1 << 60))
    assert read_records(data, EXPECTED) == [{"name": "a", "size": 1 << 60}]


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_noticed(codec: str) -> None:
    data = container(RECORDS[:3], codec)
    whole_header = data.index(b"avro.schema")
    for end in range(len(data)):
        try:
            records = read_records(data[:end], EXPECTED)
        except CorruptMetadataError:
            continue
        # Only between header and first block does a file end where another could.
        assert records == []
        assert end > whole_header


@examples(300)
@given(st.sampled_from(CODECS), st.data())
def test_damage_raises_nothing_but_our_errors(codec: str, data: st.DataObject) -> None:
    damaged = bytearray(container(RECORDS[:5], codec))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PaimonIndexError):
        read_records(bytes(damaged), EXPECTED)


@given(st.sampled_from([*CODECS, "lz4"]), st.binary(max_size=200))
def test_random_blocks_raise_nothing_but_our_errors(codec: str, block: bytes) -> None:
    with contextlib.suppress(PaimonIndexError):
        assert len(expand(codec, block, 1000)) <= 1000


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_may_not_grow_beyond_the_limit(codec: str) -> None:
    packed = packed_block(bytes(100_000), codec)
    assert expand(codec, packed, 100_000) == bytes(100_000)
    with pytest.raises(CorruptMetadataError, match=r"more than 99999|claim to expand"):
        expand(codec, packed, 99_999)


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "bzip2", "xz"])
def test_a_bomb_is_stopped(codec: str) -> None:
    bomb = packed_block(bytes(32 << 20), codec)
    assert len(bomb) < 200_000
    with pytest.raises(CorruptMetadataError, match="more than 8388608 bytes"):
        read_records(handmade(WRITTEN, 1, bomb, codec.encode()), EXPECTED)


def packed_block(content: bytes, codec: str) -> bytes:
    match codec:
        case "null":
            return content
        case "deflate":
            deflate = zlib.compressobj(wbits=-15)
            return deflate.compress(content) + deflate.flush()
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(content)) + struct.pack(">I", zlib.crc32(content))
        case "zstandard":
            return bytes(cramjam.zstd.compress(content))
        case "bzip2":
            return bz2.compress(content)
        case _:
            return lzma.compress(content)


def test_snappy_checksums_are_verified() -> None:
    packed = bytearray(packed_block(b"some content", "snappy"))
    packed[-1] ^= 1
    with pytest.raises(CorruptMetadataError, match="checksum"):
        expand("snappy", bytes(packed), 100)


def test_what_stands_behind_a_stream_is_damage() -> None:
    with pytest.raises(CorruptMetadataError, match="does not end"):
        expand("zstandard", packed_block(b"content", "zstandard") + b"x", 100)


def of_fields(*fields: object, name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def record(*fields: object) -> dict[str, Any]:
    return of_fields(NAME, SIZE, *fields)


def field(written: object) -> dict[str, Any]:
    return {"name": "extra", "type": written}


def nested(depth: int) -> object:
    return "int" if depth == 0 else {"type": "array", "items": nested(depth - 1)}


def doubled(levels: int) -> object:
    """Return a record of two records of two records, ..., each of which is named the second time."""
    if levels == 0:
        return "int"
    name = f"level_{levels}"
    inner = doubled(levels - 1)
    again = inner if isinstance(inner, str) else inner["name"]  # type: ignore[index] # of a record
    return of_fields({"name": "a", "type": inner}, {"name": "b", "type": again}, name=name)


@pytest.mark.parametrize("name", ["i", "org.example.i"])
def test_a_record_may_be_named_again(name: str) -> None:
    fields = [*WRITTEN["fields"][:-1], {"name": "again", "type": ["null", name]}]
    schema = {**WRITTEN, "fields": fields}
    rows = [{**row, "again": {"flag": 2}} for row in RECORDS[:2]]
    out = io.BytesIO()
    fastavro.writer(out, schema, rows)

    found = read_columns(out.getvalue(), RecordOf({"inner": Nullable(AGAIN), "again": Nullable(AGAIN)}))

    assert found.records("inner").integers("flag", np.int32).tolist() == [1, 1]
    assert found.records("again").integers("flag", np.int32).tolist() == [2, 2]


AGAIN = RecordOf({"flag": "int"})
OF_LONGS = of_fields(*({"name": f"field_{at}", "type": "long"} for at in range(40)), name="longs")


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (record(field("r")), "unexpected type 'r'"),
        (record(field(["null", "r"])), "unexpected type 'r'"),
        (record(field("null")), "unexpected type 'null'"),
        (record(field(["null", "null"])), "unexpected type 'null'"),
        (record(field({"type": "array", "items": "null"})), "unexpected type 'null'"),
        (record(field({"type": "array", "items": of_fields(name="e")})), "unexpected type"),
        (record(field({"type": "enum", "name": "e", "symbols": ["A"]})), "unexpected type"),
        (record(field({"type": "fixed", "name": "f", "size": 1 << 40})), "unexpected type"),
        (record(field({"type": "map", "values": "int"})), "unexpected type"),
        (record(field(nested(40))), "nested too deeply"),
        (record(field(doubled(12))), "too large"),
        (record(field("elsewhere.i")), "unexpected type 'elsewhere.i'"),
        (record(*[field("int")] * 3000), "too large"),
        (record(field(["null", "long", "string"])), "unexpected type"),
        (record(field({"type": "array", "items": ["null", OF_LONGS]})), "of 40 columns that can be null"),
        (record(field("int"), field("int")), "two fields of one name"),
        (record(field(7)), "unexpected type 7"),
        (record({"name": "extra"}), "without name or type"),
        (of_fields(NAME), "expected a field record.size"),
        (of_fields(SIZE, field("string")), "expected a field record.name"),
        (of_fields(NAME, {"name": "size", "type": "string"}), "record.size"),
        (of_fields(NAME, {"name": "size", "type": ["null", "long"]}), "record.size"),
        (record({"name": "tags", "type": "string"}), "record.tags"),
        (record({"name": "tags", "type": {"type": "array", "items": "long"}}), r"record.tags\[\]"),
        (record({"name": "inner", "type": of_fields(NAME, name="i")}), "record.inner.flag"),
        (["int"], "unexpected type"),
        ("string", "expected record"),
    ],
)
def test_dangerous_or_foreign_schemas_are_refused(schema: object, complaint: str) -> None:
    with pytest.raises(CorruptMetadataError, match=complaint):
        read_records(handmade(schema, 1, bytes(20)), EXPECTED)


@pytest.mark.parametrize(
    ("count", "block", "length"),
    [
        (2, b"\x02a\x02", None),
        (1, b"\x02a\x02\x02b\x04", None),
        (1 << 62, b"\x02a\x02", None),
        (-1, b"\x02a\x02", None),
        (1, b"\x02a\x02", -1),
        (1, b"\x02a\x02", 1 << 62),
        (1, long(1 << 40) + b"a", None),
        (1, long(-5) + b"a\x02", None),
        (1, b"\x02\xff\x02", None),
        (1, b"\x02a\x02\x00", None),
        (1, b"\x02a\x02" + bytes(40), None),
    ],
)
def test_counts_and_lengths_are_checked(count: int, block: bytes, length: int | None) -> None:
    with pytest.raises(CorruptMetadataError):
        read_records(handmade(record(), count, block, length=length), EXPECTED)


@pytest.mark.parametrize("items", [1 << 40, 1 << 62, -(1 << 62), -(1 << 63)])
def test_an_array_cannot_claim_more_items_than_there_are(items: int) -> None:
    block = b"\x02a\x02" + b"\x02" + long(items) + b"\x00" * 5
    with pytest.raises(CorruptMetadataError):
        read_records(handmade(WRITTEN, 1, block), EXPECTED)


def test_records_that_cannot_be_decoded_name_the_block_that_decoding_began_with() -> None:
    data = bytearray(container(RECORDS))
    data[data.index(b"file-200")] = 0xFF
    with pytest.raises(CorruptMetadataError, match=r"cannot be decoded.*UTF-8") as caught:
        read_records(bytes(data), EXPECTED)
    assert caught.value.offset == data.index(data[-16:]) + 16


def test_errors_name_the_block() -> None:
    data = bytearray(container(RECORDS))
    data[-1] ^= 1
    with pytest.raises(CorruptMetadataError, match="sync marker") as caught:
        read_records(bytes(data), EXPECTED)
    assert caught.value.offset == len(data) - 16


def test_memory_is_claimed_before_records_take_it() -> None:
    data = container(RECORDS * 200, "zstandard")
    claims: list[int] = []

    with claiming(claims.append):
        columns = read_columns(data, EXPECTED)

    assert max(claims) >= sum(piece.nbytes for piece in columns.pieces)


def test_a_claim_that_is_refused_ends_the_decoding() -> None:
    def refuse(size: int) -> None:
        raise MemoryShortError(f"{size} bytes do not fit")

    with claiming(refuse), pytest.raises(MemoryShortError):
        read_columns(container(RECORDS), EXPECTED)

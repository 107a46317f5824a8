import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.types import DataType, Value, parse_json, parse_type
from app.types.binary_row.row import read_row, row_hash, serialize_row, write_row
from tests import golden_cases
from tests.examples import examples

I64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": I64,
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(18, 4)": st.integers(-(10**18) + 1, 10**18 - 1),
    "DECIMAL(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300) | I64,
    "STRING": st.binary(max_size=20),
    "CHAR(8)": st.binary(max_size=8),
    "BYTES": st.binary(max_size=40),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(3)": (I64 | st.integers(-(2**43), 2**43)).map(lambda millis: millis * 1_000_000),
    "TIMESTAMP(9)": st.integers(-(2**63) * 1_000_000, 2**63 * 1_000_000 - 1) | I64,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.integers(-(2**60), 2**60),
}


def golden_rows() -> list[Any]:
    keys = golden_cases.document("hash-index", "keys")["keys"]
    rows = [
        (
            group["types"],
            row["values"],
            struct.pack(">i", len(group["types"])) + bytes.fromhex(row["row_hex"]),
            row["hash"],
        )
        for group in keys
        for row in group["rows"]
    ]
    rows += [
        (group["types"], row["values"], bytes.fromhex(row["hex"]), row["hash"])
        for group in golden_cases.document("rows", "partitions")["partitions"]
        for row in group["rows"]
    ]
    return rows


def parse_types(texts: Sequence[str]) -> list[DataType]:
    return [parse_type(text) for text in texts]


def same(left: Value | None, right: Value | None) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return repr(left) == repr(right)


def test_rows_and_hashes_are_those_of_the_engine() -> None:
    cases = golden_rows()
    assert len(cases) > 800
    for texts, json_values, serialized, expected_hash in cases:
        types = parse_types(texts)
        values = tuple(parse_json(value, kind) for value, kind in zip(json_values, types, strict=True))
        assert serialize_row(values, types) == serialized, (texts, json_values)
        assert write_row(values, types) == serialized[4:]
        assert row_hash(serialized[4:]) == expected_hash, (texts, json_values)
        assert all(map(same, read_row(serialized, types), values)), (texts, json_values)


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[list[DataType], list[Value | None]]:
    texts = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=12))
    values = [draw(st.none() | VALUES[text]) for text in texts]
    return parse_types(texts), values


@given(typed_rows())
def test_what_is_written_reads_back(row: tuple[list[DataType], list[Value | None]]) -> None:
    types, values = row
    written = write_row(values, types)
    assert len(written) % 8 == 0
    assert all(map(same, read_row(memoryview(serialize_row(values, types)), types), values))


@examples(300)
@given(typed_rows(), st.data())
def test_damaged_rows_read_as_values_or_as_corrupt(
    row: tuple[list[DataType], list[Value | None]], data: st.DataObject
) -> None:
    types, values = row
    damaged = bytearray(serialize_row(values, types))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        found = read_row(damaged, types)
    except CorruptMetadataError:
        return
    assert len(found) == len(types)


def test_field_64_lies_in_the_second_word_of_null_bits() -> None:
    types = parse_types(["INT"] * 70)
    values = [None if index in (0, 55, 56, 69) else index for index in range(70)]
    assert read_row(serialize_row(values, types), types) == tuple(values)
    assert write_row(values, types)[:16].hex() == "00010000000000800120000000000000"


@pytest.mark.parametrize("text", ["ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>", "VARIANT", "MULTISET<INT>"])
def test_types_without_values_read_as_none(text: str) -> None:
    types = parse_types(["INT", text, "STRING"])
    nulls = serialize_row([7, None, b"seven"], types)
    assert read_row(nulls, types) == (7, None, b"seven")
    garbage_slot = nulls[:4] + b"\0" * 8 + nulls[12:20] + b"\xff" * 8 + nulls[28:]
    assert read_row(garbage_slot, types) == (7, None, b"seven")


def test_nulls_of_types_updated_in_place_hash_apart_from_other_nulls() -> None:
    hashes = {row_hash(write_row([None], [parse_type(text)])) for text in ("INT", "STRING", "TIMESTAMP(3)")}
    assert len(hashes) == 1
    hashes |= {row_hash(write_row([None], [parse_type(text)])) for text in ("TIMESTAMP(6)", "DECIMAL(20, 0)")}
    assert len(hashes) == 3


SLOT = struct.Struct("<ii")
OUTSIDE = [
    ("STRING", SLOT.pack(9, 16)),
    ("STRING", SLOT.pack(-1, 16)),
    ("STRING", SLOT.pack(2**31 - 1, 16)),
    ("BYTES", b"\0" * 7 + b"\x88"),
    ("DECIMAL(20, 0)", SLOT.pack(0, 16)),
    ("DECIMAL(20, 0)", SLOT.pack(17, 0)),
    ("DECIMAL(20, 0)", SLOT.pack(16, 16)),
    ("TIMESTAMP(6)", SLOT.pack(1_000_000, 16)),
    ("TIMESTAMP(6)", SLOT.pack(-1, 16)),
    ("TIMESTAMP(6)", SLOT.pack(0, 17)),
    ("TIMESTAMP(6)", SLOT.pack(0, -8)),
]


@pytest.mark.parametrize(("text", "slot"), OUTSIDE)
def test_values_outside_of_their_row_are_corrupt(text: str, slot: bytes) -> None:
    row = struct.pack(">i", 1) + bytes(8) + slot + bytes(8)
    with pytest.raises(CorruptMetadataError) as caught:
        read_row(row, [parse_type(text)])
    assert caught.value.offset == 12


@pytest.mark.parametrize(
    "buffer",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\2" + bytes(24),
        b"\xff\xff\xff\xff" + bytes(16),
        b"\0\0\0\1" + bytes(15),
        b"\1\0\0\0" + bytes(16),
    ],
)
def test_another_number_of_fields_or_missing_slots_are_corrupt(buffer: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        read_row(buffer, [parse_type("INT")])

"""Many rows written at once are, byte for byte, the rows written one by one."""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.types import DataType, Value, parse_json, parse_type
from app.types.binary_row.row import read_row, serialize_row, write_row
from app.types.binary_row.rows import FieldValues, RowColumns, fields_of, write_rows
from app.types.bytes_column import BytesColumn
from tests import golden_cases
from tests.examples import examples
from tests.types.binary_row.test_row import OUTSIDE, VALUES


def written(fields: Sequence[FieldValues], count: int) -> list[bytes]:
    rows: list[bytes] = [b""] * count
    seen: list[int] = []
    for positions, matrix in write_rows(fields, count):
        assert np.all(np.diff(positions) > 0)
        seen += positions.tolist()
        for position, row in zip(positions.tolist(), matrix, strict=True):
            rows[position] = row.tobytes()
    assert sorted(seen) == list(range(count))
    return rows


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], list[tuple[Value | None, ...]]]:
    """Types, and rows of them; some so wide that their null bits fill more than a word."""
    texts = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    wide = draw(st.booleans()) * 60
    rows = draw(st.lists(st.tuples(*(st.none() | VALUES[text] for text in texts)), max_size=8))
    types = [parse_type("INT")] * wide + [parse_type(text) for text in texts]
    return types, [(None,) * wide + row for row in rows]


@examples(300)
@given(tables())
def test_rows_are_those_written_one_by_one(
    table: tuple[list[DataType], list[tuple[Value | None, ...]]],
) -> None:
    types, rows = table
    assert written(fields_of(rows, types), len(rows)) == [write_row(row, types) for row in rows]


@given(tables())
def test_single_values_come_back(table: tuple[list[DataType], list[tuple[Value | None, ...]]]) -> None:
    types, rows = table
    for index, field in enumerate(fields_of(rows, types)):
        kept = [write_row((value,), [field.type]) for value in field.tolist()]
        assert kept == [write_row((row[index],), [field.type]) for row in rows]


def engine_rows() -> list[Any]:
    groups = golden_cases.document("hash-index", "keys")["keys"]
    return [(group["types"], group["rows"]) for group in groups]


@pytest.mark.parametrize(("texts", "rows"), engine_rows(), ids=lambda given: ",".join(map(str, given))[:40])
def test_rows_are_those_of_the_engine(texts: list[str], rows: list[dict[str, Any]]) -> None:
    types = [parse_type(text) for text in texts]
    values = [
        [parse_json(value, each) for value, each in zip(row["values"], types, strict=True)] for row in rows
    ]
    assert written(fields_of(values, types), len(rows)) == [bytes.fromhex(row["row_hex"]) for row in rows]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("text", ["TINYINT", "INT", "BIGINT", "DATE", "DECIMAL(9, 2)"])
def test_arrays_may_be_narrower_than_the_type(text: str, dtype: type[np.signedinteger[Any]]) -> None:
    numbers, data_type = np.array([-5, 0, 77], dtype), parse_type(text)
    field = FieldValues(data_type, numbers, np.array([False, True, False]))
    assert written([field], 3) == [write_row((value,), [data_type]) for value in (-5, None, 77)]


def test_what_stands_where_a_value_is_null_is_not_looked_at() -> None:
    is_null = np.array([True, False])
    for text, values in (
        ("BIGINT", np.array([9, 1])),
        ("DOUBLE", np.array([np.nan, 1.0])),
        ("TIMESTAMP(9)", np.array([-7, 1])),
        ("DECIMAL(30, 0)", np.array([10**37, 1], np.object_)),
        ("STRING", pa.array([b"far longer than a slot", b"short"], pa.large_binary())),
    ):
        data_type = parse_type(text)
        expected = [write_row((value,), [data_type]) for value in (None, values.tolist()[1])]
        assert written([FieldValues(data_type, values, is_null)], 2) == expected


def test_strings_of_a_slice_of_an_array() -> None:
    strings = pa.array([b"before", b"one", None, b"a longer string", b"behind"], pa.large_binary())[1:4]
    data_type = parse_type("STRING")
    field = FieldValues(data_type, strings, np.array([False, True, False]))
    expected = [write_row((value,), [data_type]) for value in (b"one", None, b"a longer string")]
    assert written([field], 3) == expected


def test_rows_without_fields_are_their_null_bits() -> None:
    assert written([], 2) == [bytes(8), bytes(8)]


WITHOUT_VALUES = parse_type("ARRAY<INT>")


def read_one_by_one(
    rows: Sequence[bytes], fields: int, index: int, data_type: DataType
) -> list[Value | None]:
    """Return the field by the reader of single rows, which then looks at no other field."""
    types = [data_type if at == index else WITHOUT_VALUES for at in range(fields)]
    return [read_row(row, types)[index] for row in rows]


def read_at_once(rows: Sequence[bytes], fields: int, index: int, data_type: DataType) -> list[Value | None]:
    column = BytesColumn.of(rows)
    values, known = RowColumns(column, fields).read(index, data_type)
    assert len(values) == len(known) == len(rows)
    return [value if present else None for value, present in zip(values.tolist(), known, strict=True)]


def shown(values: Sequence[Value | None]) -> list[str]:
    """Values to compare, types and NaN included."""
    return ["nan" if isinstance(value, float) and math.isnan(value) else repr(value) for value in values]


@st.composite
def column_tables(draw: st.DrawFn) -> tuple[list[DataType], list[bytes]]:
    texts = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    types = [parse_type(text) for text in texts]
    wide = draw(st.booleans()) * [parse_type("INT")] * 60
    rows = draw(st.lists(st.tuples(*(st.none() | VALUES[text] for text in texts)), max_size=5))
    return [*wide, *types], [serialize_row([*(None for _ in wide), *row], [*wide, *types]) for row in rows]


@examples(250)
@given(column_tables())
def test_every_field_of_every_row(table: tuple[list[DataType], list[bytes]]) -> None:
    types, rows = table
    for index, data_type in enumerate(types):
        expected = read_one_by_one(rows, len(types), index, data_type)
        assert shown(read_at_once(rows, len(types), index, data_type)) == shown(expected)


@examples(500)
@given(column_tables(), st.data())
def test_damaged_rows_read_alike_or_are_corrupt_alike(
    table: tuple[list[DataType], list[bytes]], data: st.DataObject
) -> None:
    types, rows = table
    damaged = []
    for row in map(bytearray, rows):
        for _ in range(data.draw(st.integers(0, 3))):
            row[data.draw(st.integers(4, len(row) - 1))] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            del row[data.draw(st.integers(len(row) - 9, len(row))) :]
        damaged.append(bytes(row))
    index = data.draw(st.integers(0, len(types) - 1))
    try:
        expected = read_one_by_one(damaged, len(types), index, types[index])
    except CorruptMetadataError:
        with pytest.raises(CorruptMetadataError):
            read_at_once(damaged, len(types), index, types[index])
    else:
        found = read_at_once(damaged, len(types), index, types[index])
        assert shown(found) == shown(expected)


@pytest.mark.parametrize(
    ("text", "values", "dtype"),
    [
        ("DECIMAL(38, 0)", [2**63 - 1, -(2**63)], np.int64),
        ("DECIMAL(38, 0)", [2**63, 0], object),
        ("TIMESTAMP(9)", [2**63 - 10**6, -(2**63) + 10**6], np.int64),
        ("TIMESTAMP(9)", [253402300799_999_999_999], object),
        ("TIMESTAMP(3)", [253402300799_999_000_000], object),
        ("FLOAT", [1.5], np.float64),
        ("BOOLEAN", [True, False], np.bool_),
        ("TINYINT", [-1], np.int64),
    ],
)
def test_integers_are_boxed_only_where_they_must_be(text: str, values: list[Value], dtype: type) -> None:
    data_type = parse_type(text)
    rows = BytesColumn.of([serialize_row([value], [data_type]) for value in values])
    found, known = RowColumns(rows, 1).read(0, data_type)
    assert found.dtype == dtype
    assert found.tolist() == values
    assert known.all()


def test_strings_become_an_arrow_array() -> None:
    data_type = parse_type("STRING")
    rows = BytesColumn.of(
        [serialize_row([value], [data_type]) for value in (b"short", None, b"a long string")]
    )
    found, _ = RowColumns(rows, 1).read(0, data_type)
    assert pa.array([b"short", None, b"a long string"], pa.large_binary()).equals(found)


@pytest.mark.parametrize("text", ["ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>", "VARIANT"])
def test_types_without_values_are_not_known(text: str) -> None:
    types = [parse_type("INT"), parse_type(text)]
    null = serialize_row([7, None], types)
    row = null[:4] + bytes(8) + null[12:]
    assert read_at_once([row], 2, 1, types[1]) == [None]
    assert read_at_once([row], 2, 0, types[0]) == [7]


@pytest.mark.parametrize(
    ("row", "expectation"),
    [
        (b"", "4 bytes"),
        (b"\0\0\0", "4 bytes"),
        (b"\0\0\0\2" + bytes(24), "a row of 1 fields, found 2"),
        (b"\xff\xff\xff\xff" + bytes(16), "a row of 1 fields, found -1"),
        (b"\0\0\0\1" + bytes(15), "at least 20 bytes of row, found 19"),
    ],
)
def test_a_broken_row_is_named(row: bytes, expectation: str) -> None:
    good = serialize_row([7], [parse_type("INT")])
    with pytest.raises(CorruptMetadataError, match=f"file-1: expected .*{expectation}"):
        RowColumns(BytesColumn.of([good, row, good]), 1, "file-{}".format)


@pytest.mark.parametrize(("text", "slot"), OUTSIDE)
def test_values_outside_of_their_row_are_corrupt(text: str, slot: bytes) -> None:
    row = struct.pack(">i", 1) + bytes(8) + slot + bytes(8)
    with pytest.raises(CorruptMetadataError) as caught:
        read_at_once([row, row], 1, 0, parse_type(text))
    assert caught.value.offset == 12
    null = row[:5] + b"\1" + row[6:]
    assert read_at_once([null], 1, 0, parse_type(text)) == [None]


def test_no_rows_at_all() -> None:
    for text in VALUES:
        assert read_at_once([], 3, 1, parse_type(text)) == []

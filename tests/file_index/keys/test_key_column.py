from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import IndexWriteError
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import key_space
from app.types import parse_type
from app.types.bytes_column import BytesColumn
from tests.examples import examples
from tests.file_index.strategies import TYPES, columns
from tests.key_columns import arrow_array, key_column

_SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)


def _keys(column: KeyColumn) -> list[Any]:
    return list(column.keys) if isinstance(column.keys, BytesColumn) else column.keys.tolist()


@pytest.mark.parametrize(
    ("type_text", "array", "expected"),
    [
        ("BOOLEAN", pa.array([True, False]), [1, 0]),
        ("TINYINT", pa.array([-128, 127], pa.int32()), [-128, 127]),
        ("INT", pa.array([2**31 - 1], pa.uint64()), [2**31 - 1]),
        ("BIGINT", pa.array([-5], pa.int8()), [-5]),
        ("DATE", pa.array([dt.date(1969, 12, 31)]), [-1]),
        ("DATE", pa.array([-1], pa.int32()), [-1]),
        ("TIME(3)", pa.array([1_500], pa.time32("ms")), [1_500]),
        ("TIME(0)", pa.array([1], pa.time32("s")), [1_000]),
        ("TIME(3)", pa.array([1_500_000], pa.time64("us")), [1_500]),
        ("TIME(3)", pa.array([1_500_000_000], pa.time64("ns")), [1_500]),
        ("TIME(3)", pa.array([1_500], pa.int32()), [1_500]),
        ("TIMESTAMP(0)", pa.array([1], pa.timestamp("s")), [1_000]),
        ("TIMESTAMP(3)", pa.array([-1], pa.timestamp("ns")), [-1]),
        ("TIMESTAMP(6)", pa.array([1], pa.timestamp("ms")), [1_000]),
        ("TIMESTAMP(9)", pa.array([-1, 1_999], pa.timestamp("ns")), [-1, 1]),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.array([_SECOND], pa.timestamp("us", "Asia/Tokyo")), [10**6]),
        ("DECIMAL(9, 2)", pa.array([Decimal("-1.50")], pa.decimal128(9, 2)), [-150]),
        ("DECIMAL(9, 2)", pa.array([Decimal("-1.50")], pa.decimal32(9, 2)), [-150]),
        ("DECIMAL(9, 2)", pa.array([Decimal("-1.50")], pa.decimal64(18, 2)), [-150]),
        ("DECIMAL(38, 0)", pa.array([Decimal(-(1 << 63))], pa.decimal256(76, 0)), [-(1 << 63)]),
        ("FLOAT", pa.array([0.0, -0.0, 1.5], pa.float32()), [0, -1, 0x3FC00000]),
        ("STRING", pa.array(["", "é"], pa.large_string()), [b"", "é".encode()]),
        ("STRING", pa.array(["a", "longer than twelve"], pa.string_view()), [b"a", b"longer than twelve"]),
        ("CHAR(3)", pa.array(["b", "a", "b"]).dictionary_encode(), [b"b", b"a", b"b"]),
        ("BYTES", pa.array([b"\0"], pa.binary_view()), [b"\0"]),
        ("BINARY(2)", pa.array([b"\0\1", b"\2\3"], pa.binary(2)), [b"\0\1", b"\2\3"]),
        ("INT", pa.array([7, 8, 7]).dictionary_encode(), [7, 8, 7]),
        ("STRING", pa.nulls(3), []),
        ("DOUBLE", pa.nulls(0), []),
    ],
)
def test_takes_what_readers_of_data_files_give(type_text: str, array: pa.Array, expected: list[Any]) -> None:
    data_type = parse_type(type_text)
    around = pa.concat_arrays([array[:1], array[1:]])

    for form in (array, pa.chunked_array([array[:1], array[:0], array[1:]], array.type), around):
        column = KeyColumn.of(form, data_type, "c")
        assert _keys(column) == expected
        assert column.row_count == len(array)


def test_all_nans_are_one() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)

    keys = KeyColumn.of(pa.array(nans), parse_type("DOUBLE"), "c").keys

    assert np.asarray(keys).tolist() == [0x7FF8 << 48] * 3


def test_slices_are_read_from_where_they_start() -> None:
    for values, type_text in (([1, None, 3, 4], "INT"), (["a", None, "b", "c"], "STRING")):
        column = KeyColumn.of(pa.array(values)[1:3], parse_type(type_text), "c")
        assert _keys(column) == [3 if type_text == "INT" else b"b"]
        assert (column.null_rows.tolist(), column.value_rows.tolist()) == ([0], [1])
    decimals = pa.array([Decimal(1), None, Decimal(3)], pa.decimal128(5, 0))[1:]
    assert _keys(KeyColumn.of(decimals, parse_type("DECIMAL(5, 0)"), "c")) == [3]


@pytest.mark.parametrize(
    ("type_text", "array", "message"),
    [
        ("INT", pa.array(["a"]), "column 'm[k]': expected values of type INT, found Arrow's string"),
        ("STRING", pa.array([b"a"]), "type STRING, found Arrow's binary"),
        ("DOUBLE", pa.array([1.5], pa.float32()), "type DOUBLE, found Arrow's float"),
        ("DECIMAL(9, 2)", pa.array([Decimal("1.5")], pa.decimal128(9, 1)), r"Arrow's decimal128\(9, 1\)"),
        ("ARRAY<INT>", pa.array([[1]]), "no index holds values of type ARRAY<INT>"),
        (
            "TINYINT",
            pa.array([1, None, 128]),
            "'m[k]', row 2: expected -128 to 127 for type TINYINT, found 128",
        ),
        ("INT", pa.array([1, -(1 << 31) - 1]), "row 1: expected -2147483648 to 2147483647"),
        ("DECIMAL(3, 1)", pa.array([Decimal("100.0")], pa.decimal128(9, 1)), "row 0: expected -999 to 999"),
        (
            "DECIMAL(38, 0)",
            pa.array([1, 1 << 63], pa.decimal128(38, 0)),
            "row 1: expected an unscaled value of 64 bits for type .*, found 9223372036854775808",
        ),
        ("TIME(3)", pa.array([1_000, 1_001], pa.time64("us")), "row 1: expected whole milliseconds"),
        ("TIMESTAMP(6)", pa.array([1 << 62], pa.timestamp("s")), "row 0: expected -9223372036854 to"),
    ],
)
def test_refuses_what_does_not_fit(type_text: str, array: pa.Array, message: str) -> None:
    with pytest.raises(IndexWriteError, match=message.replace("[", r"\[")):
        KeyColumn.of(array, parse_type(type_text), "m[k]")


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(data=st.data())
@examples(25)
def test_keys_and_codes_are_those_of_each_row(data_type: Any, data: st.DataObject) -> None:
    rows = data.draw(columns(data_type))
    space = key_space(data_type)
    assert space is not None
    expected = [space.key(value) for value in rows if value is not None]

    column = key_column(rows, data_type)

    assert _keys(column) == expected
    assert column.null_rows.tolist() == [row for row, value in enumerate(rows) if value is None]
    assert column.value_rows.tolist() == [row for row, value in enumerate(rows) if value is not None]
    keys, codes = column.distinct()
    distinct = [column.distinct().key(code) for code in range(len(keys))]
    assert distinct == sorted(set(expected))
    assert [distinct[code] for code in codes] == expected


def test_pairs_rows_and_values_over_several_blocks() -> None:
    numbers = np.arange(200_000)
    column = KeyColumn.of(pa.array(numbers, mask=numbers % 3 == 0), parse_type("BIGINT"), "c")

    paired = list(column.with_rows(np.asarray(column.keys)))

    assert len(paired) > 1
    for rows, values in paired:
        assert rows.tolist() == values.tolist()
    assert np.concatenate([rows for rows, _ in paired]).tolist() == column.value_rows.tolist()


def test_shares_the_memory_of_the_array() -> None:
    array = arrow_array([1, 2, 3], parse_type("INT"))

    column = KeyColumn.of(array, parse_type("INT"), "c")

    assert np.shares_memory(np.asarray(column.keys), np.asarray(array))
    assert len(column.null_rows) == 0

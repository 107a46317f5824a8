import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError, IndexWriteError
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import KeySpace, key_space
from app.types import parse_type, sql_key
from app.types.bytes_column import BytesColumn
from tests.examples import examples
from tests.file_index.strategies import TYPES, columns, values
from tests.key_columns import arrow_array, key_column


def _space(text: str) -> KeySpace:
    space = key_space(parse_type(text))
    assert space is not None
    return space


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(data=st.data())
def test_keys_keep_the_order_and_survive_being_stored(data_type: object, data: st.DataObject) -> None:
    text = str(data_type)
    space, parsed = _space(text), parse_type(text)
    low, high = data.draw(values(parsed)), data.draw(values(parsed))
    order = sql_key(parsed)

    assert (order(low) < order(high)) <= (space.key(low) <= space.key(high))  # type: ignore[operator] # one type's keys
    if text != "DECIMAL(38, 10)":
        stored = space.write(space.key(low))
        assert space.read(b"." + stored + b".", 1) == (space.key(low), 1 + len(stored))
    if not space.lossy:
        assert order(space.value(space.key(low))) == order(low)


@pytest.mark.parametrize(
    ("text", "value", "stored"),
    [
        ("BOOLEAN", True, "01"),
        ("TINYINT", -2, "fe"),
        ("SMALLINT", -2, "fffe"),
        ("INT", -2, "fffffffe"),
        ("BIGINT", -2, "fffffffffffffffe"),
        ("DATE", 19_000, "00004a38"),
        ("TIME(3)", 86_399_999, "05265bff"),
        ("DECIMAL(9, 2)", -1, "ffffffffffffffff"),
        ("FLOAT", -0.0, "80000000"),
        ("DOUBLE", -1.5, "bff8000000000000"),
        ("TIMESTAMP(3)", -1_000_000, "ffffffffffffffff"),
        ("TIMESTAMP(6)", -1_000_000, "fffffffffffffc18"),
        ("TIMESTAMP(9)", -1, "ffffffffffffffff"),
        ("STRING", b"\xc3\xa9", "00000002c3a9"),
    ],
)
def test_stores_keys_as_the_engine_does(text: str, value: float | bytes, stored: str) -> None:
    space = _space(text)

    assert space.write(space.key(value)).hex() == stored


def test_takes_every_nan_for_the_same() -> None:
    space = _space("DOUBLE")
    patterns = ["7ff8000000000000", "7ff0000000000001", "fff8000000000000", "ffffffffffffffff"]

    keys = {space.read(bytes.fromhex(pattern), 0)[0] for pattern in patterns}

    assert keys == {space.key(math.nan)}
    assert space.key(math.nan) > space.key(math.inf)  # type: ignore[operator] # both are integers
    assert space.read(struct.pack(">d", -math.inf), 0)[0] == space.key(-math.inf)


@pytest.mark.parametrize(
    ("text", "value", "keys", "before", "behind"),
    [
        pytest.param("TIMESTAMP(6)", 2_000, (2,), (2, 2), (3, 3), id="on a microsecond"),
        pytest.param("TIMESTAMP(6)", 2_001, (), (3, 3), (3, 3), id="between two"),
        pytest.param("TIMESTAMP(9)", 2_000, (2,), (2, 2), (2, 3), id="first of a microsecond"),
        pytest.param("TIMESTAMP(9)", 2_001, (2,), (2, 3), (2, 3), id="within one"),
        pytest.param("TIMESTAMP(9)", 2_999, (2,), (2, 3), (3, 3), id="last of one"),
        pytest.param("TIMESTAMP(9)", -1, (-1,), (-1, 0), (0, 0), id="before the epoch"),
        pytest.param("DOUBLE", 0.0, (-1, 0), (-1, -1), (1, 1), id="both zeros"),
        pytest.param("STRING", b"a", (b"a",), (b"a", b"a"), (b"a\0", b"a\0"), id="text"),
    ],
)
def test_cuts_the_keys_beside_a_value(
    text: str, value: float | bytes, keys: object, before: object, behind: object
) -> None:
    space = _space(text)

    assert space.equal_keys(value) == keys
    assert space.edge(value, behind=False) == before
    assert space.edge(value, behind=True) == behind


@pytest.mark.parametrize(
    ("text", "stored", "at"),
    [
        ("INT", "000000", 0),
        ("INT", "00000000", 1),
        ("STRING", "00000002c3", 0),
        ("STRING", "ffffffff", 0),
        ("INT", "00000000", -1),
    ],
)
def test_refuses_keys_that_are_not_there(text: str, stored: str, at: int) -> None:
    with pytest.raises(CorruptIndexError):
        _space(text).read(bytes.fromhex(stored), at)


def test_knows_no_keys_of_nested_types() -> None:
    assert key_space(parse_type("ARRAY<INT>")) is None


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
    for array, type_text in (([1, None, 3, 4], "INT"), (["a", None, "b", "c"], "STRING")):
        column = KeyColumn.of(pa.array(array)[1:3], parse_type(type_text), "c")
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
    for rows, array in paired:
        assert rows.tolist() == array.tolist()
    assert np.concatenate([rows for rows, _ in paired]).tolist() == column.value_rows.tolist()


def test_shares_the_memory_of_the_array() -> None:
    array = arrow_array([1, 2, 3], parse_type("INT"))

    column = KeyColumn.of(array, parse_type("INT"), "c")

    assert np.shares_memory(np.asarray(column.keys), np.asarray(array))
    assert len(column.null_rows) == 0

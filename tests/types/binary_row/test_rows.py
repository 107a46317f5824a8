"""Many rows written at once are, byte for byte, the rows written one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types import DataType, Value, parse_json, parse_type
from app.types.binary_row.row import write_row
from app.types.binary_row.rows import FieldValues, fields_of, write_rows
from tests import golden_unit
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
    "DECIMAL(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300),
    "STRING": st.binary(max_size=20),
    "CHAR(8)": st.binary(max_size=8),
    "BYTES": st.binary(max_size=40),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(3)": I64.map(lambda millis: millis * 1_000_000),
    "TIMESTAMP(9)": st.integers(-(2**63) * 1_000_000, 2**63 * 1_000_000 - 1) | I64,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.integers(-(2**60), 2**60),
}


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
    groups = golden_unit.document("hash-index", "keys")["keys"]
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

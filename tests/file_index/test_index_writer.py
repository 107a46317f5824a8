"""Indexes that are written and read back, key by key; and those that cannot be written."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import IndexWriteError
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter.bloom_filter import BloomFilter
from app.file_index.bsi.kind import BsiOptions
from app.file_index.index_kinds import (
    BITMAP,
    BLOOM_FILTER,
    BSI,
    KINDS,
    RANGE_BITMAP,
    IndexKind,
    open_index,
)
from app.file_index.index_writer import write_index
from app.file_index.keys.key_column import KeyColumn
from app.types import DataType, parse_type
from tests.examples import examples
from tests.file_index.strategies import TYPES, columns
from tests.key_columns import key_column

_OPTIONS: dict[IndexKind, list[dict[str, str]]] = {
    BLOOM_FILTER: [{"items": "30"}, {"items": "1", "fpp": "0.9"}, {"items": "40", "fpp": "1e-5"}],
    BITMAP: [{}, {"version": "1"}, {"index-block-size": "64"}],
    RANGE_BITMAP: [{}, {"chunk-size": "0 b"}, {"chunk-size": "11 b"}, {"chunk-size": "1kb"}],
    BSI: [{}],
}
_CASES = [
    (kind, options, data_type)
    for data_type in TYPES
    for kind in KINDS.values()
    if kind.takes(data_type)
    for options in _OPTIONS[kind]
]
_INT, _STRING = parse_type("INT"), parse_type("STRING")


@pytest.mark.parametrize(("kind", "options", "data_type"), _CASES, ids=str)
@given(data=st.data())
@examples(10)
def test_the_reader_finds_the_rows_of_each_key(
    kind: IndexKind, options: Mapping[str, str], data_type: DataType, data: st.DataObject
) -> None:
    rows = data.draw(columns(data_type, least_integer=kind is not BSI))
    column = key_column(rows, data_type)
    distinct = column.distinct()

    index = open_index(kind, write_index(kind, column, kind.parse_options(options)), data_type)

    keys = [distinct.key(code) for code in range(len(distinct.keys))]
    if isinstance(index, BloomFilter):
        assert all(map(index.may_hold, keys))
        return
    assert index.row_count == len(rows)
    assert index.null_rows() == BitMap(column.null_rows)
    assert index.value_rows() == BitMap(column.value_rows)
    for code, key in enumerate(keys):
        assert index.rows_with([key]) == BitMap(column.value_rows[distinct.codes == code])


@pytest.mark.parametrize("kind", [BITMAP, RANGE_BITMAP, BSI])
@pytest.mark.parametrize("distinct", [7, 70_000])
def test_many_rows_take_several_containers(kind: IndexKind, distinct: int) -> None:
    numbers = np.random.default_rng(distinct).integers(-distinct, distinct, 200_000, np.int32)
    null = numbers % 10 == 0
    column = KeyColumn.of(pa.array(numbers, mask=null), _INT, "c")

    index = open_index(kind, write_index(kind, column, kind.parse_options({})), _INT)

    assert not isinstance(index, BloomFilter)
    assert index.null_rows() == BitMap(np.flatnonzero(null))
    for key in np.unique(numbers[~null])[:: max(1, distinct // 50)].tolist():
        assert index.rows_with([key]) == BitMap(np.flatnonzero(numbers == key))
    assert index.rows_between(-3, 5) == BitMap(np.flatnonzero((numbers >= -3) & (numbers < 5) & ~null))


def test_a_bloom_filter_of_the_wanted_size_errs_as_often_as_it_was_asked_to() -> None:
    numbers = np.random.default_rng(1).permutation(40_000).astype(np.int32)
    column = KeyColumn.of(pa.array(numbers[:20_000]), _INT, "c")
    options = BLOOM_FILTER.parse_options({"items": "20000", "fpp": "0.02"})

    index = open_index(BLOOM_FILTER, write_index(BLOOM_FILTER, column, options), _INT)

    assert isinstance(index, BloomFilter)
    assert all(index.may_hold(key) for key in numbers[:20_000].tolist())
    assert 0.015 < sum(index.may_hold(key) for key in numbers[20_000:].tolist()) / 20_000 < 0.025


@pytest.mark.parametrize(
    ("kind", "type_text", "message"),
    [
        ("bitmap", "BYTES", "column 'c': bitmap does not take type BYTES: use bloom-filter"),
        ("bsi", "STRING", "bsi does not take type STRING: use bloom-filter or bitmap or range-bitmap"),
        ("bloom-filter", "DECIMAL(38, 10)", r"bloom-filter does not take type DECIMAL\(38, 10\): use bsi"),
        (
            "range-bitmap",
            "TIMESTAMP(9)",
            r"does not take type TIMESTAMP\(9\): use bloom-filter or bitmap or bsi",
        ),
    ],
)
def test_names_the_kinds_that_take_the_type(kind: str, type_text: str, message: str) -> None:
    column = key_column([], parse_type(type_text))

    with pytest.raises(IndexWriteError, match=message):
        write_index(KINDS[kind], column, KINDS[kind].parse_options({}))


def test_refuses_options_of_another_kind() -> None:
    with pytest.raises(TypeError, match="expected options of bitmap"):
        write_index(BITMAP, key_column([1], _INT), BsiOptions())


def test_names_the_row_whose_entry_no_block_has_room_for() -> None:
    column = key_column([b"a", None, b"a", b"far too long"], _STRING, "name")

    with pytest.raises(
        IndexWriteError, match=r"column 'name', row 3: .* 20 bytes, .* 'far too long'"
    ) as error:
        bitmap.write(column, block_bytes=24)

    assert (error.value.column, error.value.row) == ("name", 3)

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError, IndexWriteError
from app.file_index.answers import Answer, Points, never_out_of_time
from app.file_index.bitmap import bitmap
from app.file_index.bsi.kind import BsiOptions
from app.file_index.container import MAGIC, ContainerEntry, write, write_index
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, KINDS, RANGE_BITMAP, IndexKind, open_payload
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import Key
from app.file_index.kind import FileStack
from app.file_index.stacked_index import FileIndex
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, parse_type
from tests.examples import examples
from tests.file_index.strategies import TYPES, columns
from tests.key_columns import key_column

BIGINT = parse_type("BIGINT")
EMPTY_BSI = struct.pack(">bibb", 1, 3, 0, 0)


def test_reads_what_it_wrote() -> None:
    written = write(
        {"a\0😀": [("bsi", EMPTY_BSI), ("bitmap", b"xy")], "m[k]": [("bitmap", None)], "none": []}
    )

    index = FileIndex.read(written)

    start = len(written) - len(EMPTY_BSI) - 2
    assert index.entries == {
        "a\0😀": (ContainerEntry("a\0😀", "bsi", start, 7), ContainerEntry("a\0😀", "bitmap", start + 7, 2)),
        "m[k]": (ContainerEntry("m[k]", "bitmap", -1, 0),),
        "none": (),
    }
    assert index.entries["m[k]"][0].is_empty
    assert bytes(index.payload(index.entries["a\0😀"][1])) == b"xy"
    assert index.stacked.nbytes >= len(written)


def test_trusts_the_head_length_over_what_it_knows() -> None:
    written = bytearray(write({"c": [("bsi", EMPTY_BSI)]}))
    head_length = len(written) - len(EMPTY_BSI)
    later = b"added later"
    written[head_length:head_length] = later
    struct.pack_into(">i", written, 12, head_length + len(later))
    struct.pack_into(">i", written, head_length - 4, len(later))
    struct.pack_into(">i", written, head_length - 12, head_length + len(later))

    index = FileIndex.read(bytes(written))

    assert bytes(index.payload(index.entries["c"][0])) == EMPTY_BSI


@pytest.mark.parametrize(
    ("at", "form", "value", "expectation", "offset"),
    [
        (0, ">q", MAGIC + 1, "magic", 0),
        (8, ">i", 2, "expected version 1 of the file index, found 2", 8),
        (12, ">i", 19, "head length from 20", 12),
        (12, ">i", 1 << 20, "head length from 20", 12),
        (12, ">i", -1, "head length from 20", 12),
        (16, ">i", 1 << 30, "number of columns", 16),
        (16, ">i", -1, "number of columns", 16),
        (20, ">H", 65535, "name of a column", 22),
        (23, ">i", 1 << 30, "number of indexes", 23),
    ],
)
def test_refuses_a_broken_head(at: int, form: str, value: int, expectation: str, offset: int) -> None:
    written = bytearray(write({"c": [("bsi", EMPTY_BSI)]}))
    struct.pack_into(form, written, at, value)

    with pytest.raises(CorruptIndexError, match=expectation) as caught:
        FileIndex.read(bytes(written))
    assert caught.value.offset == offset


@pytest.mark.parametrize("size", range(36))
def test_refuses_every_cut_head(size: int) -> None:
    written = write({"c": [("bsi", EMPTY_BSI)]})

    with pytest.raises(CorruptIndexError):
        FileIndex.read(written[:size])


def test_refuses_two_indexes_of_a_kind() -> None:
    written = write({"c": [("bsi", EMPTY_BSI), ("bsi", EMPTY_BSI)]})

    with pytest.raises(CorruptIndexError, match="one index of each kind for column 'c'"):
        FileIndex.read(written)


def test_a_payload_outside_of_the_file_hurts_only_its_own_column() -> None:
    written = write({"c": [("bsi", EMPTY_BSI)], "d": [("bsi", EMPTY_BSI)]})[:-1]
    index = FileIndex.read(written)
    fields = {name: DataField(at, name, BIGINT) for at, name in enumerate("cd")}

    evaluate(BoundLeaf(Operator.IS_NULL, fields["c"]), index)
    with pytest.raises(CorruptIndexError, match="bsi index of column 'd': expected a payload within"):
        evaluate(BoundLeaf(Operator.IS_NULL, fields["d"]), index)


def test_errors_name_the_index_and_the_place_in_the_file() -> None:
    index = FileIndex.read(write({"c": [("bsi", b"\x07" + EMPTY_BSI[1:])]}))
    (entry,) = index.entries["c"]

    with pytest.raises(CorruptIndexError, match="bsi index of column 'c': expected version 1") as caught:
        evaluate(BoundLeaf(Operator.IS_NULL, DataField(0, "c", BIGINT)), index)
    assert caught.value.offset == entry.start


def test_refuses_to_write_what_no_place_can_be_named_in() -> None:
    # Nothing is written to it, so that it takes no memory.
    gigabyte = np.empty(1 << 30, np.uint8).data
    columns = {name: [("bsi", gigabyte)] for name in ("first", "second")}

    with pytest.raises(IndexWriteError, match=r"column 'second': .* longer than 2147483647 bytes"):
        write(columns)  # type: ignore[arg-type] # bytes would take memory


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
    for options in _OPTIONS.get(kind, [{}])
]
_INT, _STRING = parse_type("INT"), parse_type("STRING")


def _admits(stack: FileStack[Any], key: Key) -> bool:
    (answer,) = stack.answers(Points((key,)), np.zeros(1, np.int64), never_out_of_time)
    return bool(answer != Answer.SKIP)


@pytest.mark.parametrize(("kind", "options", "data_type"), _CASES, ids=str)
@given(data=st.data())
@examples(10)
def test_the_reader_finds_the_rows_of_each_key(
    kind: IndexKind, options: Mapping[str, str], data_type: DataType, data: st.DataObject
) -> None:
    rows = data.draw(columns(data_type, least_integer=kind is not BSI))
    column = key_column(rows, data_type)
    distinct = column.distinct()

    stack = open_payload(kind, write_index(kind, column, kind.parse_options(options)), data_type)

    keys = [distinct.key(code) for code in range(len(distinct.keys))]
    if not kind.tells_rows:
        assert all(_admits(stack, key) for key in keys)
        return
    index = stack.of_file(0)
    assert index.row_count == len(rows)
    assert index.null_rows() == BitMap(column.null_rows)
    assert index.value_rows() == BitMap(column.value_rows)
    for code, key in enumerate(keys):
        assert index.rows_with([key]) == BitMap(column.value_rows[distinct.codes == code])


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.tells_rows])
@pytest.mark.parametrize("distinct", [7, 70_000])
def test_many_rows_take_several_containers(kind: IndexKind, distinct: int) -> None:
    numbers = np.random.default_rng(distinct).integers(-distinct, distinct, 200_000, np.int32)
    null = numbers % 10 == 0
    column = KeyColumn.of(pa.array(numbers, mask=null), _INT, "c")

    index = open_payload(kind, write_index(kind, column, kind.parse_options({})), _INT).of_file(0)

    assert index.null_rows() == BitMap(np.flatnonzero(null))
    for key in np.unique(numbers[~null])[:: max(1, distinct // 50)].tolist():
        assert index.rows_with([key]) == BitMap(np.flatnonzero(numbers == key))
    assert index.rows_between(-3, 5) == BitMap(np.flatnonzero((numbers >= -3) & (numbers < 5) & ~null))


def test_a_bloom_filter_of_the_wanted_size_errs_as_often_as_it_was_asked_to() -> None:
    numbers = np.random.default_rng(1).permutation(40_000).astype(np.int32)
    column = KeyColumn.of(pa.array(numbers[:20_000]), _INT, "c")
    options = BLOOM_FILTER.parse_options({"items": "20000", "fpp": "0.02"})

    stack = open_payload(BLOOM_FILTER, write_index(BLOOM_FILTER, column, options), _INT)

    assert all(_admits(stack, key) for key in numbers[:20_000].tolist())
    assert 0.015 < sum(_admits(stack, key) for key in numbers[20_000:].tolist()) / 20_000 < 0.025


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

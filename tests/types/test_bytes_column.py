from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptFileError
from app.types.bytes_column import BytesColumn, own_bytes
from app.work.memory import MappedBytes

strings = st.lists(st.none() | st.binary(max_size=12), max_size=20)


@given(strings)
def test_a_column_gives_back_its_strings(values: list[bytes | None]) -> None:
    column = BytesColumn.of(values)

    assert list(column) == values
    assert column.is_null.tolist() == [value is None for value in values]


@given(strings)
def test_arrow_arrays_come_in_and_go_out_unchanged(values: list[bytes | None]) -> None:
    for arrow_type in (pa.binary(), pa.large_binary()):
        column = BytesColumn.from_arrow(pa.array(values, arrow_type))

        assert list(column) == values
        assert column.to_arrow().to_pylist() == values


@given(strings, st.data())
def test_a_slice_of_an_arrow_array_is_the_column_of_that_slice(
    values: list[bytes | None], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values)))

    assert list(BytesColumn.from_arrow(pa.array(values, pa.binary())[start:])) == values[start:]


@given(strings.filter(bool), st.data())
def test_taken_rows_come_in_the_order_asked_for(values: list[bytes | None], data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1))), np.int64)
    taken = BytesColumn.of(values).take(rows)

    assert list(taken) == [values[row] for row in rows]
    assert taken.to_arrow().to_pylist() == list(taken)


def test_gathering_reads_the_same_place_of_every_string() -> None:
    column = BytesColumn.of([b"abcdef", None, b"ghijkl", b"m1234"])

    gathered = column.gather(1, 3)

    assert [bytes(row) for row in gathered[[0, 2, 3]]] == [b"bcd", b"hij", b"123"]
    assert gathered.shape == (4, 3)
    assert [bytes(row) for row in column.gather(np.array([0, 0, 4, 2]), 1)[[0, 2, 3]]] == [b"a", b"k", b"2"]


@pytest.mark.parametrize("gaps", ["even", "uneven", "descending"])
def test_gathering_from_many_strings(gaps: str) -> None:
    data = np.arange(5_000, dtype=np.uint64).astype(np.uint8)
    starts = {
        "even": np.arange(100) * 40 + 3,
        "uneven": np.arange(100) * 40 + np.arange(100) % 3,
        "descending": 4_000 - np.arange(100) * 40,
    }[gaps]
    found = BytesColumn(data, starts, np.full(100, 12)).gather(2, 9)
    assert found.tolist() == [data[start + 2 : start + 11].tolist() for start in starts.tolist()]


@given(st.lists(st.none() | st.binary(max_size=4), max_size=8), st.data())
def test_packed_strings_lie_one_behind_the_other(strings: list[bytes | None], data: st.DataObject) -> None:
    column = BytesColumn.of(strings)
    rows = data.draw(st.lists(st.sampled_from(range(len(strings))), max_size=8)) if strings else []
    some = column.take(np.array(rows, np.int64))

    assert list(some.packed()) == list(some)
    assert some.packed().data.tobytes() == b"".join(each or b"" for each in some)


@pytest.mark.parametrize("suffix", [b"x", b".orc", b"a.longer.suffix"])
def test_endings(suffix: bytes) -> None:
    strings = [b".orc", None, b"a.orc", b"", b"orc", b"x", b".orcx"]

    found = BytesColumn.of(strings).ends_with(suffix)

    assert found.tolist() == [each is not None and each.endswith(suffix) for each in strings]


@given(st.lists(strings, min_size=1, max_size=4))
def test_columns_joined_hold_all_strings_in_order(parts: list[list[bytes | None]]) -> None:
    columns = [BytesColumn.of(values) for values in parts]

    for joined in (BytesColumn.concat(columns), BytesColumn.joined(iter(columns))):
        assert list(joined) == [value for values in parts for value in values]
        assert joined.to_arrow().to_pylist() == list(joined)


@given(st.lists(st.tuples(strings, st.integers(0, 3)), min_size=1, max_size=4))
def test_gathered_columns_hold_their_strings_alone(parts: list[tuple[list[bytes | None], int]]) -> None:
    columns = [BytesColumn.of(values).take(slice(start, None)) for values, start in parts]

    gathered = BytesColumn.gathered(columns)

    expected = [value for column in columns for value in column]
    assert list(gathered) == expected
    assert gathered.data.tobytes() == b"".join(value for value in expected if value is not None)


_STRINGS = st.tuples(
    st.sampled_from([b"", b"\0", b"a" * 7, b"a" * 8, b"prefix-of-many-words", b"x" * 300]),
    st.lists(st.sampled_from([b"\0", b"\1", b"a", b"\xff"]), max_size=9).map(b"".join),
).map(b"".join)


@given(st.lists(_STRINGS, max_size=60))
def test_distinct_strings_ascend_as_those_of_python(values: list[bytes]) -> None:
    distinct, ranks = BytesColumn.of(values).distinct()

    assert list(distinct) == sorted(set(values))
    assert [distinct[rank] for rank in ranks.tolist()] == values


def test_distinct_strings_of_many_portions_share_their_ranks() -> None:
    values = [b"%d" % (number * 7 % 1000) for number in range(150_000)]

    distinct, ranks = BytesColumn.of(values).distinct()

    assert list(distinct) == sorted(set(values))
    assert [distinct[rank] for rank in ranks.tolist()] == values


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [([0, 3], [3, 1 << 40]), ([1 << 40, 3], [3, 3]), ([0, 3], [3, 4]), ([4, 7], [3, 3])],
)
def test_arrow_reads_nothing_behind_the_buffer(starts: list[int], lengths: list[int]) -> None:
    column = BytesColumn(np.zeros(6, np.uint8), np.array(starts), np.array(lengths))

    with pytest.raises((CorruptFileError, IndexError)):
        column.to_arrow()


def test_arrays_take_their_items() -> None:
    assert own_bytes(np.arange(10)) == own_bytes(np.arange(20)[::2]) == 80
    assert own_bytes(np.zeros(0)) == 0


def test_arrays_of_one_number_take_one_item() -> None:
    assert own_bytes(np.broadcast_to(np.int32(7), 1000)) == 4
    nulls = BytesColumn.nulls(1000)
    assert list(nulls) == [None] * 1000
    assert own_bytes(nulls.starts) + own_bytes(nulls.lengths) == 16


def test_mapped_arrays_take_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(80))
    with file.open("rb") as opened:
        array = np.ndarray((10,), "<i8", MappedBytes.map(opened.fileno()), 0)

    assert own_bytes(array) == own_bytes(array[2:][::2]) == 0
    assert own_bytes(array.copy()) == 80

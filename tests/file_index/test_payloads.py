import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers import Answer
from app.file_index.payloads import Cursors, skip_bitmaps
from app.file_index.shared.bit_slices import null_rows
from app.types.bytes_column import BytesColumn
from app.types.roaring import bitmap_size, read_bitmap
from tests.examples import examples


def _written(rows: BitMap, *, runs: bool) -> bytes:
    if runs:
        rows.run_optimize()
    return rows.serialize()


_ROWS = st.one_of(
    st.builds(BitMap),
    st.lists(st.integers(0, 400_000), max_size=20).map(BitMap),
    st.builds(lambda stop, step: BitMap(range(0, stop, step)), st.integers(0, 300_000), st.integers(1, 30)),
)
_BITMAPS = st.builds(lambda rows, runs: _written(rows, runs=runs), _ROWS, st.booleans())


def _sizes(contents: list[bytes]) -> list[int | None]:
    column = BytesColumn.of(contents)
    cursors = Cursors.of(column)
    skip_bitmaps(cursors)
    sizes = cursors.at - column.starts
    return [
        size if sound else None for size, sound in zip(sizes.tolist(), cursors.sound.tolist(), strict=True)
    ]


def _size(content: bytes) -> int | None:
    try:
        return bitmap_size(content)
    except CorruptIndexError:
        return None


@given(st.lists(_BITMAPS, min_size=1, max_size=5), st.binary(max_size=3), st.sampled_from([1, 20]))
@examples(60)
def test_measures_as_one_bitmap_is_measured(bitmaps: list[bytes], behind: bytes, times: int) -> None:
    contents = [each + behind for each in bitmaps] * times

    assert _sizes(contents) == [len(each) for each in bitmaps] * times


@pytest.mark.parametrize("times", [1, 20])
def test_measures_damaged_bitmaps_as_one_is_measured(times: int) -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable damage, no secret
    for _ in range(60):
        rows = BitMap(range(0, chance.randrange(200_000), chance.choice([1, 1, 3, 40])))
        content = bytearray(_written(rows, runs=chance.random() < 0.7))
        for _ in range(chance.randrange(3)):
            content[chance.randrange(min(len(content), 40))] = chance.randrange(256)
        contents = [bytes(content[: chance.randrange(len(content) + 1)]) for _ in range(5)] * times

        assert _sizes(contents) == [_size(each) for each in contents]


@given(st.lists(st.tuples(_ROWS, st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
@examples(60)
def test_tells_whether_rows_are_in_no_bitmap(files: list[tuple[BitMap, int, bool]]) -> None:
    counts = [(rows.max() + 1 if rows else 0) + more for rows, more, _ in files]
    column = BytesColumn.of([_written(rows, runs=runs) for rows, _, runs in files])

    answers = null_rows([column], np.array(counts))

    assert answers.tolist() == [
        Answer.ROWS if len(rows) < count else Answer.SKIP
        for (rows, _, _), count in zip(files, counts, strict=True)
    ]


@pytest.mark.parametrize("row_count", [1, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("runs", [False, True])
def test_knows_bitmaps_of_all_rows(row_count: int, runs: bool) -> None:
    every = _written(BitMap(range(row_count)), runs=runs)
    odd, even = (BitMap(range(first, row_count, 2)).serialize() for first in (1, 0))

    split = null_rows([BytesColumn.of([odd, None]), BytesColumn.of([even, every])], np.full(2, row_count))

    assert null_rows([BytesColumn.of([every])], np.array([row_count])).tolist() == [Answer.SKIP]
    assert null_rows([BytesColumn.of([every])], np.array([row_count + 1])).tolist() == [Answer.ROWS]
    assert split.tolist() == [Answer.SKIP, Answer.SKIP]


def test_believes_no_number_of_values_that_decoding_does_not_need() -> None:
    rows = BitMap(range(10))
    rows.run_optimize()
    content = bytearray(rows.serialize())
    # The cardinality of a container of runs.
    content[7] = 99

    assert read_bitmap(bytes(content))[0] == BitMap(range(10))
    assert null_rows([BytesColumn.of([bytes(content)])], np.array([100])).tolist() == [Answer.ROWS]

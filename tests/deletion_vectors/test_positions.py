from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import Positions
from app.deletion_vectors.positions import positions_of, union
from app.errors import RequestError

ROWS = st.lists(st.integers(0, 2**16)) | st.lists(st.integers(0, 2**34)) | st.lists(st.integers(0, 2**63 - 1))


def forms(rows: list[int]) -> list[Any]:
    arrays = [
        np.array(rows, dtype) for dtype in (np.uint16, np.int32, np.int64, np.uint64) if fits(rows, dtype)
    ]
    sets: list[Positions] = [BitMap64(rows)]
    if fits(rows, np.uint32):
        sets.append(BitMap(rows))
    return [*arrays, *sets]


def fits(rows: list[int], dtype: type[np.integer[Any]]) -> bool:
    return max(rows, default=0) <= np.iinfo(dtype).max


@given(ROWS)
def test_rows_of_any_form_are_the_same_positions(rows: list[int]) -> None:
    for form in forms(rows):
        positions = positions_of(form)
        assert list(positions) == sorted(set(rows))
        assert isinstance(positions, BitMap) == (max(rows, default=0) < 2**32)


@given(ROWS, ROWS)
def test_unions_are_of_both(first: list[int], second: list[int]) -> None:
    positions = positions_of(BitMap64(first)), positions_of(BitMap64(second))

    assert list(union(*positions)) == sorted({*first, *second})
    assert [list(each) for each in positions] == [sorted(set(first)), sorted(set(second))]


def test_no_rows_have_any_type() -> None:
    assert positions_of(np.array([])) == BitMap()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([3, -7, 9]), "-7"),
        (np.array([1.0, 2.0]), "float64"),
        (np.array([True, False]), "bool"),
        (np.array([[1, 2], [3, 4]]), r"\(2, 2\)"),
        (np.array(["1"]), "<U1"),
    ],
)
def test_other_values_are_no_rows(rows: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        positions_of(rows)

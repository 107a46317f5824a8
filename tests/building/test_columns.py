"""The values under one key of a map column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from app.building.columns import values_under
from app.errors import IndexWriteError

MAPS = pa.array(
    [[("a", 1), ("b", 2)], None, [], [("b", None)], [("a", None), ("c", 3)], [("c", 4), ("a", 5)]],
    pa.map_(pa.string(), pa.int32()),
)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("a", [1, None, None, None, None, 5]),
        ("b", [2, None, None, None, None, None]),
        ("c", [None, None, None, None, 3, 4]),
        ("nowhere", [None] * 6),
    ],
)
def test_values_by_row(key: str, values: list[int | None]) -> None:
    assert values_under(MAPS, key, column="m", first_row=0).to_pylist() == values
    for start in range(6):
        for stop in range(start, 7):
            part = MAPS.slice(start, stop - start)
            assert values_under(part, key, column="m", first_row=start).to_pylist() == values[start:stop]


def test_entries_of_a_null_map_belong_to_no_row() -> None:
    offsets = pa.array([0, 1, 2], pa.int32())
    maps = pa.MapArray.from_arrays(
        offsets, pa.array(["a", "a"]), pa.array([1, 2]), mask=pa.array([False, True])
    )

    assert values_under(maps, "a", column="m", first_row=0).to_pylist() == [1, None]


def test_a_key_twice_is_refused() -> None:
    maps = pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))

    with pytest.raises(IndexWriteError, match=r"column 'm\[a\]', row 11"):
        values_under(maps, "a", column="m", first_row=10)
    assert values_under(maps, "b", column="m", first_row=10).null_count == 2

"""Rows with equal codes come into one group, and every row into one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.types.grouping import group_rows

CODES = st.integers(-1, 1) | st.sampled_from([-(2**63), 2**63 - 1])


@given(st.lists(st.tuples(CODES, CODES, st.just(7)), max_size=12))
def test_groups(rows: list[tuple[int, int, int]]) -> None:
    codes = np.array(rows, np.int64).reshape(len(rows), 3)

    groups = [group.tolist() for group in group_rows(*codes.T)]

    assert sorted(row for group in groups for row in group) == list(range(len(rows)))
    assert all(group == sorted(group) for group in groups)
    assert all(len({rows[row] for row in group}) == 1 for group in groups)
    assert len(groups) == len(set(rows))

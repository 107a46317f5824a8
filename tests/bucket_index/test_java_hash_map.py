from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bucket_index.java_hash_map import iteration_order


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], []),
        ([3, 1, 2], [1, 2, 3]),
        # Slot 0 comes first whatever was inserted first; the slot's latest key leads.
        ([1, 16], [16, 1]),
        ([17, 1, 33, 0], [0, 33, 1, 17]),
        # The high half takes part.
        ([1 << 16, 0], [0, 1 << 16]),
        # 13 keys fit 16 slots, the fourteenth doubles them.
        ([16, *range(12)], [0, 16, *range(1, 12)]),
        ([16, *range(13)], [*range(13), 16]),
        # Eight keys in a slot double the slots, though most of these are free.
        ([16 * n for n in range(7)], [96, 80, 64, 48, 32, 16, 0]),
        ([16 * n for n in range(8)], [96, 64, 32, 0, 112, 80, 48, 16]),
    ],
)
def test_known_orders(keys: list[int], expected: list[int]) -> None:
    assert iteration_order(keys) == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 32766), unique=True, max_size=200))
def test_every_key_comes_once(keys: list[int]) -> None:
    assert sorted(iteration_order(keys)) == sorted(keys)

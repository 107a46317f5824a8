"""Orders recorded of a ``java.util.HashMap`` of Java 17, and what holds of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.java_orders.hash_map import iteration_order, put_order


def _ordered(keys: list[int], *, looked_up_last: bool = False) -> list[int]:
    """Integers, which are their own hash codes."""
    order = iteration_order(np.array(keys, np.int32), np.array(keys, np.int32), looked_up_last=looked_up_last)
    return [keys[at] for at in order]


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
        (
            [16 * n for n in range(13)],
            [192, 160, 128, 96, 64, 32, 0, 176, 144, 112, 80, 48, 16],
        ),
    ],
)
def test_known_orders(keys: list[int], expected: list[int]) -> None:
    assert _ordered(keys) == expected


def test_looking_a_key_up_doubles_the_slots_of_a_full_map() -> None:
    keys = [16, *range(12)]

    assert _ordered(keys, looked_up_last=True) == [*range(12), 16]


def test_a_slot_of_eight_keys_is_a_tree() -> None:
    # All 60 keys lie in slot 0, whatever the number of slots.
    recorded = [
        *(21, 35, 3, 6, 5, 4, 56, 59, 58, 57, 52, 51, 50, 55, 54, 53, 49, 42, 45, 44, 43, 48, 47, 46, 38),
        *(37, 36, 41, 40, 39, 28, 31, 30, 29, 34, 33, 32, 24, 23, 22, 27, 26, 25, 14, 17, 16, 15, 20, 19),
        *(18, 10, 9, 8, 13, 12, 11, 7, 0, 2, 1),
    ]

    ordered = _ordered([n * 7 % 60 * 0x10001 for n in range(60)])

    assert ordered == [n * 0x10001 for n in recorded]


def test_trees_come_apart_as_the_slots_double() -> None:
    recorded = [
        *(72, 64, 116, 112, 108, 24, 16, 20, 76, 68, 88, 84, 80, 92, 44, 40, 36, 32, 28, 104, 100, 96, 52),
        *(60, 56, 48, 0, 8, 4, 12, 53, 85, 117, 113, 13, 17, 69, 65, 89, 77, 81, 73, 25, 21, 41, 33, 29, 37),
        *(105, 109, 101, 97, 93, 49, 45, 61, 57, 5, 1, 9, 78, 114, 110, 118, 22, 18, 14, 74, 70, 66, 86, 82),
        *(90, 38, 42, 34, 30, 26, 106, 102, 98, 94, 58, 54, 62, 50, 46, 2, 6, 10, 47, 75, 119, 111, 107, 115),
        *(11, 19, 15, 71, 67, 91, 83, 87, 79, 23, 39, 43, 35, 27, 31, 103, 99, 95, 51, 55, 63, 59, 7, 3),
    ]

    ordered = _ordered([n * 53 % 120 << 6 for n in range(120)])

    assert ordered == [n << 6 for n in recorded]


@given(
    st.lists(
        st.integers(-(2**31), 2**31 - 1) | st.integers(0, 600).map(lambda n: n << 7),
        unique=True,
        max_size=600,
    ),
    st.booleans(),
)
def test_every_key_comes_once_and_slots_ascend(keys: list[int], looked_up_last: bool) -> None:  # noqa: FBT001
    ordered = _ordered(keys, looked_up_last=looked_up_last)

    assert sorted(ordered) == sorted(keys)
    low_bits = [(key ^ (key & 0xFFFFFFFF) >> 16) & 15 for key in ordered]
    sixteen_slots = len(keys) <= 12 and max(map(low_bits.count, low_bits), default=0) < 8
    assert not sixteen_slots or low_bits == sorted(low_bits)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([(11 - n) * 5 for n in range(12)], [0, 50, 35, 20, 5, 55, 40, 25, 10, 45, 30, 15]),
        ([16 * n for n in range(13)], [0, 32, 64, 96, 128, 160, 192, 16, 48, 80, 112, 144, 176]),
        ([], []),
    ],
)
def test_put_lines_keys_up(keys: list[int], expected: list[int]) -> None:
    assert [keys[at] for at in put_order(np.array(keys, np.int32))] == expected

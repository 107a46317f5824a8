"""Orders recorded of a ``java.util.HashMap`` of Java 17, and what holds of all of them."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import Hashes, hash_index
from app.file_index.index_kinds import KINDS
from app.java_orders.container_order import container_order
from app.java_orders.hash_map import iteration_order, put_order
from app.java_orders.int_hash_set import IntHashSet
from tests import golden_file_index

_BY_ENGINE = [
    name
    for name in golden_file_index.names()
    if golden_file_index.load(name).document["writer"] == "data-file"
]
_KINDS = st.sampled_from(list(KINDS.values()))


@pytest.mark.parametrize("name", _BY_ENGINE)
def test_is_that_of_the_engines_data_file_writer(name: str) -> None:
    golden = golden_file_index.load(name)
    listed = {
        column: [index["name"] for index in indexes] for column, indexes in golden.document["indexes"].items()
    }

    ordered = container_order(listed)

    entries = golden.read().entries
    assert list(ordered.items()) == [
        (column, [entry.kind for entry in listed]) for column, listed in entries.items()
    ]


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
        | st.sampled_from("abc").map(lambda key: f"m[{key}]"),
        st.lists(_KINDS, unique=True, min_size=1),
        max_size=40,
    )
)
def test_keeps_every_index(columns: dict[str, list[str]]) -> None:
    ordered = container_order(columns)

    assert {column: set(kinds) for column, kinds in ordered.items()} == {
        column: set(kinds) for column, kinds in columns.items()
    }
    assert all(len(kinds) == len(set(kinds)) for kinds in ordered.values())


def test_columns_of_one_slot_are_turned_round_twice() -> None:
    # "Aa" and "BB" have one hash code in Java.
    assert list(container_order({"BB": ["bitmap"], "Aa": ["bitmap"]})) == ["BB", "Aa"]


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


@pytest.mark.parametrize("slot", [0, 1, 63])
def test_trees_come_apart_as_the_slots_double(slot: int) -> None:
    recorded = [
        *(72, 64, 116, 112, 108, 24, 16, 20, 76, 68, 88, 84, 80, 92, 44, 40, 36, 32, 28, 104, 100, 96, 52),
        *(60, 56, 48, 0, 8, 4, 12, 53, 85, 117, 113, 13, 17, 69, 65, 89, 77, 81, 73, 25, 21, 41, 33, 29, 37),
        *(105, 109, 101, 97, 93, 49, 45, 61, 57, 5, 1, 9, 78, 114, 110, 118, 22, 18, 14, 74, 70, 66, 86, 82),
        *(90, 38, 42, 34, 30, 26, 106, 102, 98, 94, 58, 54, 62, 50, 46, 2, 6, 10, 47, 75, 119, 111, 107, 115),
        *(11, 19, 15, 71, 67, 91, 83, 87, 79, 23, 39, 43, 35, 27, 31, 103, 99, 95, 51, 55, 63, 59, 7, 3),
    ]

    ordered = _ordered([n * 53 % 120 << 6 | slot for n in range(120)])

    assert ordered == [n << 6 | slot for n in recorded]


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


def test_crowded_slots_beside_each_other_stay_apart() -> None:
    # 120 keys have 256 slots in the end, of which eight are crowded: 0 and 1, 64 and 65, and so on.
    ordered = _ordered([n << 6 | slot for n in range(60) for slot in (0, 1)])

    slots = [key % 256 for key in ordered]
    assert slots == sorted(slots)


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


# Multiples of a large power of two share their slots at first.
KEYS = st.integers(-9, 9) | st.integers(-40, 40).map(lambda number: number << 24)
BATCHES = st.lists(st.lists(KEYS | st.integers(-(2**31), 2**31 - 1), max_size=60), max_size=6)


def array(keys: list[int]) -> Hashes:
    return np.array(keys, np.int32)


def congruential(count: int) -> list[int]:
    """The numbers ``x = x * 1103515245 + 12345`` from x = 1 on, in 32 bits."""
    numbers, number = [], 1
    for _ in range(count):
        number = (number * 1103515245 + 12345) % 2**32
        numbers.append(number - 2**32 if number >= 2**31 else number)
    return numbers


def wrapping(count: int) -> list[int]:
    """The multiples of 65,536, which differ in their high halves only."""
    return [(number * 65536 + 2**31) % 2**32 - 2**31 for number in range(count)]


@pytest.mark.parametrize(
    ("expected", "keys", "digest"),
    [
        (16, congruential(24), "ae9d085efeec59a003bc23f2b29a88c85a9cd30da880519db3168201b664a1dd"),
        (16, congruential(25), "a3d2a5a710809114d96b09a4dc9f90c72ec1418544a70b7a12772cc760f36889"),
        (16, congruential(10000), "792af4637c3cf68c045776cbd8d0f3a76ebe19a52ff341fc872ec1376812e9ad"),
        (16, wrapping(3000), "c2efcd79cbe2b6f933f0cdfa5fc2bacc6a12cc98f0c85de9e6082fbe6013101e"),
        (0, congruential(100), "781e9efe096cd154529d6e060b8d2c27ad62ba59ed6eb79ea15bd3b25d148115"),
        (1, congruential(100), "781e9efe096cd154529d6e060b8d2c27ad62ba59ed6eb79ea15bd3b25d148115"),
        (5000, congruential(5000), "f139927c04f9638d824d160e1f33be001dc6330e564bf0389763b1157065f080"),
        (5000, wrapping(7000), "1f91e0f791b252506172993ae2efd8f56cf0ff88b71159ba462a48dfe03d610a"),
    ],
)
def test_the_order_is_that_of_the_engine(expected: int, keys: list[int], digest: str) -> None:
    # Digests of what org.apache.paimon.utils.IntHashSet of Paimon 1.4.2 iterates over, as a hash index file.
    at_once, one_by_one = IntHashSet(expected), IntHashSet(expected)
    at_once.add(array(keys))
    for key in keys[:300]:
        one_by_one.add(array([key]))
    one_by_one.add(array(keys[300:]))
    for filled in (at_once, one_by_one):
        assert hashlib.sha256(hash_index.write(filled.to_array())).hexdigest() == digest


@pytest.mark.parametrize(("expected", "slots"), [(0, 2), (1, 2), (2, 4), (3, 4), (4, 8), (12, 16), (13, 32)])
def test_the_first_slots_are_those_of_fastutil(expected: int, slots: int) -> None:
    # The least power of two that keys fill to 3/4, and no less than 2.
    assert IntHashSet(expected).nbytes == 4 * slots


@given(BATCHES, st.integers(0, 40))
def test_every_key_is_held_once(batches: list[list[int]], expected: int) -> None:
    keys, plain = IntHashSet(expected), set[int]()
    for batch in batches:
        assert keys.add(array(batch)) == len(set(batch) - plain)
        plain |= set(batch)
        assert len(keys) == len(plain)
        assert sorted(keys.to_array().tolist()) == sorted(plain)


@given(BATCHES, st.integers(0, 40))
def test_the_order_does_not_depend_on_batches(batches: list[list[int]], expected: int) -> None:
    batched, single = IntHashSet(expected), IntHashSet(expected)
    for batch in batches:
        batched.add(array(batch))
        for key in batch:
            single.add(array([key]))
    assert batched.to_array().tolist() == single.to_array().tolist()


def test_a_key_takes_at_most_eleven_bytes() -> None:
    keys = IntHashSet()
    keys.add(np.arange(3 * 2**14 + 1, dtype=np.int32))
    assert keys.nbytes == 4 * 2**17
    assert keys.nbytes / len(keys) < 11

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.file_index.answers import Answer, Points
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bloom_filter.bloom_filter import MAX_HASH_FUNCTIONS, hash_key, places
from app.file_index.bloom_filter.stack import BloomStack
from app.file_index.keys.keys import ByteKeys, Key, key_space
from app.types import parse_type
from app.types.bytes_column import BytesColumn
from tests.examples import share
from tests.key_columns import key_column

BIGINT, STRING = parse_type("BIGINT"), parse_type("STRING")
INTEGERS = key_space(BIGINT) or ByteKeys()
TEXTS = ByteKeys()

_FILTERS = st.builds(
    lambda values, items, fpp: bloom_filter.write(key_column(values, BIGINT), items, fpp),
    st.lists(st.integers(-5, 5), max_size=4),
    st.sampled_from([3, 20]),
    st.sampled_from([0.5, 0.01]),
)


def _is_sound(payload: bytes) -> bool:
    return len(payload) > 4 and 1 <= int.from_bytes(payload[:4], signed=True) <= MAX_HASH_FUNCTIONS


def _may_hold(payload: bytes, keys: Iterable[Key]) -> bool:
    """Return what the layout says, bit by bit."""
    count, bits = int.from_bytes(payload[:4]), payload[4:]
    return any(
        all(bits[at >> 3] >> (at & 7) & 1 for at in places(hash_key(key, INTEGERS), count, 8 * len(bits)))
        for key in keys
    )


def _held(stack: BloomStack, keys: Sequence[Key], files: NDArray[np.int64]) -> list[bool]:
    answers = stack.answers(Points(tuple(keys)), files)
    return [answer == Answer.KEEP for answer in answers]


@given(
    st.lists(st.none() | _FILTERS | st.binary(max_size=12), max_size=10),
    st.lists(st.integers(-7, 7), min_size=1, max_size=4),
)
def test_holds_what_each_filter_holds(payloads: list[bytes | None], keys: list[Key]) -> None:
    is_sound = [payload is not None and _is_sound(payload) for payload in payloads]
    sound = np.flatnonzero(is_sound)[::-1]

    stack = BloomStack.read(BytesColumn.of(payloads), INTEGERS)

    assert stack.broken.tolist() == [
        payload is not None and not sound for payload, sound in zip(payloads, is_sound, strict=True)
    ]
    assert _held(stack, keys, sound) == [_may_hold(payloads[file] or b"", keys) for file in sound]


@given(
    st.lists(_FILTERS, min_size=1, max_size=10),
    st.booleans(),
    st.lists(st.integers(-40, 40), min_size=1, max_size=60),
)
def test_many_keys_are_found_where_one_of_them_is(
    payloads: list[bytes], are_alike: bool, keys: list[Key]
) -> None:
    chosen = [each for each in payloads if len(each) == len(payloads[0])] if are_alike else payloads
    stack, files = BloomStack.read(BytesColumn.of(chosen), INTEGERS), np.arange(len(chosen))

    assert _held(stack, keys, files) == [_may_hold(payload, keys) for payload in chosen]


def test_many_texts_are_found_in_many_files() -> None:
    files = [[f"{file}-{row}".encode() for row in range(20)] for file in range(300)]
    payloads = [bloom_filter.write(key_column(rows, STRING), 20, 0.001) for rows in files]
    keys = [rows[3] for rows in files[::7]] + [b"nowhere"] * 5

    found = np.flatnonzero(_held(BloomStack.read(BytesColumn.of(payloads), TEXTS), keys, np.arange(300)))

    assert set(range(0, 300, 7)) <= set(found.tolist())
    assert len(found) < 60


MANY_KEYS = tuple(sorted({*range(1, 900, 3), *range(9_000, 600_000, 9_000)}))


@cache
def filters_of(items: tuple[int, ...]) -> tuple[list[bytes], dict[int, bool]]:
    """Return a filter for each number of items, and of some whether they may hold one of many keys."""
    payloads = [
        bloom_filter.write(key_column([file * 1_000], BIGINT), number, 0.001)
        for file, number in enumerate(items)
    ]
    return payloads, {file: _may_hold(payloads[file], MANY_KEYS) for file in share(range(len(payloads)), 5)}


@pytest.mark.parametrize(
    "items",
    [pytest.param((20,) * 600, marks=pytest.mark.long), tuple(20 + file % 3 * 40 for file in range(600))],
    ids=["of one size", "of three sizes"],
)
@pytest.mark.parametrize("looks", [0, 5, None])
def test_files_that_there_is_no_time_to_ask_are_told_apart(items: tuple[int, ...], looks: int | None) -> None:
    """600 files and 366 keys, more of both than are looked at together."""
    payloads, truth = filters_of(items)
    stack = BloomStack.read(BytesColumn.of(payloads), INTEGERS)
    times = chain(repeat(False, looks), repeat(True)) if looks is not None else repeat(False)  # noqa: FBT003

    answers = stack.answers(Points(MANY_KEYS), np.arange(600), partial(next, times))

    for file, may_hold in truth.items():
        assert answers[file] in (Answer.UNEVALUATED, Answer.KEEP if may_hold else Answer.SKIP)
    unevaluated = int(np.count_nonzero(answers == Answer.UNEVALUATED))
    assert (unevaluated == 0) == (looks is None)
    assert (np.count_nonzero(answers == Answer.SKIP) == 0) == (looks == 0)


def test_filters_of_one_size_take_no_memory_of_their_own_but_where_they_start() -> None:
    payloads = [
        bloom_filter.write(key_column([str(file).encode()], STRING), 100, 0.01) for file in range(1_000)
    ]

    stack = BloomStack.read(BytesColumn.of(payloads), TEXTS)

    found = np.flatnonzero(_held(stack, [b"77"], np.arange(1_000)))
    assert 77 in found
    assert len(found) < 50
    assert stack.nbytes < 10_000


@pytest.mark.parametrize(
    ("hash_functions", "is_broken"),
    [(0, True), (1, False), (MAX_HASH_FUNCTIONS, False), (MAX_HASH_FUNCTIONS + 1, True)],
)
def test_a_filter_has_no_more_hash_functions_than_any_needs(hash_functions: int, *, is_broken: bool) -> None:
    payload = hash_functions.to_bytes(4, "big") + bytes(8)

    assert BloomStack.read(BytesColumn.of([payload]), INTEGERS).broken.tolist() == [is_broken]

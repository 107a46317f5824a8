from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.file_index.keys.keys import Key, key_space
from app.file_index.shared.directory import Directory, StoredKeys
from app.types import parse_type
from tests.examples import examples

_KEYS: dict[str, st.SearchStrategy[Key]] = {
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-3, 3) | st.integers(-(1 << 63), (1 << 63) - 1),
    "STRING": st.text("ab\0", max_size=10).map(str.encode),
}


def _build(
    dictionaries: Sequence[Sequence[Key]], type_text: str, *, ascending: bool = True
) -> tuple[Directory, NDArray[np.bool_]]:
    space = key_space(parse_type(type_text))
    assert space is not None
    stored = [space.write(key) for keys in dictionaries for key in keys]
    lengths = np.array([len(each) for each in stored], np.int64)
    owners = np.repeat(np.arange(len(dictionaries)), [len(keys) for keys in dictionaries])
    data = np.frombuffer(b"".join(stored), np.uint8)
    places = StoredKeys(owners, np.cumsum(lengths) - lengths)
    return Directory.build(data, places, space, np.full(len(dictionaries), ascending))


@pytest.mark.parametrize("type_text", _KEYS)
@given(data=st.data())
@examples(60)
def test_finds_files_by_key(type_text: str, data: st.DataObject) -> None:
    keys = _KEYS[type_text]
    dictionaries = data.draw(st.lists(st.sets(keys, max_size=8).map(sorted), max_size=25))
    known = [key for each in dictionaries for key in each]
    asked = st.sampled_from(known) | keys if known else keys

    found, wrong = _build(dictionaries, type_text)

    assert not wrong.any()
    assert found.distinct.tolist() == [len(each) for each in dictionaries]
    points = sorted(data.draw(st.sets(asked, max_size=4) | st.sets(asked, min_size=20, max_size=60)))
    assert found.having(points).tolist() == [bool({*points} & {*each}) for each in dictionaries]
    assert found.having_others(points).tolist() == [bool({*each} - {*points}) for each in dictionaries]
    start, stop = data.draw(st.none() | asked), data.draw(st.none() | asked)
    assert found.having_between(start, stop).tolist() == [
        any((start is None or start <= key) and (stop is None or key < stop) for key in each)  # type: ignore[operator] # one type's keys
        for each in dictionaries
    ]


def test_literals_beyond_the_width_of_the_keys_lie_beyond_all_of_them() -> None:
    found, _ = _build([[-128, 127], [5]], "TINYINT")

    assert found.having([-129, 128, 1 << 70]).tolist() == [False, False]
    assert found.having_between(-1 << 70, 1 << 70).tolist() == [True, True]
    assert found.having_between(128, None).tolist() == [False, False]
    assert found.having_between(None, -128).tolist() == [False, False]


@pytest.mark.parametrize("others", [[], range(20)])
def test_the_ends_of_a_type_are_keys_as_others(others: Sequence[Key]) -> None:
    # Many keys are searched for together.
    found, _ = _build([[-128], [-127, 126], [127]], "TINYINT")

    assert found.having([-129, -128, *others]).tolist() == [True, False, False]
    assert found.having([*others, 127, 128]).tolist() == [False, False, True]


@pytest.mark.parametrize("type_text", ["INT", "STRING"])
def test_tells_dictionaries_that_cannot_be_trusted(type_text: str) -> None:
    keys: list[list[Key]] = [[1, 2], [2, 1], [3, 3], [2, 3, 2], []]
    if type_text == "STRING":
        keys = [[str(key).encode() for key in each] for each in keys]

    assert _build(keys, type_text)[1].tolist() == [False, True, True, True, False]
    assert _build(keys, type_text, ascending=False)[1].tolist() == [False, False, True, True, False]


def test_looks_through_a_long_range_until_every_file_is_settled() -> None:
    around: list[Key] = [0, 1_000_000]
    found, _ = _build(
        [around, [0, *range(1_000, 301_000), 1_000_000], around, [0, 300_500, 1_000_000]], "INT"
    )

    assert found.having_between(500, 900_000).tolist() == [False, True, False, True]
    assert found.having_between(300_600, 300_700).tolist() == [False, True, False, False]
    assert found.having_between(301_000, 1_000_000).tolist() == [False] * 4

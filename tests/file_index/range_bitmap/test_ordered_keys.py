from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index.range_bitmap.ordered_keys import OrderedKeys, SearchableKeys
from app.file_index.shared.directory import Directory
from tests.examples import examples

KEYS = {
    1: st.integers(-128, 127),
    4: st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1),
    8: st.integers(-3, 3) | st.integers(-(1 << 63), (1 << 63) - 1),
}
"""By their width in bytes."""


def ordered(dictionaries: Sequence[Sequence[int]], width: int = 4) -> OrderedKeys:
    values = [key for each in dictionaries for key in each]
    return OrderedKeys(
        np.array(values, f"i{width}"), np.array([len(each) for each in dictionaries], np.int64)
    )


@pytest.mark.parametrize("width", KEYS)
@given(data=st.data())
@examples(60)
def test_finds_files_by_key_as_a_directory_does(width: int, data: st.DataObject) -> None:
    keys = KEYS[width]
    dictionaries = data.draw(st.lists(st.sets(keys, max_size=8).map(sorted), max_size=25))
    known = [key for each in dictionaries for key in each]
    asked = st.sampled_from(known) | keys if known else keys
    points = sorted(data.draw(st.sets(asked, max_size=4)))
    start, stop = data.draw(st.none() | asked), data.draw(st.none() | asked)
    found = ordered(dictionaries, width)

    assert not found.unordered().any()
    for form in (found, found.merged()):
        assert form.distinct.tolist() == [len(each) for each in dictionaries]
        assert form.having(points).tolist() == [bool({*points} & {*each}) for each in dictionaries]
        assert form.having_others(points).tolist() == [bool({*each} - {*points}) for each in dictionaries]
        assert form.having_between(start, stop).tolist() == [
            any((start is None or start <= key) and (stop is None or key < stop) for key in each)
            for each in dictionaries
        ]


@pytest.mark.parametrize("is_merged", [False, True])
def test_literals_beyond_the_width_of_the_keys_lie_beyond_all_of_them(*, is_merged: bool) -> None:
    keys = ordered([[-128, 127], [5]], width=1)
    found = keys.merged() if is_merged else keys

    assert found.having([-129, 128, 1 << 70]).tolist() == [False, False]
    assert found.having_between(-1 << 70, 1 << 70).tolist() == [True, True]
    assert found.having_between(128, None).tolist() == [False, False]
    assert found.having_between(None, -128).tolist() == [False, False]


def test_tells_dictionaries_that_cannot_be_trusted() -> None:
    keys = [[], [1, 2], [], [2, 1], [0], [3, 3], [2, 3, 2], [9], []]

    assert np.flatnonzero(ordered(keys).unordered()).tolist() == [3, 5, 6]
    assert not ordered([[], []]).unordered().any()


def test_keys_are_merged_when_they_are_asked_about_again() -> None:
    dictionary = SearchableKeys(ordered([[1, 2], [2, 3]]))

    assert isinstance(dictionary.for_searches(), OrderedKeys)
    merged = dictionary.for_searches()
    assert isinstance(merged, Directory)
    assert dictionary.for_searches() is merged
    assert merged.having([3]).tolist() == [False, True]


def test_keys_are_merged_for_a_long_list() -> None:
    assert isinstance(SearchableKeys(ordered([[1, 2], [2, 3]])).for_searches(100), Directory)


def test_a_directory_takes_no_more_memory_than_the_keys_say() -> None:
    keys = ordered([range(1_000), range(500, 3_000), []])

    assert keys.merged().nbytes <= keys.nbytes

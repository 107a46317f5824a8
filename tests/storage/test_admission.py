"""Which objects a full cache keeps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.admission import AdmittingCache, Weighed


class Asked:
    """A cache whose misses are loaded, with its hits."""

    def __init__(self, capacity: int) -> None:
        self.cache: AdmittingCache[Hashable] = AdmittingCache(capacity)

    def hits(self, keys: Iterable[Hashable], weight: int = 1) -> int:
        hits = 0
        for key in keys:
            if self.cache.get(key) is not None:
                hits += 1
                continue
            self.cache.keep(key, Weighed(key, weight))
        return hits


@pytest.mark.parametrize("weight", [1, 10, 100, 250])
@pytest.mark.parametrize("times_too_large", [1.1, 2, 10])
def test_a_scan_that_goes_round_and_round_hits_as_much_as_fits(times_too_large: float, weight: int) -> None:
    fits, rounds = 1000 // weight, 20
    working_set = round(fits * times_too_large)
    asked = Asked(1000)
    asked.hits(range(working_set), weight)

    hits = asked.hits(list(range(working_set)) * rounds, weight)

    # An eighth is the window, where a scan never finds what it left. LRU finds nothing at all.
    assert hits >= rounds * (fits * 7 // 8 - 1)


def test_what_is_used_often_outlives_a_stream_of_what_is_used_once() -> None:
    asked, often = Asked(100), range(80)
    asked.hits(list(often) * 3)

    for stream in range(50):
        asked.hits(("once", stream, position) for position in range(100))
        assert asked.hits(often) == len(often)

    assert asked.cache.rejected > 4000


def test_what_is_used_no_more_gives_way() -> None:
    asked = Asked(100)
    asked.hits(list(range(100)) * 100)

    rounds = [asked.hits(("new", key) for key in range(80)) for _ in range(40)]

    assert (rounds[0], rounds[-1]) == (0, 80)


def test_a_working_set_that_fits_is_kept_whole() -> None:
    for weight in (1, 10, 20, 50, 100):
        asked = Asked(100)
        asked.hits(range(100 // weight), weight)
        assert asked.hits(range(100 // weight), weight) == 100 // weight


def test_an_object_asked_for_more_pushes_out_one_asked_for_less_and_not_the_reverse() -> None:
    asked = Asked(100)
    asked.hits(["rare", *["common"] * 9], 40)

    asked.hits(["newcomer"], 40)
    assert (asked.cache.rejected, asked.cache.evictions) == (1, 0)
    asked.hits(["newcomer"] * 3, 40)

    kept = {key for key in ("rare", "common", "newcomer") if asked.cache.get(key) is not None}
    assert kept == {"common", "newcomer"}
    assert asked.cache.evictions == 1


@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.sampled_from("glgs"), st.integers(0, 9), st.integers(0, 30)), max_size=80),
)
def test_the_weight_stays_within_the_capacity(capacity: int, steps: list[tuple[str, int, int]]) -> None:
    cache: AdmittingCache[int] = AdmittingCache(capacity)
    for step, key, size in steps:
        match step:
            case "g":
                found = cache.get(key)
                assert found is None or found.item == found.weight
            case "l":
                cache.keep(key, Weighed(size, size))
            case _:
                cache.shrink(size)
                assert cache.weight <= size
        assert cache.weight <= capacity

"""Which objects a full cache keeps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.admission import AdmittingCache, Weighed


class Asked:
    """A cache whose misses are loaded, with its hits; loads claim their room before, or do not."""

    def __init__(self, capacity: int, *, claims: bool = False) -> None:
        self.cache: AdmittingCache[Hashable] = AdmittingCache(capacity)
        self._claims = claims

    def hits(self, keys: Iterable[Hashable], weight: int = 1) -> int:
        hits = 0
        for key in keys:
            if self.cache.get(key) is not None:
                hits += 1
                continue
            if self._claims:
                claimable = self.cache.capacity - self.cache.protected
                self.cache.make_room(self.cache.capacity - min(weight, claimable))
            self.cache.keep(key, Weighed(key, weight), self.cache.capacity)
        return hits


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("weight", [1, 10, 100, 250])
@pytest.mark.parametrize("times_too_large", [1.1, 2, 10])
def test_a_scan_that_goes_round_and_round_hits_as_much_as_fits(
    times_too_large: float, weight: int, *, claims: bool
) -> None:
    fits, rounds = 1000 // weight, 20
    working_set = round(fits * times_too_large)
    asked = Asked(1000, claims=claims)
    asked.hits(range(working_set), weight)

    hits = asked.hits(list(range(working_set)) * rounds, weight)

    # An eighth is the window, where a scan never finds what it left. LRU finds nothing at all.
    assert hits >= rounds * (fits * 7 // 8 - 1)


@pytest.mark.parametrize("claims", [False, True])
def test_what_is_used_often_outlives_a_stream_of_what_is_used_once(*, claims: bool) -> None:
    asked, often = Asked(100, claims=claims), range(80)
    asked.hits(list(often) * 3)

    for stream in range(50):
        asked.hits(("once", stream, position) for position in range(100))
        assert asked.hits(often) == len(often)

    assert asked.cache.rejected > 4000


@pytest.mark.parametrize("claims", [False, True])
def test_what_is_used_no_more_gives_way(*, claims: bool) -> None:
    asked = Asked(100, claims=claims)
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


def test_room_for_loads_is_made_in_the_window_only() -> None:
    asked = Asked(80)
    asked.hits(range(80))
    asked.cache.make_room(0)
    assert (asked.cache.weight, asked.cache.protected, asked.cache.rejected) == (70, 70, 10)


@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.sampled_from("glgm"), st.integers(0, 9), st.integers(0, 30)), max_size=80),
)
def test_the_weight_stays_within_the_room(capacity: int, steps: list[tuple[str, int, int]]) -> None:
    cache: AdmittingCache[int] = AdmittingCache(capacity)
    for step, key, size in steps:
        match step:
            case "g":
                found = cache.get(key)
                assert found is None or found.item == found.weight
            case "l":
                room = max(cache.weight, capacity - size)
                cache.keep(key, Weighed(size, size), room)
                assert cache.weight <= room
            case _:
                cache.make_room(size)
                assert cache.weight <= max(size, cache.protected)
        assert cache.protected <= cache.weight <= capacity

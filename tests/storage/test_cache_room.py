from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from app.storage import ByteCache
from app.storage.ledger import CacheRoom

SHARES = {"a": 100, "b": 60, "c": 40}


def caches() -> dict[str, ByteCache[int]]:
    """Caches whose objects weigh what they are."""
    room = CacheRoom(SHARES)
    return {name: ByteCache(name, share, int, room) for name, share in SHARES.items()}


def fill(cache: ByteCache[int], count: int, weight: int = 10) -> None:
    for number in range(count):
        cache.put(number, weight)


def test_a_cache_may_fill_what_others_leave_empty() -> None:
    shared = caches()

    fill(shared["c"], 20)

    assert shared["c"].weight == sum(SHARES.values())
    assert shared["c"].statistics().capacity == sum(SHARES.values())
    assert shared["a"].statistics().capacity == SHARES["a"]


def test_it_gives_way_to_those_that_hold_less_than_their_share() -> None:
    shared = caches()
    fill(shared["c"], 20)

    fill(shared["a"], 10)

    assert shared["a"].weight == SHARES["a"]
    assert shared["c"].weight == sum(SHARES.values()) - SHARES["a"]


def test_who_is_furthest_beyond_its_share_gives_way_first() -> None:
    shared = caches()
    fill(shared["b"], 8)
    fill(shared["c"], 12)

    fill(shared["a"], 3)

    assert (shared["b"].weight, shared["c"].weight) == (80, 90)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(1, 40)), max_size=80))
def test_all_fit_together_and_nobody_loses_its_share_to_others(puts: list[tuple[str, int, int]]) -> None:
    shared = caches()
    for name, key, weight in puts:
        before = {each: cache.weight for each, cache in shared.items()}

        shared[name].put(key, weight)

        assert sum(cache.weight for cache in shared.values()) <= sum(SHARES.values())
        for each, cache in shared.items():
            if each != name:
                # What gives way goes in whole objects.
                assert cache.weight >= min(before[each], SHARES[each]) - 40 * (before[each] > SHARES[each])


def test_threads_fit_together() -> None:
    shared = caches()

    def work(number: int) -> None:
        name = "abc"[number % 3]
        for key in range(200):
            shared[name].get_or_load((number, key), lambda: 7)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    fill(shared["a"], 1)
    assert sum(cache.weight for cache in shared.values()) <= sum(SHARES.values())

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import DeadlineExceededError, MemoryShortError, StorageError
from app.storage import ByteCache
from app.storage.cache import CacheRoom
from app.work import time_limit
from app.work.ledger import LEDGER, RECENT_SECONDS


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def bytes_cache(capacity: int = 100, clock: Callable[[], float] = time.monotonic) -> ByteCache[bytes]:
    return ByteCache("test", capacity, len, clock=clock)


class Gate:
    """A load that says when it has begun and ends when it is told to."""

    def __init__(self, result: bytes | Exception) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.calls = 0
        self._result = result

    def __call__(self) -> bytes:
        self.calls += 1
        self.begun.set()
        assert self.may_end.wait(30)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def wait_until_asked(cache: ByteCache[bytes], askers: int) -> None:
    """Return once ``askers`` threads have joined the load under way; each join counts as a hit."""
    joined = threading.Event()
    while cache.statistics().hits < askers:
        joined.wait(0.001)


def test_a_hundred_simultaneous_askers_cause_one_load() -> None:
    cache, gate, askers = bytes_cache(), Gate(b"loaded"), 100
    with ThreadPoolExecutor(askers) as pool:
        answers = [pool.submit(cache.get_or_load, "key", gate) for _ in range(askers)]
        wait_until_asked(cache, askers - 1)
        gate.may_end.set()
        assert {answer.result() for answer in answers} == {b"loaded"}
    assert gate.calls == 1
    assert cache.statistics().misses == 1
    assert cache.statistics().waits == askers - 1


def test_a_failure_reaches_every_waiting_asker_and_nobody_after() -> None:
    cache, gate, askers = bytes_cache(), Gate(StorageError("broken disk")), 10
    with ThreadPoolExecutor(askers) as pool:
        answers = [pool.submit(cache.get_or_load, "key", gate) for _ in range(askers)]
        wait_until_asked(cache, askers - 1)
        gate.may_end.set()
        assert {str(answer.exception()) for answer in answers} == {"broken disk"}
    assert cache.get_or_load("key", lambda: b"repaired") == b"repaired"


def test_another_requests_spent_time_is_not_ours() -> None:
    cache, hasty = bytes_cache(), Gate(DeadlineExceededError("no time left"))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_load, "key", hasty)
        assert hasty.begun.wait(30)
        second = pool.submit(cache.get_or_load, "key", lambda: b"patient")
        wait_until_asked(cache, 1)
        hasty.may_end.set()
        assert second.result() == b"patient"
        assert isinstance(first.exception(), DeadlineExceededError)


def test_waiting_for_another_thread_ends_with_the_deadline() -> None:
    cache, gate = bytes_cache(), Gate(b"late")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(cache.get_or_load, "key", gate)
        assert gate.begun.wait(30)
        with time_limit(0.01), pytest.raises(DeadlineExceededError):
            cache.get_or_load("key", lambda: b"never called")
        gate.may_end.set()
        assert late.result() == b"late"


def test_different_keys_load_side_by_side() -> None:
    cache, together = bytes_cache(), threading.Barrier(2, timeout=30)

    def load() -> bytes:
        together.wait()
        return b"x"

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda key: cache.get_or_load(key, load), ("a", "b")))
    assert answers == [b"x", b"x"]


def test_objects_by_many_keys_are_loaded_together_and_only_if_missing() -> None:
    cache, asked = bytes_cache(), list[list[str]]()

    def load(keys: Sequence[str]) -> Iterator[bytes]:
        asked.append(list(keys))
        return (key.encode() for key in keys)

    cache.put("b", b"put")
    assert cache.get_or_load_many(["a", "b", "c", "a"], load) == {"a": b"a", "b": b"put", "c": b"c"}
    assert cache.get_or_load_many(["c", "d"], load) == {"c": b"c", "d": b"d"}
    assert asked == [["a", "c"], ["d"]]
    assert cache.get_many(["a", "b", "none"]) == {"a": b"a", "b": b"put"}
    assert (cache.get("d"), cache.get("none")) == (b"d", None)


def test_two_loads_of_many_keys_share_what_both_ask_for() -> None:
    cache, begun = bytes_cache(), threading.Barrier(2, timeout=30)
    loaded = list[str]()

    def load(keys: Sequence[str]) -> list[bytes]:
        begun.wait()
        loaded.extend(keys)
        return [key.encode() for key in keys]

    with ThreadPoolExecutor(2) as pool:
        answers = [
            pool.submit(cache.get_or_load_many, keys, load) for keys in (["a", "x", "b"], ["b", "y", "a"])
        ]
        for answer in answers:
            assert {key: key.encode() for key in answer.result()} == answer.result()
    assert sorted(loaded) == ["a", "b", "x", "y"]


def test_what_came_before_a_failure_is_kept_and_its_error_is_told() -> None:
    cache = bytes_cache()

    def load(keys: Sequence[str]) -> Iterator[bytes]:
        yield keys[0].encode()
        raise StorageError("broken disk")

    with pytest.raises(StorageError, match="broken disk"):
        cache.get_or_load_many(["a", "b"], load)
    assert cache.get_many(["a", "b"]) == {"a": b"a"}
    assert cache.get_or_load("b", lambda: b"repaired") == b"repaired"


MIB = 1 << 20


@pytest.fixture
def limited(limit_memory: Callable[[int], None]) -> None:
    """Give the process more memory than it takes, so that two loads of 25 MiB are one portion."""
    limit_memory(64 << 30)


@pytest.mark.usefixtures("limited")
def test_many_keys_are_loaded_by_as_much_as_may_be_claimed_at_once() -> None:
    cache, batches = bytes_cache(80), list[int]()

    def load(keys: Sequence[int]) -> list[bytes]:
        batches.append(len(keys))
        assert cache.statistics().in_flight == LEDGER.claimed["loads"] == 25 * MIB * len(keys)
        return [bytes(4) for _ in keys]

    cache.get_or_load_many(range(5), load, expected_bytes=lambda _: 25 * MIB)
    assert batches == [2, 2, 1]
    assert cache.statistics().in_flight == LEDGER.claimed["loads"] == 0


def test_an_object_that_grew_takes_the_place_of_its_smaller_form() -> None:
    cache = bytes_cache(100)
    for size in (20, 60, 80):
        cache.put("grows", bytes(size))
        cache.put("other", bytes(20))
        assert cache.get("grows") == bytes(size)
    cache.put("grows", bytes(101))
    assert cache.get("grows") is None


@contextmanager
def nearly_all_claimed() -> Iterator[Callable[[], None]]:
    """Other work of the same line has claimed all that there is; gives what ends it."""
    ends, begun = threading.Event(), threading.Event()

    def hold() -> None:
        with LEDGER.claim("reads", 3000 * MIB):
            begun.set()
            assert ends.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    assert begun.wait(30)
    yield ends.set
    ends.set()
    other.join(30)


@pytest.mark.usefixtures("limited")
def test_a_load_waits_until_others_end_and_drops_nothing() -> None:
    cache = bytes_cache(80)
    cache.put("kept", bytes(60))
    with nearly_all_claimed() as end_others, ThreadPoolExecutor(1) as pool:
        with time_limit(0.3), pytest.raises(MemoryShortError):
            cache.get_or_load("key", lambda: bytes(8), expected_bytes=25 * MIB)
        load = pool.submit(cache.get_or_load, "key", lambda: bytes(8), expected_bytes=25 * MIB)
        assert not load.done()
        end_others()
        assert load.result(30) == bytes(8)
    assert cache.get("kept") == bytes(60)


@pytest.mark.usefixtures("limited")
def test_who_waits_longer_than_another_for_the_same_load_waits_on() -> None:
    cache, asked = bytes_cache(), threading.Event()

    def hasty() -> bytes:
        with time_limit(0.3):
            asked.set()
            return cache.get_or_load("key", lambda: b"loaded", expected_bytes=25 * MIB)

    with nearly_all_claimed() as end_others, ThreadPoolExecutor(2) as pool:
        first = pool.submit(hasty)
        assert asked.wait(30)
        patient = pool.submit(cache.get_or_load, "key", lambda: b"loaded", expected_bytes=25 * MIB)
        # Which of the two comes first depends on how busy the machine is.
        assert isinstance(first.exception(30), MemoryShortError | DeadlineExceededError)
        end_others()
        assert patient.result(30) == b"loaded"


def test_an_object_heavier_than_the_cache_is_answered_and_not_kept() -> None:
    cache = bytes_cache(10)
    cache.get_or_load("small", lambda: bytes(10))
    assert cache.get_or_load("huge", lambda: bytes(11)) == bytes(11)
    statistics = cache.statistics()
    assert (statistics.entries, statistics.bytes, statistics.evictions) == (1, 10, 0)


def test_a_full_cache_keeps_what_it_has_for_a_minute() -> None:
    clock = Clock()
    cache = bytes_cache(3, clock)
    for key in "abc":
        cache.put(key, b"1")
    clock.now += RECENT_SECONDS - 1
    assert cache.get("a") == b"1"
    cache.put("d", b"1")
    assert cache.get("d") is None

    clock.now += 1
    cache.put("d", b"1")

    assert cache.get("a") == cache.get("d") == b"1"
    assert len(cache.get_many("bc")) == 1
    statistics = cache.statistics()
    assert (statistics.rejected, statistics.evictions) == (1, 1)


def test_what_is_used_outlives_a_stream_of_what_is_used_once() -> None:
    clock = Clock()
    cache = bytes_cache(100, clock)
    for _ in range(6):
        for key in range(80):
            cache.get_or_load(key, lambda: b"1")
        for position in range(1_000):
            cache.get_or_load((clock.now, position), lambda: b"1")
        clock.now += RECENT_SECONDS / 2

    assert len(cache.get_many(range(80))) == 80


def test_a_scan_over_more_than_fits_finds_what_fits() -> None:
    cache = bytes_cache(1000)
    for _ in range(3):
        for key in range(1100):
            cache.get_or_load(key, lambda: b"1")

    assert cache.statistics().hits == 2 * 1000


def test_what_nobody_used_lately_is_dropped_first() -> None:
    clock = Clock()
    cache = bytes_cache(10, clock)
    for key in range(10):
        cache.put(key, b"1")
    clock.now += RECENT_SECONDS
    cache.get_many(range(4, 10))

    cache.shrink(2, unused_seconds=RECENT_SECONDS)
    assert len(cache.get_many(range(10))) == 6
    cache.get(4)
    cache.shrink(1)
    assert cache.get(4) == b"1"


def test_what_needs_less_is_left_of_objects_before_any_is_dropped() -> None:
    cache = ByteCache[bytes]("test", 100, len, lighten=lambda item: item[:10] if len(item) > 10 else None)
    for key in range(3):
        cache.put(key, bytes(30))

    cache.shrink(50)
    assert [len(cache.get(key) or b"") for key in range(3)] == [10, 10, 30]
    assert (cache.weight, cache.statistics().evictions) == (50, 0)

    cache.shrink(15)
    assert (cache.weight, cache.statistics().evictions) == (10, 2)


def test_what_was_loading_when_the_cache_was_cleared_is_not_kept() -> None:
    cache, gate = bytes_cache(), Gate(b"stale")
    with ThreadPoolExecutor(1) as pool:
        stale = pool.submit(cache.get_or_load, "key", gate)
        assert gate.begun.wait(30)
        cache.clear()
        assert cache.get_or_load("key", lambda: b"fresh") == b"fresh"
        gate.may_end.set()
        assert stale.result() == b"stale"
    assert cache.get_or_load("key", lambda: b"never called") == b"fresh"


def test_clear_forgets_objects_and_keeps_counters() -> None:
    cache = bytes_cache()
    cache.get_or_load("key", lambda: b"12345")
    cache.get_or_load("key", lambda: b"never called")
    cache.clear()
    statistics = cache.statistics()
    assert (statistics.entries, statistics.bytes) == (0, 0)
    assert (statistics.hits, statistics.misses, statistics.evictions) == (1, 1, 0)


@given(st.integers(0, 60), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_bytes_never_exceed_the_capacity(capacity: int, asked: list[tuple[int, int]]) -> None:
    cache = bytes_cache(capacity)
    for key, size in asked:
        cache.get_or_load(key, lambda size=size: bytes(size))  # type: ignore[misc]
        assert cache.statistics().bytes <= capacity
    assert cache.statistics().hits + cache.statistics().misses == len(asked)


SHARES = {"a": 100, "b": 60, "c": 40}


def caches() -> dict[str, ByteCache[int]]:
    """Return caches whose objects weigh what they are."""
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


def test_a_failed_load_keeps_nothing_that_it_had_loaded() -> None:
    """Even where its error is kept, as by those who waited for it."""
    cache, loaded = bytes_cache(), []

    def load() -> bytes:
        content = np.zeros(100)
        loaded.append(weakref.ref(content))
        raise StorageError(f"no more than {len(content)} bytes", path="a")

    with pytest.raises(StorageError) as kept:
        cache.get_or_load("a", load)

    assert kept.value.__traceback__ is not None
    assert loaded[0]() is None

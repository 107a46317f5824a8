from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import DeadlineExceededError, StorageError
from app.storage import ByteCache, time_limit


def bytes_cache(capacity: int = 100) -> ByteCache[bytes]:
    return ByteCache("test", capacity, len)


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
    """Returns once ``askers`` threads have joined the load under way; each join counts as a hit."""
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


def test_the_least_recently_used_goes_first() -> None:
    cache = bytes_cache(10)
    for key in ("old", "new"):
        cache.get_or_load(key, lambda: bytes(5))
    cache.get_or_load("old", lambda: b"unused")
    cache.get_or_load("newest", lambda: bytes(5))
    for key in ("old", "newest"):
        assert cache.get_or_load(key, lambda: b"loaded again") == bytes(5)
    assert cache.get_or_load("new", lambda: b"loaded again") == b"loaded again"


def test_an_object_heavier_than_the_cache_is_answered_and_not_kept() -> None:
    cache = bytes_cache(10)
    cache.get_or_load("small", lambda: bytes(10))
    assert cache.get_or_load("huge", lambda: bytes(11)) == bytes(11)
    statistics = cache.statistics()
    assert (statistics.entries, statistics.bytes, statistics.evictions) == (1, 10, 0)


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


@settings(deadline=None)
@given(st.integers(0, 60), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_bytes_never_exceed_the_capacity(capacity: int, asked: list[tuple[int, int]]) -> None:
    cache = bytes_cache(capacity)
    for key, size in asked:
        cache.get_or_load(key, lambda size=size: bytes(size))  # type: ignore[misc]
        assert cache.statistics().bytes <= capacity
    assert cache.statistics().hits + cache.statistics().misses == len(asked)

"""Caches give way before requests are refused."""

from __future__ import annotations

import pytest

from app.errors import MemoryShortError
from app.storage.process_memory import ProcessMemory

LIMIT = 1000 << 20
MIB = 1 << 20


class Cache:
    def __init__(self, weight: int) -> None:
        self.weight = weight

    def shrink(self, weight: int) -> None:
        self.weight = min(self.weight, weight)


class Process:
    """A process whose memory is its caches and what else it holds."""

    def __init__(self, *caches: Cache, other: int) -> None:
        self.other = other
        self.caches = caches
        self.memory = ProcessMemory(lambda: self.other + sum(cache.weight for cache in caches))
        self.memory.limit = LIMIT
        for cache in caches:
            self.memory.add(cache)


def test_what_fits_is_granted() -> None:
    process = Process(Cache(100 * MIB), other=100 * MIB)

    process.memory.require(600 * MIB, "a load")

    assert (process.caches[0].weight, process.memory.shrinks) == (100 * MIB, 0)


def test_caches_shrink_above_the_mark() -> None:
    process = Process(Cache(400 * MIB), Cache(200 * MIB), other=280 * MIB)

    process.memory.look()

    assert process.memory.resident <= 0.8 * LIMIT
    assert all(cache.weight > 0 for cache in process.caches)


def test_caches_make_room_for_what_is_needed() -> None:
    process = Process(Cache(600 * MIB), other=100 * MIB)

    process.memory.require(500 * MIB, "a load")

    assert process.memory.resident + 500 * MIB <= 0.9 * LIMIT


def test_what_does_not_fit_beside_others_is_refused() -> None:
    process = Process(Cache(50 * MIB), other=880 * MIB)

    with pytest.raises(MemoryShortError, match="a load needs 100 MiB beside"):
        process.memory.require(100 * MIB, "a load")

    assert process.memory.refusals == 1


def test_nothing_is_refused_without_a_limit() -> None:
    process = Process(other=5000 * MIB)
    process.memory.limit = 0

    process.memory.require(1000 * MIB, "a load")


def test_a_cache_that_is_gone_is_no_longer_counted() -> None:
    process = Process(other=0)
    process.memory.add(Cache(100))

    assert process.memory.kept == 0

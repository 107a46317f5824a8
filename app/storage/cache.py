"""Caches of decoded files, bounded by bytes; what many ask for at once is loaded once."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import cachetools

from app.errors import DeadlineExceededError
from app.storage.deadline import remaining_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache holds and how it has done since the process started.

    Attributes:
        name: the cache.
        entries: objects kept.
        bytes: their weight together.
        capacity: the weight that is never exceeded.
        hits: questions answered from the cache, or by a load that another asker had under way.
        misses: loads begun.
        evictions: objects dropped to make room.
    """

    name: str
    entries: int
    bytes: int
    capacity: int
    hits: int
    misses: int
    evictions: int


class ByteCache(Generic[Item]):
    """Keeps the objects that were used last, up to a weight in bytes.

    Objects are shared between threads, so they must be immutable. One key is loaded by one thread at a
    time; others that ask for it meanwhile wait for that result. A failed load is kept for nobody but those
    who were waiting.

    Args:
        name: what :meth:`statistics` calls it.
        capacity_bytes: weight of all objects together; 0 keeps nothing, and still loads once for many.
        weigh: bytes of memory that an object takes.
    """

    def __init__(self, name: str, capacity_bytes: int, weigh: Callable[[Item], int]) -> None:
        self.name = name
        self._weigh = weigh
        self._lock = threading.Lock()
        self._kept: _CountingLru[Item] = _CountingLru(capacity_bytes)
        self._under_way: dict[Hashable, Future[Item]] = {}
        self._hits = 0
        self._misses = 0

    def get_or_load(self, key: Hashable, load: Callable[[], Item]) -> Item:
        """The object of ``key``, from the cache or from ``load``.

        Raises:
            DeadlineExceededError: the request's time ran out while another thread was loading.
            Exception: whatever ``load`` raised, here or in the thread that was loading.
        """
        while True:
            with self._lock:
                kept = self._kept.get(key)
                if kept is not None:
                    self._hits += 1
                    return kept.item
                flight = self._under_way.get(key)
                if flight is None:
                    self._misses += 1
                    flight = self._under_way[key] = Future()
                    break
                self._hits += 1
            try:
                return flight.result(remaining_seconds())
            except TimeoutError as error:
                raise DeadlineExceededError("the request's time ran out while a file was loaded") from error
            except DeadlineExceededError:
                # It was the loading request that had no time left: this one may have.
                continue
        return self._load(key, flight, load)

    def _load(self, key: Hashable, flight: Future[Item], load: Callable[[], Item]) -> Item:
        try:
            item = load()
            weighed = _Weighed(item, self._weigh(item))
        except BaseException as error:
            with self._lock:
                self._land(key, flight)
            flight.set_exception(error)
            raise
        with self._lock:
            # After clear() the key has no flight or another one: what was loaded before is not kept.
            if self._land(key, flight) and weighed.weight <= self._kept.maxsize:
                self._kept[key] = weighed
        flight.set_result(item)
        return item

    def _land(self, key: Hashable, flight: Future[Item]) -> bool:
        """Takes a flight off the list; whether it was still there."""
        if self._under_way.get(key) is not flight:
            return False
        del self._under_way[key]
        return True

    def clear(self) -> None:
        """Forgets every object; loads under way end, but are not kept. The counters run on."""
        with self._lock:
            self._kept.clear()
            self._under_way.clear()

    def statistics(self) -> CacheStatistics:
        """The counters, all of one moment."""
        with self._lock:
            return CacheStatistics(
                name=self.name,
                entries=len(self._kept),
                bytes=int(self._kept.currsize),
                capacity=int(self._kept.maxsize),
                hits=self._hits,
                misses=self._misses,
                evictions=self._kept.evictions,
            )


@dataclass(frozen=True, slots=True)
class _Weighed(Generic[Item]):
    item: Item
    weight: int


class _CountingLru(cachetools.LRUCache["Hashable", _Weighed[Item]]):
    """cachetools' LRU, which evicts through ``popitem`` and in no other way."""

    def __init__(self, capacity: int) -> None:
        super().__init__(maxsize=capacity, getsizeof=lambda weighed: weighed.weight)
        self.evictions = 0

    def popitem(self) -> tuple[Hashable, _Weighed[Item]]:
        self.evictions += 1
        return super().popitem()

    def clear(self) -> None:
        for key in list(self):
            del self[key]

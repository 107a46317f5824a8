"""Caches of decoded files, bounded by bytes. Concurrent requests for one object share its load.

A full cache evicts the least recently used object, unless it was used within the last minute: then it rejects
the new one. So a scan over more than fits cannot evict objects that other requests use. A load of known size
claims memory first (:mod:`app.work.ledger`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from cachetools import LRUCache

from app.described import DESCRIBED
from app.errors import DeadlineExceededError, MemoryShortError, release_frames
from app.observation import observer
from app.work import LEDGER, RECENT_SECONDS, Shrinkable, check_deadline, wait_for

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound="Hashable")
_Flight: TypeAlias = "Future[Mapping[Any, _Item]]"


@dataclass(frozen=True, slots=True)
class CacheState:
    """State of one cache."""

    __pydantic_config__ = DESCRIBED

    entries: int
    bytes: int
    in_flight: int
    """Bytes claimed by loads in flight."""
    capacity: int
    """Bytes that the cache can hold without shrinking other caches."""
    hits: int
    misses: int
    evictions: int
    rejected: int
    """Objects not cached, because all others were used in the last minute, or because they are too large."""
    waits: int
    """Hits that waited for another request's load."""


class CacheRoom:
    """Capacity shared by several caches, each with a share.

    A cache may exceed its share while all together fit. When they do not, caches above their shares shrink,
    the one furthest above first. A cache within its share never shrinks for others.
    """

    def __init__(self, shares: Mapping[str, int]) -> None:
        self.capacity = sum(shares.values())
        self._shares = dict(shares)
        self._caches: dict[str, Shrinkable] = {}
        self._settling = threading.Lock()

    def add(self, name: str, cache: Shrinkable) -> None:
        """Register a cache that has a share."""
        self._caches[name] = cache

    def reach(self, name: str) -> int:
        """Return the most bytes that a cache can hold now without shrinking another, at least its share."""
        other_bytes = sum(cache.weight for other, cache in self._caches.items() if other != name)
        return max(self._shares[name], self.capacity - other_bytes)

    def settle(self) -> None:
        """Shrink caches until all fit. Do nothing if another thread is doing so."""
        if not self._settling.acquire(blocking=False):
            return
        try:
            weights = {name: cache.weight for name, cache in self._caches.items()}
            excess = sum(weights.values()) - self.capacity
            excess_of = {name: weight - self._shares[name] for name, weight in weights.items()}
            for name in sorted(excess_of, key=excess_of.__getitem__, reverse=True):
                if excess <= 0 or excess_of[name] <= 0:
                    return
                freed = min(excess, excess_of[name])
                self._caches[name].shrink(weights[name] - freed)
                excess -= freed
        finally:
            self._settling.release()


@dataclass(slots=True)
class _Entry(Generic[_Item]):
    item: _Item
    weight: int
    used_at: float


class ByteCache(Generic[_Item]):
    """Keeps the most recently used objects, up to a weight in bytes.

    Objects are shared between threads, so they must be immutable. One thread loads a key; concurrent callers
    wait for its result, or its error, which is not cached. A load that asks for other keys must pass
    ``expected_bytes=0``, or it can wait for itself.

    ``capacity_bytes``: weight of all objects together. 0 caches nothing, and still shares loads.
    ``weigh``: returns the bytes of an object.
    ``lighten``: returns a smaller object to keep when room is needed, or None to evict the object.
    ``room``: shared with other caches. Its capacity then replaces this one's.
    ``clock``: returns seconds.
    """

    def __init__(
        self,
        name: str,
        capacity_bytes: int,
        weigh: Callable[[_Item], int],
        room: CacheRoom | None = None,
        lighten: Callable[[_Item], _Item | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.capacity = capacity_bytes if room is None else room.capacity
        """Maximum bytes of all objects together."""
        self._shared = room
        if room is not None:
            room.add(name, self)
        self._weigh = weigh
        self._lighten = lighten
        self._clock = clock
        self._lock = threading.Lock()
        # It never evicts by itself, because _make_room() decides.
        self._objects: LRUCache[Hashable, _Entry[_Item]] = LRUCache(math.inf, attrgetter("weight"))
        self._in_flight: dict[Hashable, _Flight[_Item]] = {}
        self._claimed = 0
        LEDGER.add(self)
        self._hits = 0
        self._misses = 0
        self._waits = 0
        self._evictions = 0
        self._rejected = 0

    def get(self, key: Hashable) -> _Item | None:
        """Return the object of ``key``, or None."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[_Key]) -> dict[_Key, _Item]:
        """Return the objects among ``keys`` that are cached, all looked up at once."""
        distinct = dict.fromkeys(keys)
        with self._lock:
            now = self._clock()
            items = {key: entry.item for key in distinct if (entry := self._used(key, now)) is not None}
            self._hits += len(items)
            self._misses += len(distinct) - len(items)
        observer().cache_asked(self.name, len(items), len(distinct) - len(items))
        return items

    def keeps(self, key: Hashable, item: _Item) -> bool:
        """Return True if the cache holds this very object."""
        with self._lock:
            entry = self._objects.get(key)
            return entry is not None and entry.item is item

    def put(self, key: Hashable, item: _Item) -> None:
        """Cache an object, replacing the one of its key."""
        self._keep_all({key: (item, self._weigh(item))})

    def get_or_load(
        self,
        key: Hashable,
        load: Callable[[], _Item],
        *,
        expected_bytes: int = 0,
        line: str = "",
        is_kept: Callable[[_Item], bool] = lambda _: True,
    ) -> _Item:
        """Return the object of ``key``, from the cache or from one ``load`` for all concurrent callers.

        ``expected_bytes``: weight of the object if known. Claimed before ``load`` starts.
        ``line``: the warehouse for which memory is claimed.
        ``is_kept``: decides whether the loaded object is cached.
        """
        items = self.get_or_load_many(
            (key,), lambda _: (load(),), expected_bytes=lambda _: expected_bytes, line=line, is_kept=is_kept
        )
        return items[key]

    def get_or_load_many(
        self,
        keys: Iterable[_Key],
        load_missing: Callable[[Sequence[_Key]], Iterable[_Item]],
        *,
        expected_bytes: Callable[[_Key], int] = lambda _: 0,
        line: str = "",
        is_kept: Callable[[_Item], bool] = lambda _: True,
    ) -> dict[_Key, _Item]:
        """Return the objects of ``keys``, loading missing ones in batches.

        ``load_missing`` returns the objects of its keys, in order. It is called more than once if memory for
        all keys cannot be claimed at once.
        """
        items: dict[_Key, _Item] = {}
        most = LEDGER.portion
        # An expected size may come from a damaged file.
        pending = {key: min(max(0, expected_bytes(key)), most) for key in keys}
        while pending:
            with self._lock:
                in_flight, batches = self._sort_out(pending, items, most)
            missing = sum(len(batch.keys) for batch in batches)
            observer().cache_asked(self.name, len(pending) - missing, missing)
            self._load_all(batches, lambda batch: self._load(batch, load_missing, line, is_kept), items)
            # This thread finishes its own loads before it waits for others, so no two can deadlock.
            pending = {key: pending[key] for key in _collect(in_flight, items)}
        return items

    def clear(self) -> None:
        """Drop all objects. The results of loads in flight are not cached. Keep the counters."""
        with self._lock:
            self._objects.clear()
            self._in_flight.clear()

    @property
    def weight(self) -> int:
        """Bytes of all cached objects."""
        return int(self._objects.currsize)

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:
        """Evict objects down to ``weight`` bytes, but none used within the last ``unused_seconds``."""
        with self._lock:
            self._make_room(weight, unused_seconds)

    def statistics(self) -> CacheState:
        """Return a consistent copy of the counters."""
        capacity = self._reach
        with self._lock:
            return CacheState(
                entries=len(self._objects),
                bytes=self.weight,
                in_flight=self._claimed,
                capacity=capacity,
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
                rejected=self._rejected,
                waits=self._waits,
            )

    @property
    def _reach(self) -> int:
        return self.capacity if self._shared is None else self._shared.reach(self.name)

    def _used(self, key: Hashable, now: float) -> _Entry[_Item] | None:
        try:
            entry = self._objects[key]
        except KeyError:
            return None
        entry.used_at = now
        return entry

    def _keep_all(self, loaded: Mapping[Any, tuple[_Item, int]]) -> None:
        capacity = self._reach
        with self._lock:
            now = self._clock()
            for key, (item, weight) in loaded.items():
                self._keep(key, _Entry(item, weight, now), capacity)
        if self._shared is not None:
            self._shared.settle()

    def _keep(self, key: Hashable, entry: _Entry[_Item], capacity: int) -> None:
        before = self._objects.pop(key, None)
        free = capacity - entry.weight
        if free >= 0:
            # A cached object that grew stays, even if recently used ones must be evicted for it.
            self._make_room(free, RECENT_SECONDS if before is None else 0)
        if self.weight > free:
            self._rejected += 1
        else:
            self._objects[key] = entry

    def _make_room(self, weight: int, unused_seconds: float) -> None:
        latest = self._clock() - unused_seconds
        while self._objects and self.weight > weight:
            key, oldest = self._objects.popitem()
            if oldest.used_at > latest:
                # It becomes the newest. The order of recently used objects does not matter: used_at decides.
                self._objects[key] = oldest
                return
            if (lighter := self._lighten(oldest.item)) is None:
                self._evictions += 1
            else:
                self._objects[key] = _Entry(lighter, self._weigh(lighter), oldest.used_at)

    def _sort_out(
        self, pending: Mapping[_Key, int], items: dict[_Key, _Item], most: int
    ) -> tuple[dict[_Key, _Flight[_Item]], list[_Batch[_Key, _Item]]]:
        """Put cached objects into ``items``. Return flights to wait for, and batches to load here."""
        in_flight: dict[_Key, _Flight[_Item]] = {}
        batches: list[_Batch[_Key, _Item]] = []
        before, now = len(items), self._clock()
        for key, expected in pending.items():
            entry = self._used(key, now)
            if entry is not None:
                items[key] = entry.item
            elif key in self._in_flight:
                in_flight[key] = self._in_flight[key]
            else:
                self._misses += 1
                if not batches or batches[-1].expected + expected > most:
                    batches.append(_Batch())
                batches[-1].keys.append(key)
                batches[-1].expected += expected
                self._in_flight[key] = batches[-1].flight
        self._hits += len(in_flight) + len(items) - before
        self._waits += len(in_flight)
        return in_flight, batches

    def _load_all(
        self,
        batches: Sequence[_Batch[_Key, _Item]],
        load: Callable[[_Batch[_Key, _Item]], dict[_Key, _Item]],
        items: dict[_Key, _Item],
    ) -> None:
        for position, batch in enumerate(batches):
            try:
                loaded = load(batch)
            except BaseException as error:
                # The flight keeps the error, and its frames would keep the flight.
                release_frames(error)
                for failed in batches[position:]:
                    with self._lock:
                        self._land(failed)
                    failed.flight.set_exception(error)
                raise
            batch.flight.set_result(loaded)
            items.update(loaded)

    def _load(
        self,
        batch: _Batch[_Key, _Item],
        load_missing: Callable[[Sequence[_Key]], Iterable[_Item]],
        line: str,
        is_kept: Callable[[_Item], bool],
    ) -> dict[_Key, _Item]:
        LEDGER.require(f"loads of {self.name}")
        # A load without a claim may load other objects: holding no claim, it cannot block theirs.
        claim = LEDGER.claim("loads", batch.expected, line=line) if batch.expected else nullcontext()
        with claim:
            with self._lock:
                self._claimed += batch.expected
            loaded: dict[_Key, _Item] = {}
            try:
                loaded.update(zip(batch.keys, load_missing(batch.keys), strict=True))
            finally:
                with self._lock:
                    self._claimed -= batch.expected
                    landed = self._land(batch)
                # Objects that were loaded before a failure are complete, so they are cached.
                kept = [key for key in landed if key in loaded and is_kept(loaded[key])]
                self._keep_all({key: (loaded[key], self._weigh(loaded[key])) for key in kept})
        return loaded

    def _land(self, batch: _Batch[_Key, _Item]) -> list[_Key]:
        """Remove a batch from the loads in flight. Return its keys unless clear() removed them."""
        landed = [key for key in batch.keys if self._in_flight.get(key) is batch.flight]
        for key in landed:
            del self._in_flight[key]
        return landed


def _collect(in_flight: Mapping[_Key, _Flight[_Item]], items: dict[_Key, _Item]) -> list[_Key]:
    """Wait for other threads' loads. Return keys whose loader ran out of time or memory."""
    retried = []
    for key, flight in in_flight.items():
        try:
            items[key] = wait_for(flight)[key]
        except (DeadlineExceededError, MemoryShortError):
            check_deadline()
            retried.append(key)
    return retried


class _Batch(Generic[_Key, _Item]):
    def __init__(self) -> None:
        self.keys: list[_Key] = []
        self.expected = 0
        self.flight: _Flight[_Item] = Future()

"""Caches of decoded files, bounded by bytes; what many ask for at once is loaded once.

A full cache drops what was used longest ago, unless that was in the last minute: then it keeps what it has.
So a scan over more than fits finds most of what fits, and does not push out what others ask for all the time.

A load whose size is known claims it before it begins (:mod:`app.work.ledger`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from app.described import DESCRIBED
from app.errors import DeadlineExceededError, MemoryShortError
from app.observation import observer
from app.work import LEDGER, RECENT_SECONDS, Shrinkable, check_deadline, wait_for

Item = TypeVar("Item")
Key = TypeVar("Key", bound="Hashable")
_Flight: TypeAlias = "Future[Mapping[Any, Item]]"


@dataclass(frozen=True, slots=True)
class CacheState:
    """One cache."""

    __pydantic_config__ = DESCRIBED

    entries: int
    bytes: int
    in_flight: int
    """Bytes that loads under way have claimed."""
    capacity: int
    """What `bytes` can be, as long as other caches hold what they do."""
    hits: int
    misses: int
    evictions: int
    rejected: int
    """Objects not kept, since all others were used in the last minute, or too large."""
    waits: int
    """Hits that waited for a load that another request had under way."""


class CacheRoom:
    """Room that several caches share: what one leaves empty, others may fill.

    Each cache has a share. It may hold more as long as all of them together fit. Once they do not, those that
    hold more than their share give way, the one first that is furthest beyond it; so a cache that holds no
    more than its share never gives way to others.
    """

    def __init__(self, shares: Mapping[str, int]) -> None:
        self.capacity = sum(shares.values())
        self._shares = dict(shares)
        self._caches: dict[str, Shrinkable] = {}
        self._settling = threading.Lock()

    def add(self, name: str, cache: Shrinkable) -> None:
        """Lets a cache into the room, of which it has a share."""
        self._caches[name] = cache

    def reach(self, name: str) -> int:
        """What a cache can hold at the moment without another giving way, or its share if that is more."""
        others = sum(cache.weight for other, cache in self._caches.items() if other != name)
        return max(self._shares[name], self.capacity - others)

    def settle(self) -> None:
        """Has caches give way until all fit again; of several threads one sees to it."""
        if not self._settling.acquire(blocking=False):
            return
        try:
            weights = {name: cache.weight for name, cache in self._caches.items()}
            excess = sum(weights.values()) - self.capacity
            beyond = {name: weight - self._shares[name] for name, weight in weights.items()}
            for name in sorted(beyond, key=beyond.__getitem__, reverse=True):
                if excess <= 0 or beyond[name] <= 0:
                    return
                given = min(excess, beyond[name])
                self._caches[name].shrink(weights[name] - given)
                excess -= given
        finally:
            self._settling.release()


@dataclass(slots=True)
class _Entry(Generic[Item]):
    item: Item
    weight: int
    used_at: float


class ByteCache(Generic[Item]):
    """Keeps the objects that were used last, up to a weight in bytes.

    Objects are shared between threads, so they must be immutable. One key is loaded by one thread at a
    time; others that ask for it meanwhile wait for that result. A failed load is kept for nobody but those
    who were waiting.

    A load that asks for other keys passes ``expected_bytes=0``, or it can wait for itself.

    Args:
        capacity_bytes: weight of all objects together; 0 keeps nothing, and still loads once for many.
        weigh: bytes of memory that an object takes.
        room: shared with other caches, of which this one has a share; its capacity is that of the room then.
    """

    def __init__(
        self,
        name: str,
        capacity_bytes: int,
        weigh: Callable[[Item], int],
        room: CacheRoom | None = None,
    ) -> None:
        self.name = name
        self.capacity = capacity_bytes if room is None else room.capacity
        """Weight of all objects together, at most."""
        self._shared = room
        if room is not None:
            room.add(name, self)
        self._weigh = weigh
        self._lock = threading.Lock()
        # Those used longest ago come first.
        self._objects: OrderedDict[Hashable, _Entry[Item]] = OrderedDict()
        self._weight = 0
        self._under_way: dict[Hashable, _Flight[Item]] = {}
        self._claimed = 0
        LEDGER.add(self)
        self._hits = 0
        self._misses = 0
        self._waits = 0
        self._evictions = 0
        self._rejected = 0

    def get(self, key: Hashable) -> Item | None:
        """The object of ``key``, if it is kept."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """The objects that are kept of those asked for, all of one moment."""
        distinct = dict.fromkeys(keys)
        with self._lock:
            now = time.monotonic()
            items = {key: entry.item for key in distinct if (entry := self._used(key, now)) is not None}
            self._hits += len(items)
            self._misses += len(distinct) - len(items)
        observer().cache_asked(self.name, len(items), len(distinct) - len(items))
        return items

    def keeps(self, key: Hashable, item: Item) -> bool:
        """Tells whether the cache holds this very object, without counting as an access."""
        with self._lock:
            entry = self._objects.get(key)
            return entry is not None and entry.item is item

    def put(self, key: Hashable, item: Item) -> None:
        """Keeps an object as one that was loaded; it takes the place of what is kept of that key.

        An object that is kept for good and grew is kept on: the objects that are used least make room.
        """
        self._keep_all({key: (item, self._weigh(item))})

    def get_or_load(
        self,
        key: Hashable,
        load: Callable[[], Item],
        *,
        expected_bytes: int = 0,
        line: str = "",
        is_kept: Callable[[Item], bool] = lambda _: True,
    ) -> Item:
        """The object of ``key``, from the cache or from ``load``, which is called once for all who ask.

        Args:
            expected_bytes: what the object will weigh, as far as known; ``load`` begins once there is room
                for it.
            line: for whom that is claimed, the warehouse which ``load`` reads from.
            is_kept: whether others are to have the object who ask later.
        """
        items = self.get_or_load_many(
            (key,), lambda _: (load(),), expected_bytes=lambda _: expected_bytes, line=line, is_kept=is_kept
        )
        return items[key]

    def get_or_load_many(
        self,
        keys: Iterable[Key],
        load_missing: Callable[[Sequence[Key]], Iterable[Item]],
        *,
        expected_bytes: Callable[[Key], int] = lambda _: 0,
        line: str = "",
        is_kept: Callable[[Item], bool] = lambda _: True,
    ) -> dict[Key, Item]:
        """The objects of all ``keys``; those that are missing are loaded together.

        ``load_missing`` gives the objects of its keys in their order. It is called again for further keys
        where not all may be claimed at once.
        """
        items: dict[Key, Item] = {}
        most = LEDGER.portion
        # What is expected may come from a file, which may say anything.
        wanted = {key: min(max(0, expected_bytes(key)), most) for key in keys}
        while wanted:
            with self._lock:
                others, batches = self._sort_out(wanted, items, most)
            missing = sum(len(batch.keys) for batch in batches)
            observer().cache_asked(self.name, len(wanted) - missing, missing)
            self._load_all(batches, lambda batch: self._load(batch, load_missing, line, is_kept), items)
            # What this thread took upon itself is done: no two threads wait for each other.
            wanted = {key: wanted[key] for key in _collect(others, items)}
        return items

    def clear(self) -> None:
        """Forgets every object; loads under way end, but are not kept. The counters run on."""
        with self._lock:
            self._objects.clear()
            self._weight = 0
            self._under_way.clear()

    @property
    def weight(self) -> int:
        """Bytes of all objects that are kept."""
        return self._weight

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:
        """Drops objects until the rest weighs no more than ``weight``, since others need the memory.

        Only those that nobody has asked for in the last ``unused_seconds``.
        """
        with self._lock:
            self._make_room(weight, unused_seconds)

    def statistics(self) -> CacheState:
        """The counters, all of one moment."""
        capacity = self._reach
        with self._lock:
            return CacheState(
                entries=len(self._objects),
                bytes=self._weight,
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

    def _used(self, key: Hashable, now: float) -> _Entry[Item] | None:
        entry = self._objects.get(key)
        if entry is not None:
            entry.used_at = now
            self._objects.move_to_end(key)
        return entry

    def _keep_all(self, loaded: Mapping[Any, tuple[Item, int]]) -> None:
        most = self._reach
        with self._lock:
            now = time.monotonic()
            for key, (item, weight) in loaded.items():
                self._keep(key, _Entry(item, weight, now), most)
        if self._shared is not None:
            self._shared.settle()

    def _keep(self, key: Hashable, entry: _Entry[Item], most: int) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            self._weight -= before.weight
        left = most - entry.weight
        if left >= 0:
            self._make_room(left, RECENT_SECONDS if before is None else 0)
        if self._weight > left:
            self._rejected += 1
            return
        self._objects[key] = entry
        self._weight += entry.weight

    def _make_room(self, weight: int, unused_seconds: float) -> None:
        latest = time.monotonic() - unused_seconds
        while self._objects and self._weight > weight:
            key, oldest = next(iter(self._objects.items()))
            if oldest.used_at > latest:
                return
            del self._objects[key]
            self._weight -= oldest.weight
            self._evictions += 1

    def _sort_out(
        self, wanted: Mapping[Key, int], items: dict[Key, Item], most: int
    ) -> tuple[dict[Key, _Flight[Item]], list[_Batch[Key, Item]]]:
        """Puts what is kept into ``found``; tells who loads what, and registers this thread for the rest."""
        others: dict[Key, _Flight[Item]] = {}
        batches: list[_Batch[Key, Item]] = []
        already, now = len(items), time.monotonic()
        for key, expected in wanted.items():
            entry = self._used(key, now)
            if entry is not None:
                items[key] = entry.item
            elif key in self._under_way:
                others[key] = self._under_way[key]
            else:
                self._misses += 1
                if not batches or batches[-1].expected + expected > most:
                    batches.append(_Batch())
                batches[-1].keys.append(key)
                batches[-1].expected += expected
                self._under_way[key] = batches[-1].flight
        self._hits += len(others) + len(items) - already
        self._waits += len(others)
        return others, batches

    def _load_all(
        self,
        batches: Sequence[_Batch[Key, Item]],
        load: Callable[[_Batch[Key, Item]], dict[Key, Item]],
        items: dict[Key, Item],
    ) -> None:
        for position, batch in enumerate(batches):
            try:
                loaded = load(batch)
            except BaseException as error:
                for failed in batches[position:]:
                    with self._lock:
                        self._land(failed)
                    failed.flight.set_exception(error)
                raise
            batch.flight.set_result(loaded)
            items.update(loaded)

    def _load(
        self,
        batch: _Batch[Key, Item],
        load_missing: Callable[[Sequence[Key]], Iterable[Item]],
        line: str,
        is_kept: Callable[[Item], bool],
    ) -> dict[Key, Item]:
        LEDGER.require(f"loads of {self.name}")
        # What claims nothing may ask for other objects, and holds nothing while it waits for them.
        claim = LEDGER.claim("loads", batch.expected, line=line) if batch.expected else nullcontext()
        with claim:
            with self._lock:
                self._claimed += batch.expected
            loaded: dict[Key, Item] = {}
            try:
                loaded.update(zip(batch.keys, load_missing(batch.keys), strict=True))
            finally:
                with self._lock:
                    self._claimed -= batch.expected
                    landed = self._land(batch)
                # Where a load fails, what came before the failure is whole nevertheless.
                kept = [key for key in landed if key in loaded and is_kept(loaded[key])]
                self._keep_all({key: (loaded[key], self._weigh(loaded[key])) for key in kept})
        return loaded

    def _land(self, batch: _Batch[Key, Item]) -> list[Key]:
        """Takes the keys of a load off the list; those that clear() had not taken off before."""
        landed = [key for key in batch.keys if self._under_way.get(key) is batch.flight]
        for key in landed:
            del self._under_way[key]
        return landed


def _collect(others: Mapping[Key, _Flight[Item]], items: dict[Key, Item]) -> list[Key]:
    """Waits for the loads of other threads; the keys of those whose request could wait no longer."""
    spent = []
    for key, flight in others.items():
        try:
            items[key] = wait_for(flight)[key]
        except (DeadlineExceededError, MemoryShortError):
            check_deadline()
            spent.append(key)
    return spent


class _Batch(Generic[Key, Item]):
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.expected = 0
        self.flight: _Flight[Item] = Future()

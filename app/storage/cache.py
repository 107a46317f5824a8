"""Caches of decoded files, bounded by bytes; what many ask for at once is loaded once.

What is kept and what loads under way have said that they will take never weigh more than the capacity
together: a load claims room before it begins, and waits for its turn where there is none.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from app.errors import DeadlineExceededError
from app.observation import observer
from app.storage.admission import AdmittingCache, Weighed
from app.storage.deadline import check_deadline, wait_for
from app.storage.process_memory import PROCESS_MEMORY
from app.storage.shared_room import SharedRoom
from app.storage.turns import Line

Item = TypeVar("Item")
Key = TypeVar("Key", bound="Hashable")
_Flight: TypeAlias = "Future[Mapping[Any, Item]]"


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache holds and how it has done since the process started.

    Attributes:
        name: the cache.
        entries: objects kept.
        bytes: their weight together.
        in_flight: bytes that loads under way have claimed.
        capacity: what ``bytes`` and ``in_flight`` together do not exceed; of a cache that shares its room,
            what it can hold as long as the others hold what they do.
        hits: questions answered from the cache, or by a load that another asker had under way.
        misses: questions that found nothing.
        evictions: objects dropped for others that are asked for more.
        rejected: objects not kept, or not for long, since others are asked for more.
        waits: questions answered by a load that another asker had under way.
    """

    name: str
    entries: int
    bytes: int
    in_flight: int
    capacity: int
    hits: int
    misses: int
    evictions: int
    rejected: int
    waits: int


class ByteCache(Generic[Item]):
    """Keeps the objects that are used most, up to a weight in bytes.

    Objects are shared between threads, so they must be immutable. One key is loaded by one thread at a
    time; others that ask for it meanwhile wait for that result. A failed load is kept for nobody but those
    who were waiting. Which objects a full cache keeps: :mod:`app.storage.admission`.

    A load that asks the same cache for other keys must not say how much it expects: it would hold room that
    those may be waiting for.

    Args:
        name: what :meth:`statistics` calls it.
        capacity_bytes: weight of all objects together; 0 keeps nothing, and still loads once for many.
        weigh: bytes of memory that an object takes.
        room: shared with other caches, of which this one has a share; its capacity is that of the room then.
    """

    def __init__(
        self,
        name: str,
        capacity_bytes: int,
        weigh: Callable[[Item], int],
        room: SharedRoom | None = None,
    ) -> None:
        self.name = name
        self._shared = room
        if room is not None:
            capacity_bytes = room.capacity
            room.add(name, self)
        self._weigh = weigh
        self._lock = threading.Lock()
        self._lines: defaultdict[str, Line] = defaultdict(lambda: Line(self._lock))
        self._loads: Counter[str] = Counter()
        self._kept: AdmittingCache[Item] = AdmittingCache(capacity_bytes)
        self._under_way: dict[Hashable, _Flight[Item]] = {}
        self._claimed = 0
        PROCESS_MEMORY.add(self)
        self._hits = 0
        self._misses = 0
        self._waits = 0

    def get(self, key: Hashable) -> Item | None:
        """The object of ``key``, if it is kept."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """The objects that are kept of those asked for, all of one moment."""
        distinct = dict.fromkeys(keys)
        with self._lock:
            found = {key: kept.item for key, kept in self._kept.get_many(distinct).items()}
            self._hits += len(found)
            self._misses += len(distinct) - len(found)
        observer().cache_asked(self.name, len(found), len(distinct) - len(found))
        return found

    def put(self, key: Hashable, item: Item) -> None:
        """Keeps an object as one that was loaded; it takes the place of what is kept of that key.

        An object that is kept for good and grew is kept on: the objects that are used least make room.
        """
        weighed = Weighed(item, self._weigh(item))
        with self._lock:
            self._kept.keep(key, weighed, self._room)
        self._settle()

    def get_or_load(
        self, key: Hashable, load: Callable[[], Item], *, expected_bytes: int = 0, storage: str = ""
    ) -> Item:
        """The object of ``key``, from the cache or from ``load``.

        Args:
            key: what the object is known by.
            load: called once for all that ask meanwhile.
            expected_bytes: what the object will weigh, as far as known; ``load`` begins once there is room
                for it. An object too large for that is loaded while no other of its storage claims any room.
            storage: the warehouse that ``load`` reads from. Loads of one wait for each other only: what hangs
                in another storage does not keep this one from loading.

        Raises:
            DeadlineExceededError: the request's time ran out, or its caller went away, in waiting for room or
                for another thread.
            Exception: whatever ``load`` raised, here or in the thread that was loading.
        """
        found = self.get_or_load_many(
            (key,), lambda _: (load(),), expected_bytes=lambda _: expected_bytes, storage=storage
        )
        return found[key]

    def get_or_load_many(
        self,
        keys: Iterable[Key],
        load_missing: Callable[[Sequence[Key]], Iterable[Item]],
        *,
        expected_bytes: Callable[[Key], int] = lambda _: 0,
        storage: str = "",
    ) -> dict[Key, Item]:
        """The objects of all ``keys``; those that are missing are loaded together.

        Args:
            keys: what the objects are known by.
            load_missing: gives the objects of the keys that it is given, in their order. It is called again
                for further keys where not all fit into the room for loads at once.
            expected_bytes: as of :meth:`get_or_load`, of each key.
            storage: as of :meth:`get_or_load`.

        Raises:
            DeadlineExceededError: as of :meth:`get_or_load`.
            Exception: whatever a load raised; what was loaded before is kept.
        """
        found: dict[Key, Item] = {}
        # What is expected may come from a file, which may say anything.
        wanted = {key: min(max(0, expected_bytes(key)), self._kept.capacity) for key in keys}
        while wanted:
            with self._lock:
                others, batches = self._sort_out(wanted, found)
            missing = sum(len(batch.keys) for batch in batches)
            observer().cache_asked(self.name, len(wanted) - missing, missing)
            self._load_all(batches, load_missing, found, storage)
            # What this thread took upon itself is done: no two threads wait for each other.
            wanted = {key: wanted[key] for key in _collect(others, found)}
        return found

    def clear(self) -> None:
        """Forgets every object; loads under way end, but are not kept. The counters run on."""
        with self._lock:
            self._kept.clear()
            self._under_way.clear()

    @property
    def capacity(self) -> int:
        """Weight of all objects together, at most."""
        return self._kept.capacity

    @property
    def taken(self) -> int:
        """Bytes of the objects that are kept, and of loads under way."""
        with self._lock:
            return self._kept.weight + self._claimed

    def give_back(self, size: int) -> None:
        """Lets go of objects of at least so many bytes together, since others need the room."""
        with self._lock:
            self._kept.shrink(self._kept.weight - size)

    @property
    def weight(self) -> int:
        """Bytes of all objects that are kept."""
        with self._lock:
            return self._kept.weight

    def shrink(self, weight: int) -> None:
        """Lets go of objects until the rest weighs no more than ``weight``, since memory is short."""
        with self._lock:
            self._kept.shrink(weight)

    def statistics(self) -> CacheStatistics:
        """The counters, all of one moment."""
        capacity = self._kept.capacity if self._shared is None else self._shared.reach(self.name)
        with self._lock:
            return CacheStatistics(
                name=self.name,
                entries=len(self._kept),
                bytes=self._kept.weight,
                in_flight=self._claimed,
                capacity=capacity,
                hits=self._hits,
                misses=self._misses,
                evictions=self._kept.evictions,
                rejected=self._kept.rejected,
                waits=self._waits,
            )

    def _settle(self) -> None:
        if self._shared is not None:
            self._shared.settle()

    @property
    def _room(self) -> int:
        """What kept objects may weigh beside the loads under way."""
        return self._kept.capacity - self._claimed

    def _sort_out(
        self, wanted: Mapping[Key, int], found: dict[Key, Item]
    ) -> tuple[dict[Key, _Flight[Item]], list[_Batch[Key, Item]]]:
        """Puts what is kept into ``found``; tells who loads what, and registers this thread for the rest."""
        others: dict[Key, _Flight[Item]] = {}
        batches: list[_Batch[Key, Item]] = []
        already = len(found)
        for key, expected in wanted.items():
            kept = self._kept.get(key)
            if kept is not None:
                found[key] = kept.item
            elif key in self._under_way:
                others[key] = self._under_way[key]
            else:
                self._misses += 1
                if not batches or batches[-1].expected + expected > self._kept.window_bytes:
                    batches.append(_Batch())
                batches[-1].keys.append(key)
                batches[-1].expected += expected
                self._under_way[key] = batches[-1].flight
        self._hits += len(others) + len(found) - already
        self._waits += len(others)
        return others, batches

    def _load_all(
        self,
        batches: Sequence[_Batch[Key, Item]],
        load_missing: Callable[[Sequence[Key]], Iterable[Item]],
        found: dict[Key, Item],
        storage: str,
    ) -> None:
        for position, batch in enumerate(batches):
            try:
                loaded = self._load(batch, load_missing, storage)
            except BaseException as error:
                for failed in batches[position:]:
                    with self._lock:
                        self._land(failed)
                    failed.flight.set_exception(error)
                raise
            batch.flight.set_result(loaded)
            found.update(loaded)

    def _load(
        self, batch: _Batch[Key, Item], load_missing: Callable[[Sequence[Key]], Iterable[Item]], storage: str
    ) -> dict[Key, Item]:
        PROCESS_MEMORY.require(batch.expected, f"a load for {self.name}")
        claimed: int | None = None
        if batch.expected:
            with self._lock:
                claimed = self._lines[storage].take(lambda: self._claim(batch.expected, storage))
        loaded: dict[Key, Weighed[Item]] = {}
        try:
            for key, item in zip(batch.keys, load_missing(batch.keys), strict=True):
                loaded[key] = Weighed(item, self._weigh(item))
        finally:
            with self._lock:
                if claimed is not None:
                    self._claimed -= claimed
                    self._loads[storage] -= 1
                # Where a load fails, what came before the failure is whole nevertheless.
                for key in self._land(batch):
                    if key in loaded:
                        self._kept.keep(key, loaded[key], self._room)
                for line in self._lines.values():
                    line.changed()
            self._settle()
        return {key: weighed.item for key, weighed in loaded.items()}

    def _claim(self, expected: int, storage: str) -> int | None:
        """Claims room for a load, if there is any or no other load from its storage claims some."""
        claimable = self._room - self._kept.protected
        if expected > claimable and self._loads[storage]:
            return None
        claim = min(expected, claimable)
        self._kept.make_room(self._room - claim)
        self._claimed += claim
        self._loads[storage] += 1
        return claim

    def _land(self, batch: _Batch[Key, Item]) -> list[Key]:
        """Takes the keys of a load off the list; those that clear() had not taken off before."""
        landed = [key for key in batch.keys if self._under_way.get(key) is batch.flight]
        for key in landed:
            del self._under_way[key]
        return landed


def _collect(others: Mapping[Key, _Flight[Item]], found: dict[Key, Item]) -> list[Key]:
    """Waits for the loads of other threads; the keys of those whose request had no time left."""
    spent = []
    for key, flight in others.items():
        try:
            found[key] = wait_for(flight)[key]
        except DeadlineExceededError:
            check_deadline()
            spent.append(key)
    return spent


class _Batch(Generic[Key, Item]):
    """Keys that are loaded together."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.expected = 0
        self.flight: _Flight[Item] = Future()

"""Caches of decoded files, bounded by bytes; what many ask for at once is loaded once.

A load whose size is known claims it before it begins (:mod:`app.work.ledger`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from app.described import DESCRIBED
from app.errors import DeadlineExceededError, MemoryShortError
from app.observation import observer
from app.storage.admission import AdmittingCache, Weighed
from app.work.deadline import check_deadline, wait_for
from app.work.ledger import LEDGER, Account, CacheRoom

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
    """Objects not kept, since others are asked for more."""
    waits: int
    """Hits that waited for a load that another request had under way."""


class ByteCache(Generic[Item]):
    """Keeps the objects that are used most, up to a weight in bytes.

    Objects are shared between threads, so they must be immutable. One key is loaded by one thread at a
    time; others that ask for it meanwhile wait for that result. A failed load is kept for nobody but those
    who were waiting. Which objects a full cache keeps: :mod:`app.storage.admission`.

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
        self._shared = room
        if room is not None:
            capacity_bytes = room.capacity
            room.add(name, self)
        self._weigh = weigh
        self._lock = threading.Lock()
        self._objects: AdmittingCache[Item] = AdmittingCache(capacity_bytes)
        self._under_way: dict[Hashable, _Flight[Item]] = {}
        self._claimed = 0
        LEDGER.add(self)
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
            found = {key: weighed.item for key, weighed in self._objects.get_many(distinct).items()}
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
            self._objects.keep(key, weighed)
        self._settle()

    def get_or_load(
        self,
        key: Hashable,
        load: Callable[[], Item],
        *,
        expected_bytes: int = 0,
        account: Account | None = None,
    ) -> Item:
        """The object of ``key``, from the cache or from ``load``, which is called once for all who ask.

        Args:
            expected_bytes: what the object will weigh, as far as known; ``load`` begins once there is room
                for it.
            account: where that is claimed; that of the warehouse which ``load`` reads from.
        """
        found = self.get_or_load_many(
            (key,), lambda _: (load(),), expected_bytes=lambda _: expected_bytes, account=account
        )
        return found[key]

    def get_or_load_many(
        self,
        keys: Iterable[Key],
        load_missing: Callable[[Sequence[Key]], Iterable[Item]],
        *,
        expected_bytes: Callable[[Key], int] = lambda _: 0,
        account: Account | None = None,
    ) -> dict[Key, Item]:
        """The objects of all ``keys``; those that are missing are loaded together.

        ``load_missing`` gives the objects of its keys in their order. It is called again for further keys
        where not all fit into the account at once.
        """
        found: dict[Key, Item] = {}
        most = 0 if account is None else account.limit
        # What is expected may come from a file, which may say anything.
        wanted = {key: min(max(0, expected_bytes(key)), most) for key in keys}
        while wanted:
            with self._lock:
                others, batches = self._sort_out(wanted, found, most)
            missing = sum(len(batch.keys) for batch in batches)
            observer().cache_asked(self.name, len(wanted) - missing, missing)
            self._load_all(batches, load_missing, found, account)
            # What this thread took upon itself is done: no two threads wait for each other.
            wanted = {key: wanted[key] for key in _collect(others, found)}
        return found

    def clear(self) -> None:
        """Forgets every object; loads under way end, but are not kept. The counters run on."""
        with self._lock:
            self._objects.clear()
            self._under_way.clear()

    @property
    def capacity(self) -> int:
        """Weight of all objects together, at most."""
        return self._objects.capacity

    @property
    def weight(self) -> int:
        """Bytes of all objects that are kept."""
        with self._lock:
            return self._objects.weight

    def shrink(self, weight: int) -> None:
        """Drops objects until the rest weighs no more than ``weight``, since others need the memory."""
        with self._lock:
            self._objects.shrink(weight)

    def statistics(self) -> CacheState:
        """The counters, all of one moment."""
        capacity = self._objects.capacity if self._shared is None else self._shared.reach(self.name)
        with self._lock:
            return CacheState(
                entries=len(self._objects),
                bytes=self._objects.weight,
                in_flight=self._claimed,
                capacity=capacity,
                hits=self._hits,
                misses=self._misses,
                evictions=self._objects.evictions,
                rejected=self._objects.rejected,
                waits=self._waits,
            )

    def _settle(self) -> None:
        if self._shared is not None:
            self._shared.settle()

    def _sort_out(
        self, wanted: Mapping[Key, int], found: dict[Key, Item], most: int
    ) -> tuple[dict[Key, _Flight[Item]], list[_Batch[Key, Item]]]:
        """Puts what is kept into ``found``; tells who loads what, and registers this thread for the rest."""
        others: dict[Key, _Flight[Item]] = {}
        batches: list[_Batch[Key, Item]] = []
        already = len(found)
        for key, expected in wanted.items():
            weighed = self._objects.get(key)
            if weighed is not None:
                found[key] = weighed.item
            elif key in self._under_way:
                others[key] = self._under_way[key]
            else:
                self._misses += 1
                if not batches or batches[-1].expected + expected > most:
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
        account: Account | None,
    ) -> None:
        for position, batch in enumerate(batches):
            try:
                loaded = self._load(batch, load_missing, account)
            except BaseException as error:
                for failed in batches[position:]:
                    with self._lock:
                        self._land(failed)
                    failed.flight.set_exception(error)
                raise
            batch.flight.set_result(loaded)
            found.update(loaded)

    def _load(
        self,
        batch: _Batch[Key, Item],
        load_missing: Callable[[Sequence[Key]], Iterable[Item]],
        account: Account | None,
    ) -> dict[Key, Item]:
        LEDGER.require(batch.expected, f"a load for {self.name}")
        with nullcontext() if account is None else account.claim(batch.expected):
            with self._lock:
                self._claimed += batch.expected
            loaded: dict[Key, Weighed[Item]] = {}
            try:
                for key, item in zip(batch.keys, load_missing(batch.keys), strict=True):
                    loaded[key] = Weighed(item, self._weigh(item))
            finally:
                with self._lock:
                    self._claimed -= batch.expected
                    # Where a load fails, what came before the failure is whole nevertheless.
                    for key in self._land(batch):
                        if key in loaded:
                            self._objects.keep(key, loaded[key])
                self._settle()
        return {key: weighed.item for key, weighed in loaded.items()}

    def _land(self, batch: _Batch[Key, Item]) -> list[Key]:
        """Takes the keys of a load off the list; those that clear() had not taken off before."""
        landed = [key for key in batch.keys if self._under_way.get(key) is batch.flight]
        for key in landed:
            del self._under_way[key]
        return landed


def _collect(others: Mapping[Key, _Flight[Item]], found: dict[Key, Item]) -> list[Key]:
    """Waits for the loads of other threads; the keys of those whose request could wait no longer."""
    spent = []
    for key, flight in others.items():
        try:
            found[key] = wait_for(flight)[key]
        except (DeadlineExceededError, MemoryShortError):
            check_deadline()
            spent.append(key)
    return spent


class _Batch(Generic[Key, Item]):
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.expected = 0
        self.flight: _Flight[Item] = Future()

"""Which objects a full cache keeps: those that are asked for often, whatever streams past them.

A small *window* takes every newcomer, and what was used longest ago leaves it. The *main* part takes what
leaves the window, and once it is full only in exchange for objects that are asked for clearly less. So a scan
over more than fits runs through the window and leaves the main part as it is.

This is W-TinyLFU (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission Policy") with exact
counts instead of a sketch; docs/decisions/memory.md says why it is written here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import cachetools

Item = TypeVar("Item")
Key = TypeVar("Key", bound="Hashable")

_WINDOW_SHARE = 8
# A scan that goes round and round asks for each object equally often, give or take one. A lead of one says
# only who came last; it must not decide, or a scan would push out itself.
_DECISIVE_LEAD = 2
_ASKS_PER_ENTRY = 4
_FEWEST_ASKS = 1 << 10
_MOST_ASKS = 1 << 17


@dataclass(frozen=True, slots=True)
class Weighed(Generic[Item]):
    """An object with the bytes of memory that it takes."""

    item: Item
    weight: int


class Asks:
    """How often each key was asked for lately.

    Counts live for one to two periods: a period ends after some asks, and what was counted in the period
    before it is forgotten. A key is remembered by its hash, so that keys are not kept alive.
    """

    def __init__(self) -> None:
        self._present: Counter[int] = Counter()
        self._before: Counter[int] = Counter()
        self._asks = 0

    def count(self, keys: Collection[Hashable], entries: int) -> None:
        """Counts an ask for each key, of a cache that keeps so many ``entries``."""
        self._present.update(map(hash, keys))
        self._asks += len(keys)
        if self._asks >= min(max(entries * _ASKS_PER_ENTRY, _FEWEST_ASKS), _MOST_ASKS):
            self._before, self._present, self._asks = self._present, Counter(), 0

    def of(self, key: Hashable) -> int:
        """The asks that are remembered."""
        digest = hash(key)
        return self._present[digest] + self._before[digest]


class AdmittingCache(Generic[Item]):
    """Objects by key, up to a weight; not safe for several threads at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._window_bytes = capacity // _WINDOW_SHARE
        self.evictions = 0
        self.rejected = 0
        self._main_bytes = capacity - self._window_bytes
        self._asks = Asks()
        self._window = _Segment[Item](capacity)
        self._main = _Segment[Item](self._main_bytes)

    def __len__(self) -> int:
        return len(self._window) + len(self._main)

    @property
    def weight(self) -> int:
        """Of all objects that are kept."""
        return int(self._window.currsize + self._main.currsize)

    def get(self, key: Hashable) -> Weighed[Item] | None:
        """The object of ``key``, if it is kept; the ask is counted in any case."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Collection[Key]) -> dict[Key, Weighed[Item]]:
        """The objects that are kept of those asked for; each ask is counted in any case."""
        self._asks.count(keys, len(self))
        found: dict[Key, Weighed[Item]] = {}
        for segment in (self._main, self._window):
            found.update((key, segment[key]) for key in keys if key in segment)
        return found

    def keep(self, key: Hashable, weighed: Weighed[Item]) -> None:
        """Keeps an object, or not.

        An object whose key is kept already takes the place of the one before it.
        """
        previous = self._main.pop(key, None)
        self._window.pop(key, None)
        left = self.capacity - weighed.weight
        if previous is not None and weighed.weight <= self._main_bytes:
            self._let_grow(key, weighed)
            return
        if left >= 0:
            self._make_room(left)
            if self.weight <= left:
                self._window[key] = weighed
                self._spill()
                return
            if self._admit(key, weighed, self._main_bytes):
                return
        self.rejected += 1

    def shrink(self, weight: int) -> None:
        """Drops what was used longest ago, newcomers first, until the rest weighs no more than ``weight``."""
        for segment in (self._window, self._main):
            while self.weight > weight and segment:
                segment.popitem()
                self.evictions += 1

    def clear(self) -> None:
        """Forgets all objects, though not what was asked for."""
        self._window.clear()
        self._main.clear()

    def _make_room(self, room: int) -> None:
        """Takes objects out of the window until all weigh at most ``room``, or the window is empty."""
        while self.weight > room and self._window:
            if not self._admit(*self._window.popitem(), room):
                self.rejected += 1

    def _let_grow(self, key: Hashable, grown: Weighed[Item]) -> None:
        """Keeps the larger form of what was admitted before, at the cost of what is used least."""
        while self._main.currsize + grown.weight > self._main_bytes:
            self._main.popitem()
            self.evictions += 1
        self._main[key] = grown
        self._make_room(self.capacity)

    def _spill(self) -> None:
        """Lets what is too much for the window go on to the main part, or stay if nobody needs the room."""
        while self._window.currsize > self._window_bytes:
            oldest, weighed = self._window.popitem()
            if not self._admit(oldest, weighed, self._main_bytes):
                self._window[oldest] = weighed
                return

    def _admit(self, key: Hashable, candidate: Weighed[Item], room: int) -> bool:
        """Takes an object into the main part, if it leads each of those that must go for it.

        The main part then weighs at most ``room``, if it did before.
        """
        left = min(room, self._main_bytes) - candidate.weight
        if left < 0:
            return False
        asks = self._asks.of(key)
        victims: list[tuple[Hashable, Weighed[Item]]] = []
        while self._main.currsize > left:
            victims.append(self._main.popitem())
            if asks < self._asks.of(victims[-1][0]) + _DECISIVE_LEAD:
                # They come back as used last, so that the next candidate is compared with others: what was
                # popular long ago cannot stand in the way of all newcomers.
                self._main.update(victims)
                return False
        self.evictions += len(victims)
        self._main[key] = candidate
        return True


class _Segment(cachetools.LRUCache["Hashable", Weighed[Item]]):
    def __init__(self, capacity: int) -> None:
        super().__init__(maxsize=capacity, getsizeof=lambda weighed: weighed.weight)

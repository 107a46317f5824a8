"""Which objects a full cache keeps: those that are asked for often, whatever streams past them.

A small *window* takes every newcomer and forgets what was used longest ago; the *main* part takes what leaves
the window, and once it is full only in exchange for objects that are asked for clearly less. So a scan over
more than fits runs through the window and leaves the main part as it is. The window is also the room that
loads under way may claim: it can always be emptied, the main part is never emptied for what may not be kept.

This is W-TinyLFU (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission Policy") with exact
counts instead of a sketch; docs/decisions/scan-resistant-caches.md says why it is written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import cachetools

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Item = TypeVar("Item")

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
        self._present: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._asks = 0

    def count(self, key: Hashable, entries: int) -> None:
        """Counts one ask, of a cache that keeps so many ``entries``."""
        digest = hash(key)
        self._present[digest] = self._present.get(digest, 0) + 1
        self._asks += 1
        if self._asks >= min(max(entries * _ASKS_PER_ENTRY, _FEWEST_ASKS), _MOST_ASKS):
            self._before, self._present, self._asks = self._present, {}, 0

    def of(self, key: Hashable) -> int:
        """The asks that are remembered."""
        digest = hash(key)
        return self._present.get(digest, 0) + self._before.get(digest, 0)


class AdmittingCache(Generic[Item]):
    """Objects by key, up to a weight; not safe for several threads at once.

    An object heavier than the window goes for the main part at once. The main part takes room of the window
    that nobody uses, until somebody does.

    Args:
        capacity: weight of all objects together.

    Attributes:
        capacity: the same.
        window_bytes: the part of it that newcomers pass through, and that loads under way may always claim.
        evictions: objects dropped to make room.
        rejected: objects dropped because what they would have pushed out is asked for more.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.evictions = 0
        self.rejected = 0
        self.window_bytes = capacity // _WINDOW_SHARE
        self._main_bytes = capacity - self.window_bytes
        self._asks = Asks()
        self._window = _Segment[Item](capacity)
        self._main = _Segment[Item](capacity)

    def __len__(self) -> int:
        return len(self._window) + len(self._main)

    @property
    def weight(self) -> int:
        """Of all objects that are kept."""
        return int(self._window.currsize + self._main.currsize)

    @property
    def protected(self) -> int:
        """The weight of objects that :meth:`make_room` does not drop."""
        return min(int(self._main.currsize), self._main_bytes)

    def get(self, key: Hashable) -> Weighed[Item] | None:
        """The object of ``key``, if it is kept; the ask is counted in any case."""
        self._asks.count(key, len(self))
        found = self._main.get(key)
        return self._window.get(key) if found is None else found

    def make_room(self, room: int) -> None:
        """Drops objects until they weigh at most ``room`` together, or only protected ones are left."""
        while self.weight > room:
            segment = self._main if self._main.currsize > self._main_bytes else self._window
            if not segment:
                return
            segment.popitem()
            self.evictions += 1

    def keep(self, key: Hashable, weighed: Weighed[Item], room: int) -> None:
        """Keeps an object, or not; what is kept then weighs at most ``room``, if it did before.

        An object whose key is kept already takes the place of the one before it.
        """
        held = self._main.pop(key, None)
        self._window.pop(key, None)
        left = room - weighed.weight
        if left < 0:
            self.rejected += 1
        elif held is not None:
            self._let_grow(key, weighed, left)
        elif weighed.weight > self.window_bytes:
            self._admit(key, weighed, room)
        else:
            self._keep_light(key, weighed, room)

    def clear(self) -> None:
        """Forgets all objects, though not what was asked for."""
        self._window.clear()
        self._main.clear()

    def _let_grow(self, key: Hashable, grown: Weighed[Item], left: int) -> None:
        """Keeps the larger form of what was admitted before, at the cost of what is used least."""
        self.make_room(left)
        while self.weight > left:
            self._main.popitem()
            self.evictions += 1
        self._main[key] = grown

    def _keep_light(self, key: Hashable, newcomer: Weighed[Item], room: int) -> None:
        left = room - newcomer.weight
        while self._window.currsize + newcomer.weight > self.window_bytes:
            self._admit(*self._window.popitem(), left)
        self.make_room(left)
        if self.weight <= left:
            self._window[key] = newcomer
        else:
            # Loads under way claim the whole window.
            self._admit(key, newcomer, room)

    def _admit(self, key: Hashable, candidate: Weighed[Item], room: int) -> None:
        """Takes an object into the main part, if it leads each of those that must go for it."""
        asks = self._asks.of(key)
        victims: list[tuple[Hashable, Weighed[Item]]] = []
        while self.weight + candidate.weight > room and self._main:
            victims.append(self._main.popitem())
            if asks < self._asks.of(victims[-1][0]) + _DECISIVE_LEAD:
                self.rejected += 1
                self._restore(victims)
                return
        self.evictions += len(victims)
        self.make_room(room - candidate.weight)
        self._main[key] = candidate

    def _restore(self, victims: Sequence[tuple[Hashable, Weighed[Item]]]) -> None:
        # They come back as used last, so that the next candidate is compared with others: an object that was
        # popular long ago cannot stand in the way of all newcomers.
        for key, victim in victims:
            self._main[key] = victim


class _Segment(cachetools.LRUCache["Hashable", Weighed[Item]]):
    """Weighs its objects by what they say; its owner sees to it that they fit."""

    def __init__(self, capacity: int) -> None:
        super().__init__(maxsize=capacity, getsizeof=lambda weighed: weighed.weight)

"""Room that several caches share: what one leaves empty, others may fill.

Each cache has a share of the room. It may hold more as long as all of them together fit. Once they do not,
those that hold more than their share give way, the one first that is furthest beyond it; so a cache that
holds no more than its share never gives way to others.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol


class Sharing(Protocol):
    """A cache that holds objects in shared room."""

    @property
    def taken(self) -> int:
        """Bytes of the objects that are kept, and of loads under way."""
        ...

    def give_back(self, size: int) -> None:
        """Lets go of objects of at least so many bytes together, those first that are used least."""
        ...


class SharedRoom:
    """The room of some caches.

    Args:
        shares: bytes of each cache, by its name.

    Attributes:
        capacity: bytes of all shares.
    """

    def __init__(self, shares: Mapping[str, int]) -> None:
        self.capacity = sum(shares.values())
        self._shares = dict(shares)
        self._caches: dict[str, Sharing] = {}
        self._settling = threading.Lock()

    def add(self, name: str, cache: Sharing) -> None:
        """Lets a cache into the room, of which it has a share."""
        self._caches[name] = cache

    def reach(self, name: str) -> int:
        """What a cache can hold at the moment without another giving way, or its share if that is more."""
        others = sum(cache.taken for each, cache in self._caches.items() if each != name)
        return max(self._shares[name], self.capacity - others)

    def settle(self) -> None:
        """Has caches give way until all fit again; of several threads one sees to it."""
        if not self._settling.acquire(blocking=False):
            return
        try:
            taken = {name: cache.taken for name, cache in self._caches.items()}
            excess = sum(taken.values()) - self.capacity
            beyond = {name: size - self._shares[name] for name, size in taken.items()}
            for name in sorted(beyond, key=beyond.__getitem__, reverse=True):
                if excess <= 0 or beyond[name] <= 0:
                    return
                given = min(excess, beyond[name])
                self._caches[name].give_back(given)
                excess -= given
        finally:
            self._settling.release()

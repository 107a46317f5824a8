"""The ledger of a process's memory: who may use how much for what, who gives way, and who is refused.

Work claims memory from an account before it uses it:

========= ============================================== =================================================
account   what is claimed                                when
========= ============================================== =================================================
bodies    request bodies, as far as they have arrived    while they arrive; nobody waits for room
loads     objects that are loaded for a cache            before the load, as far as their size is known
reads     files, and ranges of files, that are read      before the read
decoding  what files expand to                           step by step, while they are decoded
========= ============================================== =================================================

Each warehouse has accounts of its own for loads and reads, so that a storage that hangs holds no room that
others need. The rules are the same for all accounts:

* A claim that fits into the limit is granted, after those that have waited for longer.
* The eldest claim of an account never waits for others of it: it goes over the account's limit rather than
  stand still with what it holds. So claims do not wait for each other, and one larger than that is granted.
* All claims, granted and not yet used ones too, stay within what the process has beside itself; caches give
  way to them. Work that holds claims and lacks such room is refused at once, as others may wait for what it
  holds; work whose claims can never fit is told so.
* A claim that has waited for two thirds of the time that its request has left is refused. Work without a
  deadline waits for as long as it takes.
* Whoever holds a claim may claim from the accounts further down in the table, never from the same or one
  further up.

Accounts bound what is known beforehand. What counts in the end is resident memory as the system sees it:
caches, work under way, bodies, answers on their way, and what the allocator has not returned. Pages of mapped
files do not count, since the system takes them back when it needs memory.

============================ =============================================================================
resident memory              what happens
============================ =============================================================================
much more than was in use    the allocator returns what was freed
above ``SHRINK`` of the limit caches drop objects, those first that are asked for least
above ``REFUSE`` of the limit large claims and loads of caches are refused until there is some again
============================ =============================================================================
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from app.errors import LimitExceededError, MemoryShortError
from app.observation import bound
from app.work.cores import waiting
from app.work.deadline import GLANCE_SECONDS, check_deadline, remaining_seconds
from app.work.memory import give_memory_back, resident_bytes

SHRINK: Final = 0.8
REFUSE: Final = 0.9

DEFAULT_BYTES: Final = 256 << 20
"""Of an account, where nobody has divided the memory."""

_SHARE_OF_DEADLINE: Final = 2 / 3
_LARGE_BYTES: Final = 8 << 20
"""Smaller claims do not take a process over its limit before somebody looks at it again."""

_LOOK_SECONDS: Final = 0.25
_TRIM_BYTES: Final = 64 << 20
# Returning memory takes longer the more there is of it, and what was returned has to be got again.
_TRIM_SECONDS: Final = 5.0
_RELIEF_SECONDS: Final = 0.2
# More than this beside what caches hold may be memory that was freed.
_LOOSE: Final = 1.2
_LOOSE_BYTES: Final = 160 << 20
_LOOSE_SECONDS: Final = 10.0


class Shrinkable(Protocol):
    """A cache: it holds memory that others may need more."""

    @property
    def weight(self) -> int:
        """Bytes that it holds."""
        ...

    def shrink(self, weight: int) -> None:
        """Drops objects until the rest weighs no more than this."""
        ...


@dataclass(slots=True)
class _Held:
    """What a piece of work and the threads that help it have claimed, from any account."""

    size: int = 0


_held: ContextVar[_Held | None] = ContextVar("held", default=None)


class Ledger:
    """The memory of one process; its limit is in bytes, 0 for none.

    ``own``: what the process takes beside caches and claims.
    """

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        self.limit = 0
        self.own = 0
        self.refusals = 0
        self.shrinks = 0
        self._resident = resident
        self._lock = threading.Lock()
        self._caches: weakref.WeakSet[Shrinkable] = weakref.WeakSet()
        self._accounts: weakref.WeakSet[Account] = weakref.WeakSet()
        self._relieved_at = self._trimmed_at = float("-inf")
        self._after_trim = 0
        self._watch: threading.Thread | None = None

    @property
    def resident(self) -> int:
        """Bytes of resident memory at this moment."""
        return self._resident()

    @property
    def cached(self) -> int:
        """Bytes of all caches, as they weigh them."""
        return sum(cache.weight for cache in list(self._caches))

    @property
    def claimed(self) -> Mapping[str, int]:
        """Bytes that are claimed, by the names of accounts."""
        total: Counter[str] = Counter()
        for account in list(self._accounts):
            total[account.name] += account.claimed
        return total

    def add(self, cache: Shrinkable) -> None:
        """Registers a cache; it is forgotten with the object."""
        with self._lock:
            self._caches.add(cache)

    def account(self, name: str, limit: int = DEFAULT_BYTES, *, waits: bool = True) -> Account:
        """A new account.

        Args:
            name: what errors and metrics call it; several may have the same.
            limit: bytes of all claims together, but for what the eldest takes beyond it.
            waits: whether a claim waits for room, or is refused at once.
        """
        account = Account(self, name, limit, waits=waits)
        with self._lock:
            self._accounts.add(account)
        return account

    def keep_within(self, limit: int, own: int) -> None:
        """Sets the limit, and from now on sees to it in a thread of its own."""
        with self._lock:
            self.limit, self.own = limit, own
            if self._watch is None:
                self._watch = threading.Thread(target=self._look_on, name="memory", daemon=True)
                self._watch.start()

    def require(self, size: int, what: str) -> None:
        """Does nothing where the process has memory for ``size`` bytes more.

        Raises:
            LimitExceededError: the process can never have so much.
            MemoryShortError: the process would leave its limit.
        """
        self.require_possible(size, what)
        if not self.limit or self._resident() + size <= self.limit * REFUSE:
            return
        self._relieve(size)
        resident = self._resident()
        if resident + size > self.limit * REFUSE:
            raise self.refusal(what, size, resident, self.limit)

    def require_possible(self, size: int, what: str) -> None:
        """Does nothing where the process could have ``size`` bytes if all others were done.

        Raises:
            LimitExceededError: it never can.
        """
        if size > self.limit * REFUSE - self.own and self.limit:
            raise LimitExceededError(
                f"{size} bytes for {what} are more than a process of {self.limit} bytes may use, unless the "
                "operator raises PAIMON_INDEX_MEMORY_BYTES",
                limit=self.limit,
            )

    def has_room(self, size: int) -> bool:
        """Whether ``size`` bytes fit beside all claims, used or not; caches make room."""
        if not self.limit:
            return True
        claimed = sum(account.claimed for account in list(self._accounts))
        room = int(self.limit * REFUSE) - self.own - claimed - size
        if room < 0:
            return False
        cached = self.cached
        if cached > room:
            self.shrinks += 1
            for cache in list(self._caches):
                cache.shrink(cache.weight * room // cached)
        return True

    def refusal(self, what: str, size: int, used: int, limit: int) -> MemoryShortError:
        """The error of a claim that is refused, which is counted."""
        self.refusals += 1
        return MemoryShortError(
            f"memory is short: {size} bytes for {what} do not fit beside the {used} in use, of {limit}; "
            "ask again in a moment"
        )

    def look(self) -> None:
        """Returns memory to the system and makes caches smaller, where that is due."""
        resident = self._resident()
        if self.limit and resident > self.limit * SHRINK:
            self._relieve(0)
            return
        self._after_trim = min(self._after_trim, resident) or resident
        since = time.monotonic() - self._trimmed_at
        has_grown = resident - self._after_trim > _TRIM_BYTES
        # What caches let go of is still resident, without any growth.
        is_loose = resident > _LOOSE * self.cached + _LOOSE_BYTES
        if (since > _TRIM_SECONDS and has_grown) or (since > _LOOSE_SECONDS and is_loose):
            self._trim()

    def _relieve(self, size: int) -> None:
        """Makes room for ``size`` bytes; at most one thread at a time, and not over and over again."""
        with self._lock:
            if time.monotonic() - self._relieved_at < _RELIEF_SECONDS:
                return
            self._trim()
            excess = self._resident() + size - int(self.limit * SHRINK)
            cached = self.cached
            if excess > 0 and cached:
                self.shrinks += 1
                # What an object holds goes back to the system in whole pages only, so more has to go.
                left = max(0.0, 1 - 1.5 * excess / cached)
                for cache in list(self._caches):
                    cache.shrink(int(cache.weight * left))
                self._trim()
            self._relieved_at = time.monotonic()

    def _trim(self) -> None:
        give_memory_back()
        self._after_trim = self._resident()
        self._trimmed_at = time.monotonic()

    def _look_on(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            # Whatever goes wrong in one look, the next is taken.
            with suppress(Exception):
                self.look()


class Account:
    """Memory that may be used for one purpose; made by :meth:`Ledger.account`."""

    def __init__(self, ledger: Ledger, name: str, limit: int, *, waits: bool) -> None:
        self.name = name
        self.limit = limit
        self.claimed = 0
        self._ledger = ledger
        self._waits = waits
        self._changed = threading.Condition()
        # In the order of their coming; the values are not used.
        self._claims: dict[Claim, None] = {}
        self._waiting: dict[Claim, None] = {}

    @property
    def waiting(self) -> int:
        """How many claims wait for room."""
        return len(self._waiting)

    @contextmanager
    def claim(self, size: int = 0) -> Iterator[Claim]:
        """A claim of ``size`` bytes, which may grow and ends with the block.

        Raises:
            MemoryShortError: there was no room in time, or the process would leave its limit.
        """
        held = _held.get() or _Held()
        claim = Claim(self, held)
        with self._changed:
            self._claims[claim] = None
        try:
            # Bodies are claimed by coroutines, which may end in another context; nothing else is below them.
            with bound(_held, held) if self._waits else nullcontext():
                claim.grow_to(size)
                yield claim
        finally:
            with self._changed:
                del self._claims[claim]
                self.claimed -= claim.size
                held.size -= claim.size
                self._changed.notify_all()

    def grow(self, claim: Claim, size: int) -> None:
        """Adds ``size`` bytes to a claim, once there is room; errors are those of :meth:`claim`."""
        if size >= _LARGE_BYTES:
            self._ledger.require(size, self.name)
        with self._changed:
            if self._is_granted(claim, size):
                return
            if not self._waits:
                raise self._refusal(size)
        self._ledger.require_possible(claim.held.size + size, self.name)
        if claim.held.size and not self._ledger.has_room(size):
            raise self._refusal(size)
        check_deadline()
        remaining = remaining_seconds()
        patience = math.inf if remaining is None else remaining * _SHARE_OF_DEADLINE
        until = time.monotonic() + patience
        # The slot is given away before the lock is taken, and taken back after the lock is let go.
        with waiting(), self._changed:
            self._waiting[claim] = None
            try:
                while not self._is_granted(claim, size):
                    left = until - time.monotonic()
                    if left <= 0:
                        raise self._refusal(size)
                    check_deadline()
                    self._changed.wait(min(left, GLANCE_SECONDS))
            finally:
                del self._waiting[claim]
                self._changed.notify_all()

    def _is_granted(self, claim: Claim, size: int) -> bool:
        """Whether it is the claim's turn and there is room, which it takes; the caller holds the lock."""
        is_eldest = next(iter(self._claims)) is claim
        is_next = next(iter(self._waiting), claim) is claim
        if not is_eldest and not (is_next and self.claimed + size <= self.limit):
            return False
        if not self._ledger.has_room(size):
            return False
        self.claimed += size
        claim.size += size
        claim.held.size += size
        return True

    def _refusal(self, size: int) -> MemoryShortError:
        return self._ledger.refusal(self.name, size, self.claimed, self.limit)


class Claim:
    """What one piece of work has claimed from an account; of one thread alone."""

    def __init__(self, account: Account, held: _Held) -> None:
        self.size = 0
        self.held = held
        self._account = account

    def grow_to(self, total: int) -> None:
        """Claims as much as is missing to ``total`` bytes; a claim never shrinks before its end."""
        if total > self.size:
            self._account.grow(self, total - self.size)


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
        others = sum(cache.weight for each, cache in self._caches.items() if each != name)
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


LEDGER: Final = Ledger()
"""That of this process, which has only one."""

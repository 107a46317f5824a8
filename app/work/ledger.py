"""The ledger of a process's memory: who may use how much for what, who gives way, and who is refused.

Work claims memory before it uses it, in one line for all warehouses:

========= ============================================== =================================================
purpose   what is claimed                                when
========= ============================================== =================================================
bodies    request bodies, and what is made of them       while they arrive, and before they are parsed
loads     objects that are loaded for a cache            before the load, as far as their size is known
reads     files, and ranges of files, that are read      before the read
decoding  what files expand to                           step by step, while they are decoded
plans     the files of a plan, and what explains them    before they are put together, until the plan is
                                                         answered or kept by a cache
========= ============================================== =================================================

* All claims together, granted and not yet used ones too, stay within the *room*: ``REFUSE`` of the limit
  less what the process takes itself. Caches give way to them. What is larger than the room is told so.
* Work that holds no claim waits until two thirds of the time that its request has left are over; without a
  deadline, for a minute. Each warehouse has a line. One of which nothing is claimed may take all
  that is left; others take no more than half of what the rest leave of half of the room, so that a storage
  that hangs does not hold what others need, and what is begun has room to grow.
* Work that holds a claim may claim more of the room, and is refused at once where there is none.

Nobody waits in a circle: who waits for room holds none, and who waits for another's load of a cache holds
none either, since memory is claimed by who loads. So what is held is held by work that goes on to its end.

Claims bound what is known beforehand. What counts in the end is resident memory as the system sees it:
caches, work under way, bodies, answers on their way, and what the allocator has not returned. Pages of mapped
files do not count, since the system takes them back when it needs memory.

============================ =============================================================================
resident memory              what happens
============================ =============================================================================
much more than was in use    the allocator returns what was freed
above ``SHRINK`` of the limit caches drop objects, what was used in the last minute last
above ``REFUSE`` of the limit large claims wait, or are refused where they may not wait
============================ =============================================================================
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from app.errors import LimitExceededError, MemoryShortError
from app.observation import bound
from app.work.cores import waiting
from app.work.deadline import GLANCE_SECONDS, check_deadline, remaining_seconds
from app.work.memory import give_memory_back, resident_bytes

SHRINK: Final = 0.8
REFUSE: Final = 0.9

RECENT_SECONDS: Final = 60.0
"""What caches were asked for so lately gives way last."""

Purpose: TypeAlias = Literal["bodies", "loads", "reads", "decoding", "plans"]

_SHARE_OF_DEADLINE: Final = 2 / 3
_PATIENCE_SECONDS: Final = 60.0
"""Of work without a deadline."""
_MOST_BEGUN_BYTES: Final = 512 << 20
"""More that is begun side by side finishes no sooner."""
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

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:
        """Drops what was used longest ago, if not used for so long, until the rest weighs no more."""
        ...


@dataclass(slots=True)
class _Held:
    """What a piece of work and the threads that help it have claimed."""

    size: int = 0


_held: ContextVar[_Held | None] = ContextVar("held", default=None)


def apart() -> AbstractContextManager[None]:
    """Claims in the block are those of a piece of work of its own, unless this one holds memory."""
    held = _held.get()
    return bound(_held, held if held is not None and held.size else None)


@dataclass(slots=True, eq=False)
class Claim:
    """What one piece of work has claimed for one purpose; of one thread alone."""

    ledger: Ledger
    purpose: Purpose
    path: str
    line: str
    most: int | None
    held: _Held
    size: int = 0

    def grow_to(self, total: int) -> None:
        """Claims as much as is missing to ``total`` bytes; a claim never shrinks before its end."""
        if total > self.size:
            self.ledger.grow(self, total - self.size)

    def outlive(self, owner: object) -> Callable[[], object]:
        """Transfers the claim to ``owner``; it ends when ``owner`` is collected or the result is called."""
        left = Claim(self.ledger, self.purpose, self.path, self.line, self.most, _Held(self.size), self.size)
        self.held.size -= self.size
        self.size = 0
        # An owner may be forgotten anywhere, in a cache that holds its lock too: nothing is waited for there.
        release = weakref.finalize(owner, self.ledger.ended.append, left)
        # A process that ends has nobody to give memory to.
        release.atexit = False
        return release

    def owning(self) -> AbstractContextManager[None]:
        """What is claimed in the block is claimed by the same piece of work."""
        return bound(_held, self.held)

    def __str__(self) -> str:
        return f"{self.purpose} of {self.path}" if self.path else self.purpose


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
        self._changed = threading.Condition()
        self._total = 0
        self._by_purpose: Counter[str] = Counter()
        self._by_line: Counter[str] = Counter()
        # In the order of their coming; the values are not used.
        self._waiting: dict[Claim, None] = {}
        self.ended: deque[Claim] = deque()
        """Claims whose owners are gone, which are not given back yet."""
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
        """Bytes that are claimed, by purpose."""
        with self._changed:
            self._give_back()
            return dict(self._by_purpose)

    @property
    def waiting(self) -> int:
        """How many claims wait for room."""
        return len(self._waiting)

    @property
    def room(self) -> float:
        """Bytes of all claims together, at most."""
        return int(self.limit * REFUSE) - self.own if self.limit else math.inf

    @property
    def portion(self) -> int:
        """Bytes of one of several pieces of work of a line that can be under way side by side."""
        return self._begun // 8

    @property
    def _begun(self) -> int:
        """Bytes of all that begins while other work of its line is under way, together."""
        return int(max(0, min(self.room / 2, _MOST_BEGUN_BYTES)))

    def add(self, cache: Shrinkable) -> None:
        """Registers a cache; it is forgotten with the object."""
        with self._lock:
            self._caches.add(cache)

    def keep_within(self, limit: int, own: int) -> None:
        """Sets the limit, and from now on sees to it in a thread of its own."""
        with self._lock:
            self.limit, self.own = limit, own
            if self._watch is None:
                self._watch = threading.Thread(target=self._look_on, name="memory", daemon=True)
                self._watch.start()

    @contextmanager
    def claim(
        self,
        purpose: Purpose,
        size: int = 0,
        *,
        path: str = "",
        line: str = "",
        most: int | None = None,
    ) -> Iterator[Claim]:
        """A claim of ``size`` bytes, which may grow and ends with the block.

        Args:
            path: the file that it is for, where there is one.
            line: whose part of the room it takes: a warehouse's, as a rule.
            most: bytes of all claims for this purpose, but for a single one; what is more is refused at once.
                For coroutines, which may not wait, and whose callers may be slow.

        Raises:
            LimitExceededError: there can never be room.
            MemoryShortError: there was none in time, or the process would leave its limit.
        """
        # Coroutines may end in another context; no other claim is below theirs.
        held = (_held.get() if most is None else None) or _Held()
        claim = Claim(self, purpose, path, line, most, held)
        try:
            with bound(_held, held) if most is None else nullcontext():
                claim.grow_to(size)
                yield claim
        finally:
            self.end(claim)

    def end(self, claim: Claim) -> None:
        """Gives back what is claimed."""
        with self._changed:
            self._count(claim, -claim.size)
            self._changed.notify_all()

    def grow(self, claim: Claim, size: int) -> None:
        """Adds ``size`` bytes to a claim, once there is room; errors are those of :meth:`claim`."""
        total = claim.held.size + size
        if total > self.room:
            raise LimitExceededError(
                f"{total} bytes for {claim} are more than a process of {self.limit} bytes may use, unless "
                "the operator raises PAIMON_INDEX_MEMORY_BYTES",
                limit=self.limit,
            )
        if claim.held.size or claim.most is not None:
            # Many small steps make a large claim.
            if (claim.size + size) // _LARGE_BYTES > claim.size // _LARGE_BYTES:
                self.require(claim, size)
            with self._changed:
                if self._is_granted(claim, size):
                    return
                # What other threads of this piece of work had claimed may have ended meanwhile.
                if claim.held.size or claim.most is not None:
                    raise self._refusal(claim, size, self._total)
        with self._changed:
            if self._is_roomy(size) and self._is_granted(claim, size):
                return
        check_deadline()
        remaining = remaining_seconds()
        seconds = _PATIENCE_SECONDS if remaining is None else remaining * _SHARE_OF_DEADLINE
        # The core is given away before the lock is taken, and taken back after the lock is let go.
        with waiting():
            self._wait(claim, size, time.monotonic() + seconds)

    def _wait(self, claim: Claim, size: int, until: float) -> None:
        """Has a claim stand in line until it is granted."""
        with self._changed:
            self._waiting[claim] = None
        try:
            while True:
                if not self._is_roomy(size):
                    self._relieve(size)
                with self._changed:
                    is_roomy = self._is_roomy(size)
                    if is_roomy and self._is_granted(claim, size):
                        return
                    left = until - time.monotonic()
                    if left <= 0:
                        raise self._refusal(claim, size, self._total if is_roomy else self._resident())
                    self._changed.wait(min(left, GLANCE_SECONDS))
                check_deadline()
        finally:
            with self._changed:
                del self._waiting[claim]
                self._changed.notify_all()

    def _is_roomy(self, size: int) -> bool:
        """Whether the process, as it is, has memory for so much more; of little, somebody looks soon."""
        is_small = size < _LARGE_BYTES or not self.limit
        return is_small or self._resident() + size <= self.limit * REFUSE

    def _is_granted(self, claim: Claim, size: int) -> bool:
        """Whether it is the claim's turn and there is room, which it takes; the caller holds the lock."""
        self._give_back()
        ours = self._by_line[claim.line]
        if claim.most is not None:
            of_all = self._by_purpose[claim.purpose]
            may_take = of_all == claim.size or of_all + size <= claim.most
        elif claim.held.size:
            may_take = True
        else:
            first = next((other for other in self._waiting if other.line == claim.line), claim)
            others = self._total - self._by_purpose["plans"] - ours
            left_by_others = self._begun - others
            may_take = first is claim and (not ours or ours + size <= left_by_others // 2)
        if not may_take or self._total + size > self.room:
            return False
        self._count(claim, size)
        if self._total + self.cached > self.room:
            self._shrink_caches(int(self.room) - self._total)
        return True

    def _give_back(self) -> None:
        while self.ended:
            claim = self.ended.popleft()
            self._count(claim, -claim.size)

    def _count(self, claim: Claim, size: int) -> None:
        self._total += size
        self._by_purpose[claim.purpose] += size
        if claim.purpose != "plans":
            # A plan may wait for an index that another thread loads, which must not wait for the plan.
            self._by_line[claim.line] += size
        claim.size += size
        claim.held.size += size

    def _refusal(self, what: object, size: int, used: int) -> MemoryShortError:
        self.refusals += 1
        return MemoryShortError(
            f"memory is short: {size} bytes for {what} do not fit beside the {used} in use; "
            "ask again in a moment"
        )

    def require(self, what: object, size: int = 0) -> None:
        """Raises MemoryShortError unless the process, as it is, has memory for ``size`` bytes more."""
        if not self.limit or self._resident() + size <= self.limit * REFUSE:
            return
        self._relieve(size)
        resident = self._resident()
        if resident + size > self.limit * REFUSE:
            raise self._refusal(what, size, resident)

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
            if excess > 0:
                # What an object holds goes back to the system in whole pages only, so more has to go.
                self._shrink_caches(max(0, self.cached - excess * 3 // 2))
                self._trim()
            self._relieved_at = time.monotonic()

    def _shrink_caches(self, weight: int) -> None:
        """Makes all caches together weigh no more than ``weight``."""
        self.shrinks += 1
        caches = list(self._caches)
        for cache in caches:
            excess = self.cached - weight
            if excess > 0:
                cache.shrink(max(0, cache.weight - excess), unused_seconds=RECENT_SECONDS)
        cached = self.cached
        if cached > weight:
            for cache in caches:
                cache.shrink(cache.weight * weight // cached)

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


LEDGER: Final = Ledger()
"""That of this process, which has only one."""

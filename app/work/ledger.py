"""The ledger of a process's memory: grants, queues and refuses claims, and shrinks caches for them.

Work claims memory before it uses it:

========= ============================================== =================================================
purpose   what is claimed                                when
========= ============================================== =================================================
bodies    request bodies, and objects parsed from them   while they arrive, and before they are parsed
loads     objects loaded into a cache                    before the load, as far as their size is known
reads     files, and ranges of files                     before the read
decoding  expanded files                                 step by step, while they are decoded
plans     a plan's files and explanation, and the rows   before they are put together, rows as they are
          that indexes find                              found, until the plan is answered or cached
========= ============================================== =================================================

A claim ends after its bytes are freed, not with the call that made them. Its block encloses everything that
reads them, and each copy is claimed as well. Before the claim ends, an owner claims the objects that live on,
or a cache weighs them.

* All claims together stay within the *room*: ``REFUSE`` of the limit, less the memory of the process itself.
Caches shrink for claims. A claim beyond the room is refused for good.
* Work without a claim waits, for two thirds of its request's remaining time, or a minute without a deadline.
Each warehouse has a *line* in which its work waits. A line that holds no claims may take all free room. Then
its next work starts only if the line would hold at most half of what other lines leave of *half* the room. So
a hanging store leaves memory to others, and started work can grow.
* Work with a claim may claim more, and is refused at once if there is no room.

This excludes deadlocks: work that waits for room, or for another's load of a cache, holds no claim, so claims
belong to work that can finish.

Claims bound memory in advance. The limit itself is on resident memory as the system counts it, without pages
of mapped files, which the system takes back when it needs memory:

============================= ============================================================================
resident memory               what happens
============================= ============================================================================
much more than was in use     the allocator returns what was freed
above ``SHRINK`` of the limit caches drop objects, those used in the last minute last
above ``REFUSE`` of the limit large claims wait, or are refused if they may not wait
============================= ============================================================================
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
"""Objects used within this many seconds are evicted last."""

Purpose: TypeAlias = Literal["bodies", "loads", "reads", "decoding", "plans"]

_SHARE_OF_DEADLINE: Final = 2 / 3
# Wait of work without a deadline.
_PATIENCE_SECONDS: Final = 60.0
# Starting more work at once does not finish it sooner.
_MOST_BEGUN_BYTES: Final = 512 << 20
# Smaller claims cannot take a process over its limit before the next check of resident memory.
_LARGE_BYTES: Final = 8 << 20

_LOOK_SECONDS: Final = 0.25
_TRIM_BYTES: Final = 64 << 20
# Returning memory takes longer the more there is of it, and it may have to be allocated again.
_TRIM_SECONDS: Final = 5.0
_RELIEF_SECONDS: Final = 0.2
# More than this beyond the caches' bytes may be memory that was freed.
_LOOSE: Final = 1.2
_LOOSE_BYTES: Final = 160 << 20
_LOOSE_SECONDS: Final = 10.0


class Shrinkable(Protocol):
    """A cache that gives memory back."""

    @property
    def weight(self) -> int:
        """Bytes held."""
        ...

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:
        """Evict objects unused for so long, the oldest first, until the rest weighs no more."""
        ...


@dataclass(slots=True)
class _Held:
    """Bytes claimed by a piece of work and the threads that help it."""

    size: int = 0


_held: ContextVar[_Held | None] = ContextVar("held", default=None)


def apart() -> AbstractContextManager[None]:
    """Count claims in the block as those of separate work, unless the present work holds memory."""
    held = _held.get()
    return bound(_held, held if held is not None and held.size else None)


@dataclass(slots=True, eq=False)
class Claim:
    """Memory that one piece of work has claimed for one purpose; not thread-safe."""

    ledger: Ledger
    purpose: Purpose
    path: str
    line: str
    most: int | None
    held: _Held
    size: int = 0

    def grow_to(self, total: int) -> None:
        """Grow the claim to ``total`` bytes. It never shrinks before its end."""
        if total > self.size:
            self.ledger.grow(self, total - self.size)

    def outlive(self, owner: object) -> Callable[[], object]:
        """Transfer the claim to ``owner``. It ends when ``owner`` is collected or the result is called."""
        transferred = Claim(
            self.ledger, self.purpose, self.path, self.line, self.most, _Held(self.size), self.size
        )
        self.held.size -= self.size
        self.size = 0
        # Queued without a lock: the collector may run anywhere, also in a cache that holds its own lock.
        release = weakref.finalize(owner, self.ledger.ended.append, transferred)
        # An ending process need not give memory back.
        release.atexit = False
        return release

    def owning(self) -> AbstractContextManager[None]:
        """Have claims in the block belong to the same piece of work."""
        return bound(_held, self.held)

    def __str__(self) -> str:
        return f"{self.purpose} of {self.path}" if self.path else self.purpose


class Ledger:
    """The memory of one process."""

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
        # In order of arrival. The values are not used.
        self._waiting: dict[Claim, None] = {}
        self.ended: deque[Claim] = deque()
        """Claims of collected owners, not released yet."""
        self._relieved_at = self._trimmed_at = float("-inf")
        self._after_trim = 0
        self._watch: threading.Thread | None = None

    @property
    def resident(self) -> int:
        """Bytes of resident memory now."""
        return self._resident()

    @property
    def cached(self) -> int:
        """Bytes of all caches, by their own weights."""
        return sum(cache.weight for cache in list(self._caches))

    @property
    def claimed(self) -> Mapping[str, int]:
        """Bytes claimed, by purpose."""
        with self._changed:
            self._release_ended()
            return dict(self._by_purpose)

    @property
    def waiting(self) -> int:
        """Number of claims that wait for room."""
        return len(self._waiting)

    @property
    def room(self) -> float:
        """Maximum bytes of all claims together."""
        return int(self.limit * REFUSE) - self.own if self.limit else math.inf

    @property
    def portion(self) -> int:
        """Bytes for one of several claims that a line holds at once."""
        return self._shared_start_bytes // 8

    @property
    def startable(self) -> int:
        """Bytes that new claims of one line may take while it holds others."""
        return self._shared_start_bytes // 2

    @property
    def _shared_start_bytes(self) -> int:
        """Bytes that all lines together may hold while a line that has claims starts another."""
        return int(max(0, min(self.room / 2, _MOST_BEGUN_BYTES)))

    def add(self, cache: Shrinkable) -> None:
        """Register a cache for as long as it lives."""
        with self._lock:
            self._caches.add(cache)

    def keep_within(self, limit: int, own: int) -> None:
        """Set the limit, and start a thread that enforces it. ``own``: bytes besides caches and claims."""
        with self._lock:
            self.limit, self.own = limit, own
            if self._watch is None:
                self._watch = threading.Thread(target=self._look_forever, name="memory", daemon=True)
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
        """Claim ``size`` bytes until the end of the block. The claim may grow.

        ``path``: the file that the memory is for, if any.
        ``line``: the warehouse whose share it counts against.
        ``most``: limit of all claims for this purpose together, which a single claim may exceed. More is
        refused at once. For coroutines, which may not wait, and whose callers may be slow.

        Raises LimitExceededError if the claim is larger than the room. Raises MemoryShortError if no room
        came free in time, or the process would exceed its limit.
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
        """Release a claim."""
        with self._changed:
            self._count(claim, -claim.size)
            self._changed.notify_all()

    def grow(self, claim: Claim, size: int) -> None:
        """Add ``size`` bytes to a claim once there is room. Raises what :meth:`claim` raises."""
        total = claim.held.size + size
        if total > self.room:
            others = claim.held.size - claim.size
            beside = f", beside {others} that its request holds," if others else ""
            raise LimitExceededError(
                f"{total - others} bytes for {claim}{beside} are more than a process of {self.limit} bytes "
                "may use, unless the operator raises PAIMON_INDEX_MEMORY_BYTES",
                limit=self.limit,
            )
        if claim.held.size or claim.most is not None:
            # Many small steps make a large claim.
            if (claim.size + size) // _LARGE_BYTES > claim.size // _LARGE_BYTES:
                self.require(claim, size)
            with self._changed:
                if self._is_granted(claim, size):
                    return
                # Another thread of this work may have released its claims meanwhile: then this one may wait.
                if claim.held.size or claim.most is not None:
                    raise self._refusal(claim, size, self._total)
        with self._changed:
            if self._is_roomy(size) and self._is_granted(claim, size):
                return
        check_deadline()
        remaining = remaining_seconds()
        seconds = _PATIENCE_SECONDS if remaining is None else remaining * _SHARE_OF_DEADLINE
        # Releases the core before the lock is taken: threads that compute may wait for the lock.
        with waiting():
            self._wait(claim, size, time.monotonic() + seconds)

    def _wait(self, claim: Claim, size: int, until: float) -> None:
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
                    remaining = until - time.monotonic()
                    if remaining <= 0:
                        raise self._refusal(claim, size, self._total if is_roomy else self._resident())
                    self._changed.wait(min(remaining, GLANCE_SECONDS))
                check_deadline()
        finally:
            with self._changed:
                del self._waiting[claim]
                self._changed.notify_all()

    def _is_roomy(self, size: int) -> bool:
        """Return True if resident memory leaves room. Small claims pass until the next check."""
        is_small = size < _LARGE_BYTES or not self.limit
        return is_small or self._resident() + size <= self.limit * REFUSE

    def _is_granted(self, claim: Claim, size: int) -> bool:
        """Take room for a claim if it is its turn, and return True if so. The caller holds the lock."""
        self._release_ended()
        own_line = self._by_line[claim.line]
        if claim.most is not None:
            for_purpose = self._by_purpose[claim.purpose]
            may_take = for_purpose == claim.size or for_purpose + size <= claim.most
        elif claim.held.size:
            may_take = True
        else:
            first = next((other for other in self._waiting if other.line == claim.line), claim)
            other_lines = self._total - self._by_purpose["plans"] - own_line
            free_for_line = self._shared_start_bytes - other_lines
            may_take = first is claim and (not own_line or own_line + size <= free_for_line // 2)
        if not may_take or self._total + size > self.room:
            return False
        self._count(claim, size)
        if self._total + self.cached > self.room:
            self._shrink_caches(int(self.room) - self._total)
        return True

    def _release_ended(self) -> None:
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

    def _refusal(self, label: object, size: int, used: int) -> MemoryShortError:
        self.refusals += 1
        return MemoryShortError(
            f"memory is short: {size} bytes for {label} do not fit beside the {used} in use: "
            "ask again in a moment"
        )

    def require(self, label: object, size: int = 0) -> None:
        """Raise MemoryShortError unless resident memory leaves room for ``size`` bytes."""
        if not self.limit or self._resident() + size <= self.limit * REFUSE:
            return
        self._relieve(size)
        resident = self._resident()
        if resident + size > self.limit * REFUSE:
            raise self._refusal(label, size, resident)

    def look(self) -> None:
        """Return memory to the system and shrink caches, as due."""
        resident = self._resident()
        if self.limit and resident > self.limit * SHRINK:
            self._relieve(0)
            return
        self._after_trim = min(self._after_trim, resident) or resident
        since = time.monotonic() - self._trimmed_at
        has_grown = resident - self._after_trim > _TRIM_BYTES
        # Evicted objects stay resident until the allocator returns them, and need no growth to be noticed.
        is_loose = resident > _LOOSE * self.cached + _LOOSE_BYTES
        if (since > _TRIM_SECONDS and has_grown) or (since > _LOOSE_SECONDS and is_loose):
            self._trim()

    def _relieve(self, size: int) -> None:
        """Free ``size`` bytes, one thread at a time, and not again within a short interval."""
        with self._lock:
            if time.monotonic() - self._relieved_at < _RELIEF_SECONDS:
                return
            self._trim()
            excess = self._resident() + size - int(self.limit * SHRINK)
            if excess > 0:
                # The system takes back whole pages only, so caches must drop more than the excess.
                self._shrink_caches(max(0, self.cached - excess * 3 // 2))
                self._trim()
            self._relieved_at = time.monotonic()

    def _shrink_caches(self, weight: int) -> None:
        """Shrink caches until all together weigh no more than ``weight``."""
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

    def _look_forever(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            # An error in one check must not end the thread.
            with suppress(Exception):
                self.look()


LEDGER: Final = Ledger()
"""The ledger of this process."""

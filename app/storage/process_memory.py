"""The memory of this process against its limit: who gives way when it becomes short, and who is refused.

What counts is resident memory as the system sees it, whoever holds it: caches, work under way, bodies and
answers on their way, and what the allocator has not returned. Files that are mapped do not count, since the
system takes their pages back when it needs memory.

============================ =============================================================================
resident memory              what happens
============================ =============================================================================
much more than was in use    the allocator returns what was freed
above ``SHRINK`` of the limit caches drop objects, those first that are asked for least
above ``REFUSE`` of the limit what needs memory (a load, a large body) is refused until there is some again
============================ =============================================================================
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from app.errors import MemoryShortError
from app.storage.memory import give_memory_back

SHRINK: Final = 0.8
REFUSE: Final = 0.9

_STATM: Final = Path("/proc/self/statm")
_LOOK_SECONDS: Final = 0.25
_TRIM_BYTES: Final = 64 << 20
# Returning memory takes longer the more there is of it, and what was returned has to be got again.
_TRIM_SECONDS: Final = 5.0
_RELIEF_SECONDS: Final = 0.2
# More than this beside what is kept may be memory that was freed.
_LOOSE: Final = 1.2
_LOOSE_BYTES: Final = 160 << 20
_LOOSE_SECONDS: Final = 10.0


class Shrinkable(Protocol):
    """What holds memory that others may need more."""

    @property
    def weight(self) -> int:
        """Bytes that it holds."""
        ...

    def shrink(self, weight: int) -> None:
        """Lets go of objects until they weigh no more than this."""
        ...


def resident_bytes() -> int:
    """Memory that this process alone holds in the machine's memory; 0 where the system does not tell.

    Pages of mapped files do not count: the system takes them back when it needs memory.
    """
    try:
        _, resident, of_files, *_ = map(int, _STATM.read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")


class ProcessMemory:
    """Keeps a process inside of its limit.

    Args:
        resident: tells its resident memory.

    Attributes:
        limit: bytes; 0 for none.
        refusals: how often something was refused.
        shrinks: how often caches were made smaller.
    """

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        self.limit = 0
        self.refusals = 0
        self.shrinks = 0
        self._resident = resident
        self._lock = threading.Lock()
        self._caches: weakref.WeakSet[Shrinkable] = weakref.WeakSet()
        self._relieved_at = self._trimmed_at = float("-inf")
        self._after_trim = 0
        self._watch: threading.Thread | None = None

    @property
    def resident(self) -> int:
        """Bytes of resident memory at this moment."""
        return self._resident()

    @property
    def kept(self) -> int:
        """Bytes of all caches, as they weigh them."""
        return sum(cache.weight for cache in list(self._caches))

    def add(self, cache: Shrinkable) -> None:
        """Registers what can be made smaller; forgotten with the object."""
        with self._lock:
            self._caches.add(cache)

    def keep_within(self, limit: int) -> None:
        """Sets the limit, and from now on sees to it in a thread of its own."""
        with self._lock:
            self.limit = limit
            if self._watch is None:
                self._watch = threading.Thread(target=self._look_on, name="memory", daemon=True)
                self._watch.start()

    def require(self, size: int, what: str) -> None:
        """Does nothing where there is memory for ``size`` bytes more.

        Args:
            size: bytes; 0 where it is not known, and not much.
            what: names what needs them, in the error.

        Raises:
            MemoryShortError: the process would leave its limit.
        """
        if not self.limit or self._resident() + size <= self.limit * REFUSE:
            return
        self._relieve(size)
        resident = self._resident()
        if resident + size > self.limit * REFUSE:
            self.refusals += 1
            raise MemoryShortError(
                f"memory is short: {what} needs {size >> 20} MiB beside the {resident >> 20} MiB in use, of "
                f"{self.limit >> 20} MiB; ask again in a moment"
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
        is_loose = resident > _LOOSE * self.kept + _LOOSE_BYTES
        if (since > _TRIM_SECONDS and has_grown) or (since > _LOOSE_SECONDS and is_loose):
            self._trim()

    def _relieve(self, size: int) -> None:
        """Makes room for ``size`` bytes; at most one thread at a time, and not over and over again."""
        with self._lock:
            if time.monotonic() - self._relieved_at < _RELIEF_SECONDS:
                return
            self._trim()
            excess = self._resident() + size - int(self.limit * SHRINK)
            kept = self.kept
            if excess > 0 and kept:
                self.shrinks += 1
                # What an object holds goes back to the system in whole pages only, so more has to go.
                left = max(0.0, 1 - 1.5 * excess / kept)
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


PROCESS_MEMORY: Final = ProcessMemory()
"""That of this process, which has only one."""

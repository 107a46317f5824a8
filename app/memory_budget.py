"""Shares of the memory of a process.

================= ==========================================================================================
part              bytes
================= ==========================================================================================
the process       ``PROCESS_BYTES``: interpreter, libraries, and memory that allocators cannot return
caches            half of the rest, split by :data:`CACHE_SHARES`
bodies            an eighth of the rest, for all bodies that arrive at once; room for two of the largest if
                  that is at most a quarter
claims            nine tenths of the limit without the process, bodies included; they evict from caches
answers           the remainder
================= ==========================================================================================

:mod:`app.work.ledger` enforces this while the service runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.errors import SettingsError
from app.planning.request.limits import CacheBytes
from app.settings import Settings
from app.work import LEDGER, REFUSE
from app.work.memory import MemoryLimit

_MIB: Final = 1 << 20

PROCESS_BYTES: Final = 224 * _MIB
SUPERVISOR_BYTES: Final = 160 * _MIB
"""Memory of the process that starts the workers, if there are several."""

CACHE_SHARES: Final[Mapping[str, float]] = {
    "metadata": 0.04,
    "manifests": 0.30,
    "file_indexes": 0.46,
    "deletion_vectors": 0.09,
    "hash_indexes": 0.08,
    "plans": 0.03,
}
"""Shares of the memory for caches."""

_LEAST_ROOM: Final = 96 * _MIB


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory budget and use of this process, in bytes."""

    limit_bytes: int
    """Limit of the process."""
    source: str
    """Origin of the limit of all processes together."""
    process_bytes: int
    """Reserve for the process itself, apart from the parts below."""
    caches: Mapping[str, int]
    """Capacity of each cache, or its share of a common capacity."""
    caches_sharing: Sequence[str]
    """Caches that may use the unused capacity of the others."""
    bodies_bytes: int
    """Limit of all bodies that arrive at once."""
    read_bytes: int
    """Limit of bodies, reads and decoded data together; caches give way to them."""
    resident_bytes: int
    """Resident memory now."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory limits of one process of the service, in bytes."""

    limit: int
    source: str
    caches: CacheBytes
    bodies: int
    claims: int

    @classmethod
    def of(cls, settings: Settings, detected: MemoryLimit | None = None) -> MemoryBudget:
        """Compute the budget of each process.

        Raises SettingsError if the memory is too small for the number of processes.
        """
        if settings.memory_bytes is not None:
            detected = MemoryLimit(settings.memory_bytes, "PAIMON_INDEX_MEMORY_BYTES")
        detected = detected or MemoryLimit.detect()
        supervisor = SUPERVISOR_BYTES if settings.workers > 1 else 0
        limit = (detected.bytes - supervisor) // settings.workers
        room = limit - PROCESS_BYTES
        if room < _LEAST_ROOM:
            least = (PROCESS_BYTES + _LEAST_ROOM) * settings.workers + supervisor
            raise SettingsError(
                f"PAIMON_INDEX_MEMORY_BYTES: {detected.bytes} bytes ({detected.source}) are too little for "
                f"{settings.workers} worker(s): give at least {least} bytes, or fewer workers"
            )
        shares = {name: int(room // 2 * share) for name, share in CACHE_SHARES.items()}
        caches = CacheBytes(**shares, is_shared=True)
        # Room for two of the largest bodies, so that a slow one does not keep out all others.
        bodies = min(max(room // 8, 2 * settings.body_bytes), room // 4)
        return cls(limit, detected.source, caches, bodies, int(limit * REFUSE) - PROCESS_BYTES)

    def use(self) -> MemoryUse:
        """Return the budget with the process's present use."""
        return MemoryUse(
            self.limit,
            self.source,
            PROCESS_BYTES,
            self.caches.by_name,
            sorted(self.caches.by_name),
            self.bodies,
            self.claims,
            LEDGER.resident,
        )

"""Who may use how much of the memory that a process has.

================= ==========================================================================================
part              bytes
================= ==========================================================================================
the process       ``PROCESS_BYTES``: interpreter, libraries, and what allocators cannot return
caches            half of the rest, split by :data:`CACHE_SHARES`
bodies            an eighth of the rest, for all that are being received together; room for two of the largest
                  where that is no more than a quarter
claims            nine tenths of all but the process, bodies included; caches give way to them
answers           what is left
================= ==========================================================================================

:mod:`app.work.ledger` sees to it while the service runs.
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
"""Of the process that starts the workers, where there are several."""

CACHE_SHARES: Final[Mapping[str, float]] = {
    "metadata": 0.04,
    "manifests": 0.30,
    "file_indexes": 0.46,
    "deletion_vectors": 0.09,
    "hash_indexes": 0.08,
    "plans": 0.03,
}
"""Parts of the room for caches."""

_LEAST_ROOM: Final = 96 * _MIB


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """How this process may use its memory, in bytes."""

    limit_bytes: int
    """What the process may take."""
    source: str
    """Where the bound of all processes together comes from."""
    process_bytes: int
    """What is left for the process beside the parts below."""
    caches: Mapping[str, int]
    """Capacity of each cache, or its share of shared room."""
    caches_sharing: Sequence[str]
    """Caches that may hold what others of them leave empty."""
    bodies_bytes: int
    """For bodies that are being received, all together."""
    read_bytes: int
    """For bodies, reads and what is decoded, all together; caches give way to them."""
    resident_bytes: int
    """What the process takes now."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory of one process of the service, in bytes."""

    limit: int
    source: str
    caches: CacheBytes
    bodies: int
    claims: int

    @classmethod
    def of(cls, settings: Settings, detected: MemoryLimit | None = None) -> MemoryBudget:
        """The budget of each process.

        Raises:
            SettingsError: there is too little for so many processes.
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
        bodies = min(max(room // 8, 2 * settings.body_bytes), room // 4)
        return cls(limit, detected.source, caches, bodies, int(limit * REFUSE) - PROCESS_BYTES)

    def use(self) -> MemoryUse:
        """The budget, and what the process takes of it."""
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

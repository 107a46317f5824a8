"""Who may use how much of the memory that a process has.

================= ==========================================================================================
part              default
================= ==========================================================================================
the process       ``PROCESS_BYTES``: interpreter, libraries, and what allocators cannot return
caches            half of the rest, split by :data:`CACHE_SHARES`
bodies            an eighth of the rest, for all that are being received together; at least two of the largest
reads             an eighth of the rest, 256 MiB at most, for all ranges and files that are being read
decoding          an eighth of the rest or what is left, 1 GiB at most, for files that are being decoded
answers           what is left
================= ==========================================================================================

What an operator sets wins over the default of its part, and leaves less to the defaults of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.errors import SettingsError
from app.planning.request.limits import CacheBytes
from app.settings import Settings
from app.storage.memory_limit import MemoryLimit

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
_MOST_READ_BYTES: Final = 256 * _MIB
_MOST_DECODING_BYTES: Final = 1024 * _MIB
_LEAST_DECODING_BYTES: Final = 16 * _MIB
"""Where operators leave less: what a few manifests of the usual size take."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory of one process of the service, in bytes.

    Attributes:
        limit: of this process.
        source: where the bound of all processes together comes from.
        caches: capacity of each cache.
        bodies: for bodies that are being received.
        reads: for what is being read.
        decoding: for what is being decoded.
    """

    limit: int
    source: str
    caches: CacheBytes
    bodies: int
    reads: int
    decoding: int

    @classmethod
    def of(cls, settings: Settings, detected: MemoryLimit | None = None) -> MemoryBudget:
        """The budget of each process.

        Args:
            settings: what the operator set.
            detected: the bound of all processes together; found out unless given.

        Raises:
            SettingsError: the parts do not fit.
        """
        if settings.memory_bytes is not None:
            detected = MemoryLimit(settings.memory_bytes, "PAIMON_INDEX_MEMORY_BYTES")
        detected = detected or MemoryLimit.detect()
        beside = SUPERVISOR_BYTES if settings.workers > 1 else 0
        limit = (detected.bytes - beside) // settings.workers
        room = limit - PROCESS_BYTES
        if room < _LEAST_ROOM:
            least = (PROCESS_BYTES + _LEAST_ROOM) * settings.workers + beside
            raise SettingsError(
                f"PAIMON_INDEX_MEMORY_BYTES: {detected.bytes} bytes ({detected.source}) are too little for "
                f"{settings.workers} worker(s): give at least {least} bytes, or fewer workers"
            )
        caches = _caches(settings.cache_capacities, settings.cache_bytes, room)
        bodies = settings.bodies_bytes or min(max(room // 8, 2 * settings.body_bytes), room // 4)
        reads = settings.read_bytes or min(room // 8, _MOST_READ_BYTES)
        left = room - caches.total - bodies - reads
        decoding = min(room // 8, max(left, _LEAST_DECODING_BYTES), _MOST_DECODING_BYTES)
        budget = cls(limit, detected.source, caches, bodies, reads, decoding)
        if budget.parts > room:
            raise SettingsError(
                f"memory: caches of {caches.total}, bodies of {bodies} and reads of {reads} bytes are more "
                f"than the {room} that each of {settings.workers} worker(s) has beside the {PROCESS_BYTES} "
                f"of the process itself, of {detected.bytes} in all ({detected.source}): lower "
                f"PAIMON_INDEX_CACHE_*_BYTES, PAIMON_INDEX_BODIES_BYTES or PAIMON_INDEX_READ_BYTES, or "
                f"raise the limit"
            )
        return budget

    @property
    def parts(self) -> int:
        """Bytes of all parts that operators may set."""
        return self.caches.total + self.bodies + self.reads

    def describe(self) -> dict[str, object]:
        """The budget as JSON."""
        return {
            "limit_bytes": self.limit,
            "source": self.source,
            "process_bytes": PROCESS_BYTES,
            "caches": self.caches.by_name,
            "caches_sharing": sorted(self.caches.sharing),
            "bodies_bytes": self.bodies,
            "read_bytes": self.reads,
            "decoding_bytes": self.decoding,
        }


def _caches(given: Mapping[str, int | None], together: int | None, room: int) -> CacheBytes:
    """What was set, and for the others their shares of what that leaves of all caches.

    Args:
        given: the capacity of each cache, where it was set.
        together: of all caches; half of the room where it was not set.
        room: of the process beside itself.
    """
    fixed = {name: capacity for name, capacity in given.items() if capacity is not None}
    left = max((together or room // 2) - sum(fixed.values()), room // 32)
    shares = {name: share for name, share in CACHE_SHARES.items() if name not in fixed}
    whole = sum(shares.values())
    capacities = {name: int(left * share / whole) for name, share in shares.items()}
    return CacheBytes(**fixed, **capacities, sharing=frozenset(shares))

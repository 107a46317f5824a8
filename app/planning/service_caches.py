"""The caches of a service: what fills and empties them, and their counters."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.planning.side_files.file_indexes import open_declared, read_indexes
from app.planning.version.version import Version, missing_file_means_expired
from app.storage import ByteCache, Tiers
from app.work import give_memory_back


@dataclass(frozen=True, slots=True)
class ServiceCaches:
    """Caches in memory, on the disk, and the shared one."""

    _caches: Sequence[ByteCache[Any]]
    _tiers: Tiers

    @property
    def is_opening(self) -> bool:
        """True while the shared cache has not answered its first call, for a second at most."""
        return self._tiers.store is not None and self._tiers.store.is_opening

    def warm(self, version: Version, *, at_once: bool = False) -> None:
        """Load into the caches what plans of a version need.

        ``at_once``: reads in parallel. Otherwise reads one file at a time, so that a request waits for one at
        most.
        """
        with missing_file_means_expired(version):
            _warm(version, at_once=at_once)

    def share(self, version: Version, columns: Iterable[str]) -> None:
        """Write what plans of a version need to the shared cache, with the index files of ``columns``.

        Return once everything is written there, or has failed. Do nothing without a shared cache.
        """
        store = self._tiers.store
        if store is None:
            return
        with missing_file_means_expired(version):
            version.load()
            store.flush()
            for _ in read_indexes(version, columns):
                # The store's queue is bounded, and drops what does not fit.
                store.flush()
        store.flush()

    def statistics(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counters of each cache by name, those of ``disk`` and ``shared`` only if these exist."""
        statistics = {cache.name: asdict(cache.statistics()) for cache in self._caches}
        if self._tiers.directory is not None:
            statistics["disk"] = asdict(self._tiers.directory.statistics())
        if self._tiers.store is not None:
            statistics["shared"] = asdict(self._tiers.store.statistics())
        return statistics

    def clear(self) -> None:
        """Drop everything decoded from memory. Entries on the disk stay."""
        for cache in self._caches:
            cache.clear()
        # Returning memory to the system takes long, and the caller need not wait for it.
        threading.Thread(target=give_memory_back, name="memory", daemon=True).start()

    def close(self) -> None:
        """End the threads of the shared cache."""
        if self._tiers.store is not None:
            self._tiers.store.close()


def _warm(version: Version, *, at_once: bool) -> None:
    # Manifests first: a request for the same version then has nothing to read while the rest is prepared.
    version.table.metadata.manifests(version.resolved, at_once=at_once)
    version.load()
    open_declared(version)
    version.keep_derived()

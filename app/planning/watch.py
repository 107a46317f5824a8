"""New snapshots of watched tables, decoded ahead of requests, so that the first plan after a commit is warm.

Each version is decoded once. Objects that the caches evict are not loaded again. Until every table was read
once (:attr:`Watch.is_warm`), load balancers send no requests.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.errors import NotFoundError, PaimonIndexError
from app.observation import NO_OBSERVER, Observer, observed_by
from app.planning.request.requests import SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.work import Cancellation, cancellable

_log = logging.getLogger("paimon_index")

# Longest backoff for a table that keeps failing, in intervals.
_LONGEST_PAUSE: Final = 32

# Longest time that a starting process stays unready for its tables.
_WARM_SECONDS: Final = 30.0

_STOP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class WatchState:
    """The progress of one watched table."""

    table: TableRef
    snapshot_id: int | None = None  # The last decoded one; None before the first.
    identity: str | None = None
    failures: int = 0
    due: float = 0.0  # Time of the next look, on the clock of the watch.


class Watch:
    """Polls tables, which need not exist yet, and decodes new snapshots. ``clock`` returns seconds."""

    def __init__(
        self,
        service: IndexService,
        tables: Sequence[TableRef],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._service = service
        self._seconds = seconds
        self._clock = clock
        self._observer = observer
        self._cancellation = Cancellation()
        # A thread per warehouse: a store that hangs holds up no table of another warehouse.
        self._threads = [
            threading.Thread(
                target=self._run, args=(warehouse,), name=f"paimon-index-watch-{warehouse}", daemon=True
            )
            for warehouse in dict.fromkeys(table.warehouse for table in tables)
        ]
        self._watched = {table: WatchState(table, due=clock()) for table in tables}
        self._untried = set(tables)
        self._warm_by = clock() + _WARM_SECONDS

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads, and cancel a load at its next read."""
        self._cancellation.cancel()
        until = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def tables(self) -> list[WatchState]:
        """Return the progress of each table, in the order in which they were named."""
        return list(self._watched.values())

    @property
    def is_warm(self) -> bool:
        """True once every table was tried, or the time limit for that has passed."""
        return not self._untried or self._clock() >= self._warm_by

    def look(self, warehouse: str) -> float:
        """Poll the tables of a warehouse that are due. Return the seconds until the next one is."""
        tables = [table for table in self._watched if table.warehouse == warehouse]
        for table in tables:
            watched = self._watched[table]
            if watched.due <= self._clock() and not self._cancellation.event.is_set():
                self._watched[table] = self._follow(watched)
                self._untried.discard(table)
        return max(0.0, min(self._watched[table].due for table in tables) - self._clock())

    def _run(self, warehouse: str) -> None:
        with cancellable(self._cancellation), observed_by(self._observer):
            while not self._cancellation.event.wait(self.look(warehouse)):
                pass

    def _follow(self, watched: WatchState) -> WatchState:
        table = watched.table
        name = f"{table.warehouse}.{table.database}.{table.table}"
        try:
            version = self._service.resolve(table, SnapshotSelector(max_staleness_ms=0))
            if version.identity != watched.identity:
                # One manifest at a time once requests come: a request that needs more loads them in parallel
                # itself.
                self._service.caches.warm(version, at_once=not self.is_warm)
        except NotFoundError:
            # The table does not exist yet, or was dropped meanwhile: the next poll will tell.
            return WatchState(table, due=self._next_due(0))
        except Exception as error:  # noqa: BLE001 - one bad table must not end the watch of the others
            failures = watched.failures + 1
            if failures == 1 and not self._cancellation.event.is_set():
                # Texts of other exceptions may name endpoints.
                why = error if isinstance(error, PaimonIndexError) else type(error).__name__
                _log.warning("watched table %s cannot be read, and is tried again: %s", name, why)
            return replace(watched, failures=failures, due=self._next_due(failures))
        if watched.failures:
            _log.info("watched table %s can be read again", name)
        return WatchState(table, version.snapshot_id, version.identity, due=self._next_due(0))

    def _next_due(self, failures: int) -> float:
        """Return the time of the next look, with exponential backoff and jitter."""
        interval = self._seconds * min(1 << failures, _LONGEST_PAUSE)
        return self._clock() + random.uniform(interval / 2, interval)  # noqa: S311 - only spreads the load

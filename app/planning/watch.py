"""Keeps the latest snapshots of some tables decoded, so that their first plan after a commit is warm.

One thread for each warehouse does it, and loads one manifest at a time: a request that needs more of them
meanwhile loads them itself, side by side, and waits for one at most. What is decoded is decoded once for each
version; should the caches need the room for what requests ask for, it is not loaded again. Until all tables
were looked at once (:attr:`Watch.is_warm`), balancers send no requests, and manifests are read side by side.
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
from app.observation import NOBODY, Observer, observed_by
from app.planning.request.requests import SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.work import Cancellation, cancellable

_log = logging.getLogger("paimon_index")

_LONGEST_PAUSE: Final = 32
"""In intervals, between attempts at a table that keeps failing."""

_WARM_SECONDS: Final = 30.0
"""How long a process that starts may take for its tables before it is sent requests all the same."""

_STOP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """How far a table has been followed.

    ``snapshot_id``: the last snapshot that was decoded; None before the first, and for a table without any.
    ``due``: when it is looked at again, on the clock of the watch.
    """

    table: TableRef
    snapshot_id: int | None = None
    identity: str | None = None
    failures: int = 0
    due: float = 0.0


class Watch:
    """Looks at tables in turn, and decodes what is new.

    ``tables``: what to watch; a table that does not exist is waited for. ``clock``: tells the time in
    seconds; it need not be that of the day.
    """

    def __init__(
        self,
        service: IndexService,
        tables: Sequence[TableRef],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        observer: Observer = NOBODY,
    ) -> None:
        self._service = service
        self._seconds = seconds
        self._clock = clock
        self._observer = observer
        self._cancellation = Cancellation()
        # What hangs in one warehouse holds up no table of another.
        self._threads = [
            threading.Thread(
                target=self._run, args=(warehouse,), name=f"paimon-index-watch-{warehouse}", daemon=True
            )
            for warehouse in dict.fromkeys(table.warehouse for table in tables)
        ]
        self._watched = {table: WatchedTable(table, due=clock()) for table in tables}
        self._unseen = set(tables)
        self._warm_by = clock() + _WARM_SECONDS

    def start(self) -> None:
        """Begins to watch, if there is a table to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the watching, and a load under way at its next read."""
        self._cancellation.cancel()
        until = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def tables(self) -> list[WatchedTable]:
        """How far each table has been followed, in the order in which they were named."""
        return list(self._watched.values())

    @property
    def is_warm(self) -> bool:
        """Whether every table was read once, or cannot be; or too much time has passed to wait for it."""
        return not self._unseen or self._clock() >= self._warm_by

    def look(self, warehouse: str) -> float:
        """Looks at every table of a warehouse that is due; returns the seconds until the next one is."""
        tables = [table for table in self._watched if table.warehouse == warehouse]
        for table in tables:
            watched = self._watched[table]
            if watched.due <= self._clock() and not self._cancellation.event.is_set():
                self._watched[table] = self._follow(watched)
                self._unseen.discard(table)
        return max(0.0, min(self._watched[table].due for table in tables) - self._clock())

    def _run(self, warehouse: str) -> None:
        with cancellable(self._cancellation), observed_by(self._observer):
            while not self._cancellation.event.wait(self.look(warehouse)):
                pass

    def _follow(self, watched: WatchedTable) -> WatchedTable:
        table = watched.table
        name = f"{table.warehouse}.{table.database}.{table.table}"
        try:
            version = self._service.resolve(table, SnapshotSelector(max_staleness_ms=0))
            if version.identity != watched.identity:
                self._service.warm(version, at_once=not self.is_warm)
        except NotFoundError:
            # It does not exist yet, or went away while it was read: the next look will tell.
            return WatchedTable(table, due=self._next(0))
        except Exception as error:  # noqa: BLE001 - one bad table must not end the watch of the others
            failures = watched.failures + 1
            if failures == 1 and not self._cancellation.event.is_set():
                # Texts of other exceptions may name endpoints.
                why = error if isinstance(error, PaimonIndexError) else type(error).__name__
                _log.warning("watched table %s cannot be read, and is tried again: %s", name, why)
            return replace(watched, failures=failures, due=self._next(failures))
        if watched.failures:
            _log.info("watched table %s can be read again", name)
        return WatchedTable(table, version.snapshot_id, version.identity, due=self._next(0))

    def _next(self, failures: int) -> float:
        """When to look again: in half an interval to a whole one, which doubles with each failure."""
        interval = self._seconds * min(1 << failures, _LONGEST_PAUSE)
        return self._clock() + random.uniform(interval / 2, interval)  # noqa: S311 - only spreads the load

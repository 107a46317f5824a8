"""Keeps account of every request, and tells how the service is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder

from app.planning.watch import Watch
from app.server.processes import Processes
from app.storage import Listings
from app.telemetry.account import Account, Background
from app.telemetry.metrics import Metrics
from app.telemetry.request_lines import write_line
from app.telemetry.state import (
    cache_families,
    listing_family,
    process_families,
    request_families,
    watch_families,
)
from app.telemetry.traces import start_tracing
from app.telemetry.workers import Workers

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from starlette.types import Scope

    from app.telemetry.spans import Tracing


class Telemetry:
    """What one process counts, and what all processes of the service have counted.

    Args:
        processes: those of the service, of which this is one.
        caches: gives the statistics of each cache by name.
        concurrency: requests that may be under way at once.
        token_names: label requests with the names of tokens.
        memory_limit: gives the bytes that all processes together may use; None where there is no limit.

    Attributes:
        background: is told of work that no request waits for.
        watch: the watched tables, once the service has started.
        listings: tell which warehouses can be listed.
    """

    def __init__(
        self,
        processes: Processes,
        caches: Callable[[], Mapping[str, Mapping[str, int]]],
        *,
        concurrency: int,
        token_names: bool = False,
        memory_limit: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._caches = caches
        self._concurrency = concurrency
        self._memory_limit = memory_limit
        self._metrics = Metrics(token_names=token_names)
        self._live: set[Account] = set()
        self._lock = threading.Lock()
        self._tracing: Tracing | None = None
        directory = processes.directory
        self._workers = None if directory is None else Workers(processes, directory, self.families)
        self.background = Background(self._metrics)
        self.watch: Watch | None = None
        self.listings: Listings | None = None

    def start(self) -> None:
        """Begins to send traces, where that is configured."""
        self._tracing = start_tracing()

    def stop(self) -> None:
        """Leaves what was counted to the other processes, and sends the last traces."""
        if self._workers is not None:
            self._workers.stop()
        if self._tracing is not None:
            self._tracing.stop()
            self._tracing = None

    def begin(self, scope: Scope) -> Account:
        """A request has come."""
        tracing = self._tracing
        account = Account(self._metrics, scope) if tracing is None else tracing.begin(self._metrics, scope)
        with self._lock:
            self._live.add(account)
        return account

    def end(self, account: Account) -> None:
        """The request is over, however it ended."""
        with self._lock:
            self._live.discard(account)
        write_line(account, account.close())

    def families(self) -> list[Metric]:
        """What this process has counted, and holds."""
        with self._lock:
            routes = [account.route for account in self._live]
        return [
            *process_families(self._memory_limit()),
            *request_families(routes, self._concurrency),
            *self._metrics.families(),
            *cache_families(self._caches()),
            *watch_families(self.watch),
            listing_family(self.listings),
        ]

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """What all processes have counted, in the text form that a scraper takes; and its media type."""
        encode, media_type = choose_encoder(accept)
        gathered = self.families() if self._workers is None else self._workers.gather()
        return encode(_Collected(gathered)), media_type


class _Collected:
    """Families that were collected already, as the client library's encoders take them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

"""Accounts for every request, and exposes the metrics.

The middleware is the outermost layer of the application, so refused and failed requests are logged, too.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.exposition import choose_encoder
from starlette.datastructures import Headers

from app.planning import Watch
from app.server import Processes
from app.storage import Listings
from app.telemetry.account import NO_ANSWER, PHASE_NAMES, UNROUTED, Account, Background
from app.telemetry.logs import event_record
from app.telemetry.metrics import Metrics
from app.telemetry.state import (
    cache_families,
    listing_family,
    process_families,
    request_families,
    watch_families,
)
from app.telemetry.workers import Workers

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from app.telemetry.spans import Tracing

LOGGER: Final = "paimon_index.requests"

_log = logging.getLogger(LOGGER)

# Routes of probes and scrapes, which come every few seconds.
_QUIET: Final = ("/health/", "/metrics")

_BUG: Final = 500
_NOT_FOUND: Final = 404
# Length of paths in the log, since callers choose them.
_PATH_CHARACTERS: Final = 500

_TRACE_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_NO_TRACE: Final = "0" * 32
_TRACES_GO_TO: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


def write_line(account: Account, seconds: float) -> None:
    """Log a finished request, if the level allows."""
    level = _level(account)
    if _log.isEnabledFor(level):
        _log.handle(event_record(LOGGER, level, "request", _members(account, seconds)))


def _level(account: Account) -> int:
    if account.route.startswith(_QUIET):
        return logging.DEBUG
    status = account.status or 0
    if status == _BUG:
        return logging.ERROR
    if status > _BUG or (account.status is not None and not account.is_complete):
        return logging.WARNING
    return logging.INFO


def _members(account: Account, seconds: float) -> Mapping[str, Any]:
    scope = account.scope
    members: dict[str, Any] = {
        "request_id": scope["state"].get("request_id"),
        **_trace(account),
        "method": scope["method"],
        "route": account.route,
        "status": int(NO_ANSWER) if account.status is None else account.status,
        "duration_ms": round(seconds * 1000, 3),
    }
    place = scope.get("path_params") or {}
    # The table is logged, but not the question, which may have literals.
    members |= {name: place[name] for name in ("warehouse", "database", "table") if name in place}
    if account.status == _NOT_FOUND:
        # The operator needs both to help a caller with a wrong path.
        members["path"] = scope["path"][:_PATH_CHARACTERS]
        if scope.get("client"):
            members["client"] = scope["client"][0]
    if account.token_name is not None:
        members["token"] = account.token_name
    if account.phases:
        # Copied first: a thread of an abandoned request may still add to them.
        phases = account.phases.copy()
        members["phases_ms"] = {PHASE_NAMES[phase]: round(spent * 1000, 3) for phase, spent in phases.items()}
    if account.plan is not None:
        members["files_considered"] = account.plan.files
        members["files_kept"] = account.plan.files_kept
        members["rows_selected"] = account.plan.rows
        if account.plan.warnings:
            members["warnings"] = account.plan.warnings
    if account.storage_calls:
        members["storage_calls"] = account.storage_calls
        members["storage_bytes"] = account.storage_bytes
        members["storage_ms"] = round(account.storage_seconds * 1000, 3)
    if account.cache_hits or account.cache_misses:
        members["cache_hits"] = account.cache_hits
        members["cache_misses"] = account.cache_misses
    members["answer_bytes"] = account.answer_bytes
    if account.status is not None and not account.is_complete:
        members["broken_off"] = True
    return members


def _trace(account: Account) -> Mapping[str, str]:
    """Return ids of our own span, or of the caller's header (W3C Trace Context)."""
    spans = account.spans
    if spans is None:
        match = _TRACE_PARENT.fullmatch(Headers(scope=account.scope).get("traceparent", ""))
        return {"trace_id": match[1]} if match and match[1] != _NO_TRACE else {}
    return {"trace_id": spans.trace_id, "span_id": spans.span_id}


def start_tracing() -> Tracing | None:
    """Start tracing. Return None if no variable configures it, or the libraries are missing."""
    is_asked_for = any(os.environ.get(name) for name in _TRACES_GO_TO)
    if not is_asked_for or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        from app.telemetry.spans import Tracing  # noqa: PLC0415 - an extra, as slow to import as the rest of this
    except ImportError:
        logging.getLogger("paimon_index").warning(
            "OTEL_* variables ask for traces: install this package with its extra [otel] to have them sent"
        )
        return None
    return Tracing.from_environment()


class Telemetry:
    """Metrics, lines and spans of one process, and metrics of all processes of the service.

    ``caches``: returns the statistics of each cache by name. ``token_names``: labels requests with token
    names.
    """

    def __init__(
        self,
        processes: Processes,
        caches: Callable[[], Mapping[str, Mapping[str, int]]],
        *,
        concurrency: int,
        token_names: bool = False,
    ) -> None:
        self._caches = caches
        self._concurrency = concurrency
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
        """Start sending traces, if configured."""
        self._tracing = start_tracing()

    def stop(self) -> None:
        """Hand the counters to the other processes, and send the last traces."""
        if self._workers is not None:
            self._workers.stop()
        if self._tracing is not None:
            self._tracing.stop()
            self._tracing = None

    def begin(self, scope: Scope) -> Account:
        """Open the account of a request."""
        spans = None if self._tracing is None else self._tracing.begin(scope)
        account = Account(self._metrics, scope, spans)
        with self._lock:
            self._live.add(account)
        return account

    def end(self, account: Account) -> None:
        """Close the account of a request, however it ended."""
        with self._lock:
            self._live.discard(account)
        write_line(account, account.close())

    def count_refusal(self, status: int) -> None:
        """Count a request that was answered before it was parsed."""
        by_token = ("",) if self._metrics.token_names else ()
        self._metrics.requests.labels(UNROUTED, str(status), *by_token).inc()

    def families(self) -> list[Metric]:
        """Return the metrics of this process."""
        with self._lock:
            routes = [account.route for account in self._live]
        return [
            *process_families(),
            *request_families(routes, self._concurrency),
            *self._metrics.registry.collect(),
            *cache_families(self._caches()),
            *watch_families(self.watch),
            listing_family(self.listings),
        ]

    def exposition(self, accept: str, may_see: Callable[[str], bool]) -> tuple[bytes, str]:
        """Return metrics of all processes in a text form that a scraper accepts, and its media type.

        Leave out samples of warehouses that the caller may not see.
        """
        encode, media_type = choose_encoder(accept)
        gathered = self.families() if self._workers is None else self._workers.gather()
        return encode(_Collected(_visible(family, may_see) for family in gathered)), media_type


def _visible(family: Metric, may_see: Callable[[str], bool]) -> Metric:
    visible = copy(family)
    visible.samples = [
        sample
        for sample in family.samples
        if "warehouse" not in sample.labels or may_see(sample.labels["warehouse"])
    ]
    return visible


class _Collected:
    """Collected families, in the form of a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class Accounting:
    """ASGI middleware that puts the request's account into ``scope["state"]["observer"]``."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        account = self._telemetry.begin(scope)
        scope["state"]["observer"] = account

        async def send_noted(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            if not is_body:
                account.status = message.get("status", account.status)
            await send(message)
            if is_body:
                account.answer_bytes += len(message.get("body", b""))
                account.is_complete = not message.get("more_body", False)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            self._telemetry.end(account)

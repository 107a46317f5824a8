"""Accounts for one request while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from app.errors import DeadlineExceededError
from app.observation import FileFormat, Observer, Phase, PlanObserved, StorageCall
from app.storage import is_missing, is_timeout
from app.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from starlette.types import Scope

    from app.telemetry.spans import RequestSpans

UNROUTED: Final = "unrouted"
"""The route of requests that matched none, or were refused before routing."""

_FAILURE: Final = 500

NO_ANSWER: Final = "499"
"""The status of requests without an answer: the caller left, or the process stopped."""

PHASE_NAMES: Final = {phase: phase.value for phase in Phase}
"""Names by phase: a look-up is faster than an enumeration's property, and every request needs a few."""


class Background(Observer):
    """Counts events of work without a request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @override
    def storage_called(self, call: StorageCall) -> None:
        metrics, operation = self._metrics, call.operation.value
        metrics.storage_requests.labels(operation).inc()
        metrics.storage_seconds.labels(operation).observe(call.seconds)
        if call.size_bytes:
            metrics.storage_bytes.labels(operation).inc(call.size_bytes)
        if call.is_repeated:
            metrics.storage_retries.labels(operation).inc()
        if call.error is not None:
            metrics.storage_errors.labels(operation, _kind_of(call.error)).inc()

    @override
    def undecodable(self, kind: FileFormat) -> None:
        self._metrics.undecodable.labels(kind.value).inc()


class Account(Background):
    """Counts one request's events for the process, and for its log line.

    Attributes:
        began: start of the request on the clock of :func:`time.perf_counter`.
        phases: seconds by phase. Each second counts for the innermost one.
        storage_calls: number of calls, including retries.
        spans: None if requests are not traced.
    """

    def __init__(self, metrics: Metrics, scope: Scope, spans: RequestSpans | None = None) -> None:
        super().__init__(metrics)
        self.scope = scope
        self.spans = spans
        self.began = time.perf_counter()
        self.status: int | None = None
        self.answer_bytes = 0
        self.is_complete = False
        self.phases: dict[Phase, float] = {}
        self.storage_calls = self.storage_bytes = 0
        self.storage_seconds = 0.0
        self.cache_hits = self.cache_misses = 0
        self.plan: PlanObserved | None = None
        self._current_phase: Phase | None = None
        self._since = 0.0

    @property
    def route(self) -> str:
        """The template of the request's path."""
        path: str = getattr(self.scope.get("route"), "path", UNROUTED)
        return path

    @property
    def token_name(self) -> str | None:
        """The name of the accepted token, if any."""
        name: str | None = self.scope["state"].get("token_name")
        return name

    @override
    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        outer, now = self._current_phase, time.perf_counter()
        if outer is not None:
            self._add(outer, now - self._since)
        self._current_phase, self._since = phase, now
        # A phase inside itself continues the span.
        try:
            with self.spans.span(PHASE_NAMES[phase]) if self.spans and outer is not phase else nullcontext():
                yield
        finally:
            now = time.perf_counter()
            self._add(phase, now - self._since)
            self._current_phase, self._since = outer, now

    @override
    def spent(self, phase: Phase, seconds: float) -> None:
        self._add(phase, seconds)
        if self.spans is not None:
            self.spans.spent(PHASE_NAMES[phase], seconds)

    @override
    def storage_called(self, call: StorageCall) -> None:
        super().storage_called(call)
        # Without a lock, though several threads call: a log line that is off by one does no harm.
        self.storage_calls += 1
        self.storage_bytes += call.size_bytes
        self.storage_seconds += call.seconds
        if self.spans is not None:
            self.spans.called(call)

    @override
    def cache_asked(self, cache: str, hits: int, misses: int) -> None:
        self.cache_hits += hits
        self.cache_misses += misses

    @override
    def planned(self, plan: PlanObserved) -> None:
        self.plan = plan

    def close(self) -> float:
        """Count the finished request. Return its seconds."""
        seconds = time.perf_counter() - self.began
        metrics, route = self._metrics, self.route
        status = NO_ANSWER if self.status is None else str(self.status)
        by_token = (self.token_name or "",) if metrics.token_names else ()
        metrics.requests.labels(route, status, *by_token).inc()
        metrics.request_seconds.labels(route, status).observe(seconds)
        if self.status is not None and not self.is_complete:
            metrics.broken_off.labels(route).inc()
        for phase, spent in tuple(self.phases.items()):
            metrics.phase_seconds.labels(route, PHASE_NAMES[phase]).observe(spent)
        if self.plan is not None:
            self._count(self.plan)
        if self.spans is not None:
            self._end_spans(self.spans)
        return seconds

    def _count(self, plan: PlanObserved) -> None:
        metrics = self._metrics
        metrics.plans.inc()
        metrics.files_considered.inc(plan.files)
        metrics.files_kept.inc(plan.files_kept)
        metrics.rows_selected.inc(plan.rows)
        metrics.plan_warnings.inc(plan.warnings)
        metrics.files_spared.inc(plan.files_spared)
        metrics.bytes_spared.inc(plan.bytes_spared)
        metrics.plans_incomplete.inc(not plan.is_complete)
        metrics.plans_beyond_caches.inc(not plan.fits_caches)
        for (step, index), count in plan.skipped.items():
            metrics.files_skipped.labels(str(step), str(index)).inc(count)

    def _end_spans(self, spans: RequestSpans) -> None:
        attributes: dict[str, str | int] = {
            "http.route": self.route,
            "http.response.body.size": self.answer_bytes,
            "paimon_index.request_id": str(self.scope["state"].get("request_id", "")),
            "paimon_index.storage.calls": self.storage_calls,
            "paimon_index.storage.bytes": self.storage_bytes,
        }
        if self.plan is not None:
            attributes |= {
                "paimon_index.files_considered": self.plan.files,
                "paimon_index.files_kept": self.plan.files_kept,
                "paimon_index.rows_selected": self.plan.rows,
            }
        if self.status is not None:
            attributes["http.response.status_code"] = self.status
        failed = self.status is None or self.status >= _FAILURE or not self.is_complete
        spans.end(f"{self.scope['method']} {self.route}", attributes, failed=failed)

    def _add(self, phase: Phase, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds


def _kind_of(error: BaseException) -> str:
    if is_missing(error):
        return "missing"
    if isinstance(error, PermissionError):
        return "denied"
    return "timeout" if is_timeout(error) or isinstance(error, DeadlineExceededError) else "failed"

"""A span for each request, and under it for its phases and calls to storage.

Spans are called after what they time: ``resolve``, ``load``, ``evaluate``, ``encode``, ``storage read``; that
of the request after method and route. They tell sizes and counts, and of paths the last segment.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from typing_extensions import override

from app.observation import Phase, StorageCall
from app.release import __version__
from app.telemetry.account import Account
from app.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from starlette.types import Scope

_MOST_SPANS: Final = 1000
"""Of one request: a cold plan may read a hundred thousand files."""

_STOP_SECONDS: Final = 2.0
_FAILURE: Final = 500
_UNKNOWN: Final = "unknown_service"

_log = logging.getLogger("paimon_index")


class Tracing:
    """Makes and sends the spans of one process; stops the provider with it."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("paimon_index", __version__)

    @classmethod
    def from_environment(cls) -> Self:
        """As OpenTelemetry's variables say: where to, which of them, and as what."""
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, _UNKNOWN)).startswith(_UNKNOWN):
            resource = resource.merge(Resource({SERVICE_NAME: "paimon-index"}))
        provider = TracerProvider(
            resource=Resource({SERVICE_VERSION: __version__}).merge(resource), shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(_exporter()))
        return cls(provider)

    def begin(self, metrics: Metrics, scope: Scope) -> Account:
        """The account of a request, which goes on with the caller's trace, if it is in one."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        told = {"http.request.method": scope["method"]}
        span = self._tracer.start_span(scope["method"], propagate.extract(carrier), SpanKind.SERVER, told)
        return TracedAccount(metrics, scope, self._tracer, span)

    def stop(self) -> None:
        """Sends what was not sent yet, if somebody takes it soon."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_STOP_SECONDS)


class TracedAccount(Account):
    """An account that makes spans as well; that of the request is ended with it."""

    def __init__(self, metrics: Metrics, scope: Scope, tracer: Tracer, span: Span) -> None:
        super().__init__(metrics, scope)
        self._tracer = tracer
        self._span = span
        self._open: list[Span | None] = []
        self._made = self._left_out = 0
        context = span.get_span_context()
        self.trace = (f"{context.trace_id:032x}", f"{context.span_id:016x}")

    @override
    def phase_began(self, phase: Phase) -> None:
        """Begins a span, unless it would be one of the same phase within another."""
        goes_on = self._under_way[-1:] == [phase]
        super().phase_began(phase)
        self._open.append(None if goes_on else self._start(phase.value, SpanKind.INTERNAL))

    @override
    def phase_ended(self, phase: Phase) -> None:
        super().phase_ended(phase)
        span = self._open.pop() if self._open else None
        if span is not None:
            span.end()

    @override
    def spent(self, phase: Phase, seconds: float) -> None:
        super().spent(phase, seconds)
        span = self._start(phase.value, SpanKind.INTERNAL, seconds)
        if span is not None:
            span.end()

    @override
    def storage_called(self, call: StorageCall) -> None:
        super().storage_called(call)
        span = self._start(f"storage {call.operation.value}", SpanKind.CLIENT, call.seconds)
        if span is None:
            return
        span.set_attributes(
            {
                "file.name": call.path.rpartition("/")[2],
                "paimon_index.storage.bytes": call.size_bytes,
                "paimon_index.storage.repeated": call.is_repeated,
            }
        )
        if call.error is not None:
            span.set_attribute("error.type", type(call.error).__name__)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    @override
    def close(self) -> float:
        seconds = super().close()
        span = self._span
        for each in filter(None, self._open):
            each.end()
        span.update_name(f"{self.scope['method']} {self.route}")
        span.set_attributes(
            {
                "http.route": self.route,
                "http.response.body.size": self.answer_bytes,
                "paimon_index.request_id": str(self.scope["state"].get("request_id", "")),
                "paimon_index.storage.calls": self.storage_calls,
                "paimon_index.storage.bytes": self.storage_bytes,
                "paimon_index.spans_left_out": self._left_out,
            }
        )
        if self.plan is not None:
            span.set_attributes(
                {
                    "paimon_index.files_considered": self.plan.files,
                    "paimon_index.files_kept": self.plan.files_kept,
                    "paimon_index.rows_selected": self.plan.rows,
                }
            )
        if self.status is not None:
            span.set_attribute("http.response.status_code", self.status)
        if self.status is None or self.status >= _FAILURE or not self.is_complete:
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        return seconds

    def _start(self, name: str, kind: SpanKind, ago: float = 0.0) -> Span | None:
        """A span under the innermost one, begun some seconds ago; None if nobody wants it."""
        if not self._span.is_recording():
            return None
        if self._made >= _MOST_SPANS:
            self._left_out += 1
            return None
        self._made += 1
        parent = next((span for span in reversed(self._open) if span is not None), self._span)
        began = time.time_ns() - int(ago * 1e9)
        return self._tracer.start_span(name, set_span_in_context(parent), kind, start_time=began)


def _exporter() -> SpanExporter:
    wanted = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if wanted == "console":
        return ConsoleSpanExporter()
    protocols = (os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}PROTOCOL") for kind in ("TRACES_", ""))
    protocol = next(filter(None, protocols), "http/protobuf")
    if wanted != "otlp" or protocol != "http/protobuf":
        _log.warning("traces are sent as OTLP over http/protobuf, not by %s over %s", wanted, protocol)
    return OTLPSpanExporter()

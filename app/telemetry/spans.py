"""A span for each request, with child spans for its phases and calls to storage.

Names: ``resolve``, ``load``, ``evaluate``, ``encode``, ``storage read``; method and route for the request.
Attributes have sizes and counts, and the last segment of paths only.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context

from app.observation import StorageCall
from app.release import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from starlette.types import Scope

# Spans of one request: a cold plan may read a hundred thousand files.
_MOST_SPANS: Final = 1000

_STOP_SECONDS: Final = 2.0
_UNKNOWN: Final = "unknown_service"

_log = logging.getLogger("paimon_index")


class Tracing:
    """Makes and sends the spans of one process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("paimon_index", __version__)

    @classmethod
    def from_environment(cls) -> Self:
        """Configure itself from OpenTelemetry's variables."""
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, _UNKNOWN)).startswith(_UNKNOWN):
            resource = resource.merge(Resource({SERVICE_NAME: "paimon-index"}))
        provider = TracerProvider(
            resource=Resource({SERVICE_VERSION: __version__}).merge(resource), shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(_exporter()))
        return cls(provider)

    def begin(self, scope: Scope) -> RequestSpans:
        """Start the span of a request, within the caller's trace if there is one."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"]}
        span = self._tracer.start_span(
            scope["method"], propagate.extract(carrier), SpanKind.SERVER, attributes
        )
        return RequestSpans(self._tracer, span)

    def stop(self) -> None:
        """Send pending spans, for a short time at most."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_STOP_SECONDS)


class RequestSpans:
    """The span of a request, and its child spans."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = self._innermost = span
        self._started = self._left_out = 0
        context = span.get_span_context()
        self.trace_id, self.span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Open a span around the block."""
        outer = self._innermost
        self._innermost = self._start(name) or outer
        try:
            yield
        finally:
            if self._innermost is not outer:
                self._innermost.end()
            self._innermost = outer

    def spent(self, name: str, seconds: float) -> None:
        """Record a span of finished work."""
        if span := self._start(name, ago=seconds):
            span.end()

    def called(self, call: StorageCall) -> None:
        """Record a span of a finished storage call."""
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

    def end(self, name: str, attributes: Mapping[str, str | int], *, failed: bool) -> None:
        """End the request's span under its final name."""
        self._span.update_name(name)
        self._span.set_attributes({**attributes, "paimon_index.spans_left_out": self._left_out})
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def _start(self, name: str, kind: SpanKind = SpanKind.INTERNAL, ago: float = 0.0) -> Span | None:
        """Start a span in the innermost one, ``ago`` seconds back. Return None if it is not recorded."""
        if not self._span.is_recording():
            return None
        if self._started >= _MOST_SPANS:
            self._left_out += 1
            return None
        self._started += 1
        began = time.time_ns() - int(ago * 1e9)
        return self._tracer.start_span(name, set_span_in_context(self._innermost), kind, start_time=began)


def _exporter() -> SpanExporter:
    exporter = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter == "console":
        return ConsoleSpanExporter()
    protocols = (os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}PROTOCOL") for kind in ("TRACES_", ""))
    protocol = next(filter(None, protocols), "http/protobuf")
    if exporter != "otlp" or protocol != "http/protobuf":
        _log.warning("traces are sent as OTLP over http/protobuf, not by %s over %s", exporter, protocol)
    return OTLPSpanExporter()

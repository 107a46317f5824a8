"""A receiver of traces (OTLP over HTTP) on the loopback interface."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What was received.

    Attributes:
        url: where to send to.
        received: each export.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.received: list[ExportTraceServiceRequest] = []

    @property
    def spans(self) -> list[Span]:
        """All spans received."""
        resources = (each for export in self.received for each in export.resource_spans)
        return [span for each in resources for scope in each.scope_spans for span in scope.spans]

    @property
    def services(self) -> set[str]:
        """The names of the services that the spans are of."""
        resources = (each.resource for export in self.received for each in export.resource_spans)
        return {
            each.value.string_value
            for resource in resources
            for each in resource.attributes
            if each.key == "service.name"
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    """A receiver for the time of a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            collector.received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield collector
        server.shutdown()
        thread.join()

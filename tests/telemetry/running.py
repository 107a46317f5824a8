"""The service as it is run: a process of its own, whose log is read while it serves."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

_PATIENCE_SECONDS = 150.0
_LISTENING = re.compile(r"Uvicorn running on (http://\S+)")


class Service:
    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [Path(sys.executable).with_name("paimon-index"), "serve", "--port", "0", *arguments],
            env={**os.environ, "PAIMON_INDEX_DRAIN_SECONDS": "0", **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = self.line(_LISTENING.search)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of a log in JSON."""
        return [json.loads(line) for line in self.lines]

    def line(self, found: Callable[[str], re.Match[str] | None], count: int = 1) -> str:
        """Return the first group of a match in the log, once there are as many matches."""
        with self._changed:
            there = self._changed.wait_for(
                lambda: len([line for line in self.lines if found(line)]) >= count, _PATIENCE_SECONDS
            )
            assert there, "\n".join(self.lines)
            match = next(filter(None, map(found, self.lines)))
            return match[match.re.groups]

    def client(self) -> httpx.Client:
        """Make a client that closes connections after use, so that any process can get the next."""
        return httpx.Client(base_url=self.url, timeout=_PATIENCE_SECONDS, headers={"Connection": "close"})

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(_PATIENCE_SECONDS)
        self._reader.join()
        return status

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()


@contextmanager
def running(
    *arguments: str, workers: int = 1, environment: Mapping[str, str] | None = None
) -> Iterator[Service]:
    service = Service("--workers", str(workers), *arguments, environment=environment or {})
    try:
        service.line(re.compile("Application startup complete").search, workers)
        yield service
    finally:
        service.stop()
        assert service.process.stderr is not None
        service.process.stderr.close()


class Collector:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.received: list[ExportTraceServiceRequest] = []

    @property
    def spans(self) -> list[Span]:
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
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield collector
        server.shutdown()
        thread.join()


TABLES = "/v1/main/databases/golden/tables"
ROUTE = "/v1/{warehouse}/databases/{database}/tables/{table}"


class Scrape:
    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {each.name: each for each in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    @classmethod
    def of(cls, client: httpx.Client) -> Self:
        answer = client.get("/metrics")
        assert answer.status_code == 200, answer.text
        return cls(answer.text)

    def value(self, name: str, **labels: str) -> float:
        """Return a number; 0 where there is none yet."""
        return self._values.get((f"paimon_index_{name}", tuple(sorted(labels.items()))), 0)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all labels but those given."""
        return sum(
            value
            for (sample, found), value in self._values.items()
            if sample == f"paimon_index_{name}" and labels.items() <= dict(found).items()
        )

    def growing(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every number that never goes down."""
        kinds = {sample.name: family.type for family in self.families.values() for sample in family.samples}
        return {
            key: value for key, value in self._values.items() if kinds[key[0]] in ("counter", "histogram")
        }

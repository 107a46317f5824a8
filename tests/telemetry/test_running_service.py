"""One run of the service: what its log says of each request, and which spans it sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.golden_cases import GoldenWarehouse
from tests.telemetry.running import ROUTE, TABLES, collecting, running

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
LITERAL = "4956"
QUESTIONS: tuple[tuple[str, str, str, dict[str, str] | None], ...] = (
    ("planned", "POST", f"{TABLES}/append_sidecar/plan", {"filter": f"rank_no = {LITERAL}"}),
    ("again", "POST", f"{TABLES}/append_sidecar/plan", {"filter": f"rank_no = {LITERAL}"}),
    ("refused", "POST", f"{TABLES}/append_sidecar/plan", {"filter": f"nonsense = '{LITERAL}'"}),
    ("lost", "POST", "/v1/x%0A%7B%22level%22:%22info%22%7D%1B[2J/plan?token=hidden", {}),
    ("deleted", "POST", f"{TABLES}/append_dv32/deletions", {}),
    ("probe", "GET", "/health/live", None),
)


@dataclass
class Run:
    """What came out of a run."""

    lines: list[str]
    requests: dict[str, dict[str, Any]]
    trace: list[Span]
    services: set[str]

    def span(self, name: str) -> Span:
        return next(span for span in self.trace if span.name == name)


@pytest.fixture(scope="module")
def run(golden: GoldenWarehouse) -> Run:
    with collecting() as collector:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with running("--warehouse", f"main={golden.root}", environment=environment) as service:
            with service.client() as client:
                for request_id, method, path, body in QUESTIONS:
                    headers = {"X-Request-Id": request_id, "Authorization": "Bearer hidden"}
                    if request_id == "planned":
                        headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"
                    client.request(method, path, json=body, headers=headers)
            # What was not sent yet is sent at the end.
            service.stop()
        events = service.events
        trace = [span for span in collector.spans if span.trace_id.hex() == TRACE]
        requests = {event["request_id"]: event for event in events if event["event"] == "request"}
        return Run(service.lines, requests, trace, collector.services)


def test_each_request_leaves_one_line_but_for_probes(run: Run) -> None:
    assert list(run.requests) == [request_id for request_id, *_ in QUESTIONS if request_id != "probe"]


def test_the_service_names_its_warehouses_when_it_starts(run: Run) -> None:
    events = map(orjson.loads, run.lines)

    assert [event["warehouses"] for event in events if event["event"] == "warehouses that are served"] == [
        ["main"]
    ]


def test_the_line_of_memory_has_its_figures_as_members(run: Run) -> None:
    lines = [event for event in map(orjson.loads, run.lines) if event["event"].startswith("memory of this")]

    assert [line["level"] for line in lines] == ["info"]
    memory = lines[0]["memory"]
    assert memory["limit_bytes"] > memory["bodies_bytes"] > 0
    assert all(size >= 0 for size in memory["caches"].values())


def test_the_line_of_a_plan_tells_what_it_took(run: Run) -> None:
    planned, again = run.requests["planned"], run.requests["again"]

    assert planned["level"] == "info"
    assert (planned["method"], planned["route"], planned["status"]) == ("POST", f"{ROUTE}/plan", 200)
    named = (planned["warehouse"], planned["database"], planned["table"])
    assert named == ("main", "golden", "append_sidecar")
    assert list(planned["phases_ms"]) == ["queue", "resolve", "load", "evaluate", "encode"]
    assert sum(planned["phases_ms"].values()) <= planned["duration_ms"]
    assert planned["files_considered"] > planned["files_kept"] > 0
    assert planned["storage_bytes"] > planned["storage_calls"] > again["storage_calls"] > 0
    assert planned["cache_misses"] > again["cache_misses"] == 0 < again["cache_hits"]
    assert set(again["phases_ms"]) == {"queue", "resolve", "encode"}
    assert planned["answer_bytes"] > 0


def test_lines_of_requests_that_were_refused(run: Run) -> None:
    assert (run.requests["refused"]["status"], run.requests["lost"]["status"]) == (422, 404)
    assert run.requests["lost"]["route"] == "unrouted"
    assert run.requests["lost"]["path"] == '/v1/x\n{"level":"info"}\x1b[2J/plan'
    assert run.requests["lost"]["client"] == "127.0.0.1"
    assert not {"path", "client"} & run.requests["refused"].keys()


def test_nothing_secret_is_told(run: Run) -> None:
    told = "\n".join(run.lines)

    assert LITERAL not in told
    assert "hidden" not in told
    assert all(line.isprintable() for line in run.lines)


def test_the_trace_of_the_caller_goes_on(run: Run) -> None:
    request = run.span(f"POST {ROUTE}/plan")

    assert request.parent_span_id.hex() == PARENT
    assert run.requests["planned"]["trace_id"] == TRACE
    assert run.requests["planned"]["span_id"] == request.span_id.hex()
    assert run.services == {"paimon-index"}


def test_phases_and_storage_calls_are_spans(run: Run) -> None:
    request = run.span(f"POST {ROUTE}/plan")
    phases = {span.span_id: span.name for span in run.trace if span.parent_span_id == request.span_id}
    calls = [span for span in run.trace if span.name.startswith("storage ")]

    assert set(phases.values()) == {"queue", "resolve", "load", "evaluate", "encode"}
    assert len(calls) == run.requests["planned"]["storage_calls"]
    assert {phases[call.parent_span_id] for call in calls} == {"resolve", "load", "evaluate"}
    for span in run.trace:
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= request.end_time_unix_nano


def test_text_is_for_people(golden: GoldenWarehouse) -> None:
    environment = {"PAIMON_INDEX_LOG_FORMAT": "text", "PAIMON_INDEX_LOG_LEVEL": "debug"}
    with running("--warehouse", f"main={golden.root}", environment=environment) as service:
        with service.client() as client:
            client.get("/health/live")
            client.get("/v1/main/databases/x%0A2026-01-01%20forged%1B[2J/tables")
        service.stop()

    requests = [line for line in service.lines if "paimon_index.requests" in line]
    assert ["/health/live" in line for line in requests] == [True, False]
    assert r"2026-01-01 forged\\x1b[2J" in requests[1]
    assert "status=404" in requests[1]
    assert all(line.isprintable() for line in service.lines)

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from app.observation import Phase, StorageCall, StorageOperation, during, observed_by, observer
from app.telemetry.account import Account
from app.telemetry.metrics import Metrics
from app.telemetry.spans import Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Traced:
    """Requests that are traced into memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracing = Tracing(provider)

    def begin(self, **headers: str) -> Account:
        scope = {
            "type": "http",
            "method": "POST",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "state": {},
        }
        return Account(Metrics(), scope, self._tracing.begin(scope))

    def named(self, name: str) -> list[Any]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def read(path: str, error: Exception | None = None) -> None:
    observer().storage_called(StorageCall(StorageOperation.READ, path, 0.5, 7, error))


def test_calls_are_below_the_phase_that_makes_them(traced: Traced) -> None:
    account = traced.begin(traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
    with observed_by(account), during(Phase.EVALUATE):
        read("db.db/t/index/one")
        with during(Phase.LOAD):
            read("db.db/t/manifest/two", OSError("at http://10.1.2.3"))
    account.close()

    (request,), (evaluate,), (load,) = map(traced.named, ("POST unrouted", "evaluate", "load"))
    one, two = traced.named("storage read")
    assert f"{request.context.trace_id:032x}" == TRACE
    assert (one.parent.span_id, two.parent.span_id) == (evaluate.context.span_id, load.context.span_id)
    assert (one.attributes["file.name"], one.attributes["paimon_index.storage.bytes"]) == ("one", 7)
    assert one.end_time - one.start_time >= 0.4e9
    assert (two.attributes["error.type"], two.status.status_code) == ("OSError", StatusCode.ERROR)
    assert "10.1.2.3" not in two.to_json()


def test_a_request_makes_so_many_spans_and_no_more(traced: Traced) -> None:
    account = traced.begin()
    with observed_by(account), during(Phase.EVALUATE):
        for number in range(1010):
            read(f"file-{number}")
    account.close()

    assert len(traced.named("storage read")) == 999
    (request,) = traced.named("POST unrouted")
    assert request.attributes["paimon_index.spans_left_out"] == 11
    assert request.attributes["paimon_index.storage.calls"] == 1010


def test_a_trace_that_is_not_sampled_makes_no_spans(traced: Traced) -> None:
    account = traced.begin(traceparent=f"00-{TRACE}-b7ad6b7169203331-00")
    with observed_by(account), during(Phase.EVALUATE):
        read("file")
    account.close()

    assert traced.named("evaluate") == traced.named("storage read") == []
    assert account.spans is not None
    assert account.spans.trace_id == TRACE


@pytest.mark.parametrize(("status", "is_complete"), [(None, False), (500, True), (200, False)])
def test_a_request_that_fails_is_marked(traced: Traced, status: int | None, *, is_complete: bool) -> None:
    account = traced.begin()
    account.status, account.is_complete = status, is_complete
    account.close()

    (request,) = traced.named("POST unrouted")
    assert request.status.status_code is StatusCode.ERROR

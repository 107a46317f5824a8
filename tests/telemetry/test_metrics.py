"""Dashboard, alert rules and docs speak of the metrics that there are, and of all of them."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml

from app.observation import Phase, during, observed_by
from app.server.processes import Processes
from app.telemetry.service import Accounting, Telemetry
from tests.api.conftest import Serve
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each
from tests.telemetry.running import ROUTE, TABLES, Scrape


@pytest.fixture
def fresh(serve: Serve) -> Iterator[httpx.Client]:
    with serve() as started:
        yield started


def test_requests_are_counted_by_route_and_status(fresh: httpx.Client) -> None:
    fresh.post(f"{TABLES}/append_sidecar/plan", json={})
    fresh.post(f"{TABLES}/append_sidecar/plan", json={"filter": "nonsense ="})
    fresh.post(f"{TABLES}/no_such_table/plan", json={})
    fresh.get("/nowhere/to/be/found")

    scraped = Scrape.of(fresh)

    plan = f"{ROUTE}/plan"
    assert scraped.value("requests_total", route=plan, status="200") == 1
    assert scraped.value("requests_total", route=plan, status="422") == 1
    assert scraped.value("requests_total", route=plan, status="404") == 1
    assert scraped.value("requests_total", route="unrouted", status="404") == 1
    assert scraped.value("request_seconds_count", route=plan, status="200") == 1
    assert scraped.value("request_seconds_sum", route=plan, status="200") > 0
    assert scraped.value("requests_in_flight", route="/metrics") == 1
    assert "no_such_table" not in str(scraped.families)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_request_that_wants_no_compression_has_a_route_as_well(fresh: httpx.Client, method: str) -> None:
    fresh.request(method, "/v1", headers={"Accept-Encoding": "identity"})

    assert Scrape.of(fresh).value("requests_total", route="/v1", status="200") == 1


def test_plans_are_counted_as_their_answers_say(fresh: httpx.Client) -> None:
    questions: tuple[dict[str, object], ...] = (
        {},
        {"filter": "rank_no = 4956"},
        {"filter": "rank_no < -100000"},
        {"limit": 1},
    )
    answers = [fresh.post(f"{TABLES}/append_sidecar/plan", json=body).json() for body in questions]
    summaries = [answer["summary"] for answer in answers]

    scraped = Scrape.of(fresh)

    assert scraped.value("plans_total") == len(questions)
    for metric, member in (
        ("plan_files_considered_total", "files_total"),
        ("plan_files_kept_total", "files_kept"),
        ("plan_rows_selected_total", "rows_selected"),
    ):
        assert scraped.value(metric) == sum(summary[member] for summary in summaries)
    for step in summaries[0]["skipped_by"]:
        skipped = sum(summary["skipped_by"][step] for summary in summaries)
        assert scraped.total("plan_files_skipped_total", step=step) == skipped
    for phase in ("queue", "resolve", "load", "evaluate", "encode"):
        assert scraped.value("phase_seconds_count", route=f"{ROUTE}/plan", phase=phase) == len(questions)


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("rank_no = 4956", {"range-bitmap"}),
        ("fee = 58.43", {"bsi"}),
        ("owner = 'nobody at all'", {"bitmap", "bloom-filter"}),
        ("fee = 58.43 AND rank_no = 4956", {"bsi", "range-bitmap"}),
    ],
)
def test_skipped_files_are_counted_by_the_kind_of_index(
    fresh: httpx.Client, question: str, kinds: set[str]
) -> None:
    summary = fresh.post(f"{TABLES}/append_sidecar/plan", json={"filter": question}).json()["summary"]

    scraped = Scrape.of(fresh)

    by_kind = {
        kind: scraped.value("plan_files_skipped_total", step="file_index", index=kind) for kind in kinds
    }
    assert sum(by_kind.values()) == summary["skipped_by"]["file_index"] > 0


@pytest.mark.parametrize("question", ["owner = 'nobody at all'", "fee = 58.43 AND rank_no = 4956"])
def test_every_form_of_a_plan_counts_skipped_files_alike(fresh: httpx.Client, question: str) -> None:
    kinds = ("bitmap", "bloom-filter", "bsi", "range-bitmap", "other")

    def counted() -> list[int]:
        scraped = Scrape.of(fresh)
        return [
            int(scraped.value("plan_files_skipped_total", step="file_index", index=kind)) for kind in kinds
        ]

    found = set()
    for explain in (False, True):
        for accept in ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"):
            for selection in ("ranges", "none"):
                before = counted()
                body = {"filter": question, "explain": explain, "selection": selection}
                answer = fresh.post(f"{TABLES}/append_sidecar/plan", json=body, headers={"Accept": accept})
                assert answer.status_code == 200, answer.text
                found.add(tuple(now - then for now, then in zip(counted(), before, strict=True)))

    (by_kind,) = found
    assert sum(by_kind) > 0


def test_storage_and_caches_are_counted(fresh: httpx.Client) -> None:
    for _ in range(2):
        fresh.post(f"{TABLES}/append_sidecar/plan", json={"filter": "rank_no = 4956"})
    caches = fresh.get("/v1/cache").json()

    scraped = Scrape.of(fresh)

    for name, members in caches.items():
        for member, metric in (
            *(("bytes", "bytes"), ("capacity", "capacity_bytes"), ("entries", "entries")),
            *(("hits", "hits_total"), ("misses", "misses_total"), ("evictions", "evictions_total")),
            *(("rejected", "rejections_total"), ("waits", "waits_total")),
        ):
            assert scraped.value(f"cache_{metric}", cache=name) == members[member]
    assert caches["plans"]["hits"] == 1
    reads = scraped.value("storage_requests_total", operation="read")
    assert reads == scraped.value("storage_seconds_count", operation="read") > 0
    assert scraped.value("storage_read_bytes_total", operation="read") > reads
    # Each time the snapshot behind the latest is looked for, and the second time also the schema behind it.
    assert scraped.value("storage_errors_total", operation="read", error="missing") == 3


def test_damaged_files_are_counted_by_format(serve: Serve, golden: GoldenWarehouse, tmp_path: Path) -> None:
    for table in ("append_sidecar", "append_embedded"):
        golden.copy(table, tmp_path)
    for index in (tmp_path / "golden.db" / "append_sidecar").rglob("*.index"):
        index.write_bytes(b"\0" * index.stat().st_size)
    newest = max((tmp_path / "golden.db" / "append_embedded" / "snapshot").glob("snapshot-*"))
    newest.write_bytes(b"{")

    with serve(warehouses={"main": str(tmp_path)}) as client:
        kept = client.post(f"{TABLES}/append_sidecar/plan", json={"filter": "rank_no = 4956"}).json()
        failed = client.post(f"{TABLES}/append_embedded/plan", json={})
        scraped = Scrape.of(client)

    assert failed.status_code == 424
    unreadable = [file for file in kept["files"] if file["decision_reason"] == "index_unreadable"]
    assert scraped.value("decode_failures_total", format="file-index") == len(unreadable) > 0
    assert scraped.value("decode_failures_total", format="snapshot") == 1
    assert scraped.value("plan_warnings_total") == len(kept["warnings"]) > 0


def test_a_scraper_may_ask_for_openmetrics(client: httpx.Client) -> None:
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


def test_the_disk_cache_is_counted_apart(serve: Serve, tmp_path: Path) -> None:
    with serve(disk_cache=str(tmp_path), disk_cache_bytes=1 << 20) as client:
        client.post(f"{TABLES}/append_sidecar/plan", json={})
        told = client.get("/v1/cache").json()["disk"]
        scraped = Scrape.of(client)

    assert scraped.value("disk_cache_bytes") == told["bytes"] > 0
    assert scraped.value("disk_cache_misses_total") == told["misses"]
    assert scraped.value("cache_bytes", cache="disk") == 0


def test_the_shared_cache_is_counted_apart(serve: Serve, tmp_path: Path) -> None:
    with serve(shared_cache=str(tmp_path), shared_cache_private=True) as client:
        # A table of few manifests is read without it.
        client.post(f"{TABLES}/pk_dv/plan", json={})
        told = client.get("/v1/cache").json()["shared"]
        scraped = Scrape.of(client)

    assert scraped.value("shared_cache_misses_total") == told["misses"] > 0
    assert scraped.value("shared_cache_failures_total") == 0
    assert scraped.value("cache_misses_total", cache="shared") == 0


START = {"type": "http.response.start", "status": 200, "headers": []}
PIECE = {"type": "http.response.body", "body": b"piece", "more_body": True}
END = {"type": "http.response.body", "body": b"", "more_body": False}


def telemetry(*, token_names: bool = False) -> Telemetry:
    return Telemetry(Processes(None), dict, concurrency=7, token_names=token_names)


def scrape(counting: Telemetry) -> Scrape:
    return Scrape(counting.exposition("", lambda _: True)[0].decode())


def ask(
    counting: Telemetry,
    messages: Sequence[dict[str, Any]],
    *,
    error: BaseException | None = None,
    state: Mapping[str, str] | None = None,
) -> None:
    """One request, which is answered with some messages before an error is raised."""

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        scope["state"].update(state or {})
        for message in messages:
            await send(message)
        if error is not None:
            raise error

    async def nothing(*_: object) -> Any:
        return None

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(Accounting(application, counting)(scope, nothing, nothing))


def test_an_answer_that_lacks_its_end_is_broken_off() -> None:
    counting = telemetry()
    ask(counting, [START, PIECE, END])
    with pytest.raises(OSError, match="gone"):
        ask(counting, [START, PIECE], error=OSError("gone"))

    scraped = scrape(counting)

    assert scraped.value("requests_total", route="unrouted", status="200") == 2
    assert scraped.value("answers_broken_off_total", route="unrouted") == 1
    assert scraped.total("requests_in_flight") == 0


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
def test_a_request_without_an_answer_has_a_status_of_its_own(error: BaseException | None) -> None:
    counting = telemetry()
    if error is None:
        ask(counting, [])
    else:
        with pytest.raises(asyncio.CancelledError):
            ask(counting, [], error=error)

    scraped = scrape(counting)

    assert scraped.value("requests_total", route="unrouted", status="499") == 1
    assert scraped.total("answers_broken_off_total") == 0


def test_names_of_tokens_are_told_where_they_are_wanted() -> None:
    named, unnamed = telemetry(token_names=True), telemetry()
    for counting in (named, unnamed):
        ask(counting, [START, END], state={"token_name": "etl"})
        ask(counting, [START, END])

    labels = {"route": "unrouted", "status": "200"}
    assert scrape(named).value("requests_total", **labels | {"token": "etl"}) == 1
    assert scrape(named).value("requests_total", **labels | {"token": ""}) == 1
    assert scrape(unnamed).value("requests_total", **labels) == 2


def test_each_second_counts_for_the_innermost_phase() -> None:
    counting = telemetry()
    account = counting.begin({"type": "http", "method": "GET", "headers": [], "state": {}})
    with observed_by(account), during(Phase.EVALUATE):
        with pytest.raises(KeyError), during(Phase.LOAD), during(Phase.LOAD):
            raise KeyError
        account.spent(Phase.QUEUE, 3.0)
    spent = dict(account.phases)
    counting.end(account)

    assert set(spent) == {Phase.EVALUATE, Phase.LOAD, Phase.QUEUE}
    assert spent[Phase.EVALUATE] + spent[Phase.LOAD] <= account.close()
    assert scrape(counting).value("phase_seconds_sum", route="unrouted", phase="queue") >= 3.0


def test_memory_is_told_with_its_limit_where_there_is_one(limit_memory: Callable[[int], None]) -> None:
    assert scrape(telemetry()).value("memory_resident_bytes") > 1 << 20

    limit_memory(1 << 30)
    assert scrape(telemetry()).value("memory_limit_bytes") == 1 << 30

    limit_memory(0)
    assert not scrape(telemetry()).families["paimon_index_memory_limit_bytes"].samples


ROOT = Path(__file__).parent.parent.parent
CHART = ROOT / "helm" / "paimon-index"
RULES = yaml.safe_load((CHART / "rules" / "paimon-index.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((CHART / "dashboards" / "paimon-index.json").read_text())

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def queries() -> Iterator[str]:
    """Every query of the dashboard and the rules; Grafana's variables replaced by what they stand for."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield (
                target["expr"]
                .replace("$__rate_interval", "5m")
                .replace("$job", ".*")
                .replace("$namespace", ".*")
            )
    for rule in ALERTS.values():
        yield rule["expr"]


def selected(query: str) -> dict[str, set[str]]:
    """Return the labels that a query asks of each metric it names; fail if the query is none."""
    found: dict[str, set[str]] = {}

    def visit(expression: object) -> None:
        if isinstance(expression, promql_parser.VectorSelector):
            labels = {matcher.name for matcher in expression.matchers.matchers}
            found.setdefault(str(expression.name), set()).update(labels)

    pending: list[object] = [promql_parser.parse(query)]
    while pending:
        expression = pending.pop()
        visit(expression)
        for member in ("lhs", "rhs", "expr", "vector_selector", "args"):
            inner = getattr(expression, member, None)
            pending += inner if isinstance(inner, list) else [inner] if inner is not None else []
    return found


@pytest.fixture(scope="module")
def series(client: httpx.Client) -> set[str]:
    """Return the names of all series that a service can have."""
    families = Scrape.of(client).families.values()
    # The parser takes "_info" for part of a name.
    return {family.name + suffix for family in families for suffix in _SUFFIXES[family.type]}


@for_each("query", sorted(set(queries())))
def test_queries_ask_for_metrics_that_there_are(query: str, series: set[str]) -> None:
    assert set(selected(query)) <= series
    assert selected(query)


def test_every_metric_is_described_and_shown(client: httpx.Client, series: set[str]) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `((?:paimon_index|process)_\w+)` \| (\w+) \|", page, re.MULTILINE)
    families = Scrape.of(client).families.values()
    there = {(f"{each.name}_total" if each.type == "counter" else each.name, each.type) for each in families}
    ours = {name for name, _ in there if name.startswith("paimon_index_")}
    asked = {name for query in queries() for name in selected(query)}

    assert set(rows) == there
    assert {name for name in ours if not asked & {name, f"{name}_bucket", f"{name}_sum"}} == set()
    assert asked <= series


def test_histograms_have_few_buckets_and_those_that_alerts_compare_with(client: httpx.Client) -> None:
    client.post(f"{TABLES}/append_sidecar/plan", json={})
    bounds: dict[str, set[float]] = {}
    for family in Scrape.of(client).families.values():
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                bounds.setdefault(sample.name, set()).add(float(sample.labels["le"]))

    assert len(bounds) == 3
    for name, found in bounds.items():
        assert len(found) <= 10
        limits = [rule["expr"].rpartition(">")[2] for rule in ALERTS.values() if name in rule["expr"]]
        assert {float(limit) for limit in limits} <= found


def test_the_process_has_the_names_that_prometheus_gives_every_process(client: httpx.Client) -> None:
    families = Scrape.of(client).families
    value = {name: families[name].samples[0].value for name in families if name.startswith("process_")}

    assert value["process_open_fds"] < value["process_max_fds"]
    assert 1 << 20 < value["process_resident_memory_bytes"] < value["process_virtual_memory_bytes"]
    assert 0 < time.time() - value["process_start_time_seconds"] < 24 * 3600


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_a_runbook(name: str) -> None:
    page = (ROOT / "docs" / "operations-alerts.md").read_text()
    annotations = ALERTS[name]["annotations"]

    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["runbook_url"] == f"docs/operations-alerts.md#{name.lower()}"
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert "\n1. " in section
    assert ALERTS[name]["labels"]["severity"] in {"critical", "warning", "info"}


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])

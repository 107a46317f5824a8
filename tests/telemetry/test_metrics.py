from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.api.conftest import Serve
from tests.golden_tables import GoldenWarehouse
from tests.telemetry.scrapes import ROUTE, TABLES, Scrape

if TYPE_CHECKING:
    import httpx


@pytest.fixture
def fresh(serve: Serve) -> Iterator[httpx.Client]:
    """A service that has done nothing yet."""
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
@pytest.mark.parametrize("explain", [False, True])
def test_skipped_files_are_counted_by_the_kind_of_index(
    fresh: httpx.Client, question: str, kinds: set[str], *, explain: bool
) -> None:
    body = {"filter": question, "explain": explain}
    summary = fresh.post(f"{TABLES}/append_sidecar/plan", json=body).json()["summary"]

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
            ("bytes", "bytes"),
            ("capacity", "capacity_bytes"),
            ("entries", "entries"),
            ("hits", "hits_total"),
            ("misses", "misses_total"),
            ("evictions", "evictions_total"),
            ("rejected", "rejections_total"),
            ("waits", "waits_total"),
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
        shutil.copytree(golden.table(table), tmp_path / "golden.db" / table)
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

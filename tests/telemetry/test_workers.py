from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from app.server.processes import Processes
from app.telemetry.workers import Workers, dump
from tests.golden_cases import GoldenWarehouse
from tests.telemetry.running import ROUTE, TABLES, Scrape, Service, running

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CLIENTS = 3
PLANS = 5


class Counting:
    """A worker that has counted something."""

    def __init__(self, directory: Path, count: int, asking_seconds: float = 2.0) -> None:
        self.count = count
        self.processes = Processes(directory, asking_seconds)
        self.workers = Workers(self.processes, directory, self.families)
        self.processes.start()

    def stop(self) -> None:
        self.workers.stop()
        self.processes.stop()

    def families(self) -> list[Metric]:
        counter = CounterMetricFamily("paimon_index_requests", "", labels=["route"])
        counter.add_metric(["/plan"], self.count)
        return [
            counter,
            GaugeMetricFamily("paimon_index_workers", "", 1),
            GaugeMetricFamily("paimon_index_watched_tables", "", 3),
        ]


def numbers(families: Iterable[Metric]) -> dict[str, float]:
    return {
        sample.name.removeprefix("paimon_index_"): sample.value
        for each in families
        for sample in each.samples
    }


def test_counters_add_up_and_outlive_their_workers(tmp_path: Path) -> None:
    first, second, third = (Counting(tmp_path, count) for count in (1, 10, 100))
    assert numbers(first.workers.gather()) == {"requests_total": 111, "workers": 3, "watched_tables": 3}

    third.count = 500
    third.stop()

    for asked in (first, second, first):
        assert numbers(asked.workers.gather()) == {"requests_total": 511, "workers": 2, "watched_tables": 3}
    second.count = 20
    second.stop()
    assert numbers(first.workers.gather()) == {"requests_total": 521, "workers": 1, "watched_tables": 3}
    first.stop()


def test_a_worker_goes_on_from_what_the_one_before_it_has_counted(tmp_path: Path) -> None:
    asked, gone = Counting(tmp_path, 1), Counting(tmp_path, 10)
    assert numbers(asked.workers.gather())["requests_total"] == 11
    # Killed: it leaves what it has answered last.
    gone.processes.stop()
    assert numbers(asked.workers.gather()) == {"requests_total": 11, "workers": 1, "watched_tables": 3}

    successor = Counting(tmp_path, 100)
    assert numbers(asked.workers.gather()) == {"requests_total": 111, "workers": 2, "watched_tables": 3}
    successor.stop()
    assert numbers(asked.workers.gather()) == {"requests_total": 111, "workers": 1, "watched_tables": 3}
    asked.stop()


def test_a_worker_that_hangs_is_told_by_what_it_said_last(tmp_path: Path) -> None:
    asked = Counting(tmp_path, 1, asking_seconds=0.2)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as hanging:
        hanging.bind(str(tmp_path / "hanging.sock"))
        hanging.listen()
        (tmp_path / "hanging.json").write_bytes(dump(asked.families()))

        assert numbers(asked.workers.gather()) == {"requests_total": 2, "workers": 2, "watched_tables": 3}
    asked.stop()


def test_a_run_that_is_gone_leaves_each_worker_to_itself(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    asked = Counting(run, 7)
    shutil.rmtree(run)

    assert numbers(asked.workers.gather())["requests_total"] == 7
    asked.stop()


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> Iterable[Service]:
    with running("--warehouse", f"main={golden.root}", workers=2) as started:
        yield started


def plan_often(service: Service) -> None:
    with service.client() as client:
        for _ in range(PLANS):
            assert client.post(f"{TABLES}/append_sidecar/plan", json={}).status_code == 200


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def assert_grown(before: Scrape, after: Scrape) -> None:
    later = after.growing()
    assert {key for key, value in before.growing().items() if value > later[key]} == set()


def test_any_worker_speaks_for_all_while_they_plan(service: Service) -> None:
    done = threading.Event()
    with ThreadPoolExecutor(CLIENTS + 1) as threads, service.client() as scraper:

        def scrape() -> list[Scrape]:
            scrapes = []
            while not done.is_set():
                scrapes.append(Scrape.of(scraper))
            return [*scrapes, Scrape.of(scraper)]

        scraping = threads.submit(scrape)
        for planning in [threads.submit(plan_often, service) for _ in range(CLIENTS)]:
            planning.result()
        done.set()
        scrapes = scraping.result()

    for before, after in itertools.pairwise(scrapes):
        assert_grown(before, after)
    last = scrapes[-1]
    assert last.value("workers") == 2
    assert last.value("requests_total", route=f"{ROUTE}/plan", status="200") == CLIENTS * PLANS
    assert last.value("plans_total") == CLIENTS * PLANS
    assert last.value("requests_in_flight_limit") == 512


def test_caches_are_told_and_cleared_in_every_worker(service: Service) -> None:
    plan_often(service)
    with service.client() as client:
        before = Scrape.of(client)
        told = client.get("/v1/cache").json()["manifests"]
        cleared = client.post("/v1/cache/clear").json()
        after = Scrape.of(client)

    # Some worker may not have planned, but together they hold what the metrics say.
    assert told["bytes"] == before.value("cache_bytes", cache="manifests") > 0
    assert told["capacity"] == before.value("cache_capacity_bytes", cache="manifests")
    assert {each["bytes"] for each in cleared.values()} == {0}
    assert after.value("cache_bytes", cache="manifests") == 0


def test_a_killed_worker_takes_nothing_back(service: Service) -> None:
    with service.client() as client:
        before = Scrape.of(client)
        killed = children(service.process.pid)[0]
        os.kill(killed, signal.SIGKILL)
        # One is left, and later another takes the place of the one that was killed.
        after = Scrape.of(client)
        service.line(re.compile("Application startup complete").search, 3)
        replaced = Scrape.of(client)

    assert_grown(before, after)
    assert_grown(after, replaced)
    assert replaced.value("workers") == 2
    assert killed not in children(service.process.pid)


def test_the_service_ends_and_cleans_up(service: Service) -> None:
    directory = Path(f"/proc/{children(service.process.pid)[0]}/environ").read_bytes()
    found = re.search(rb"PAIMON_INDEX_WORKERS_DIRECTORY=([^\0]+)", directory)
    assert found is not None

    assert service.stop() == 0

    assert not Path(found[1].decode()).exists()

"""Repeated plans of a table whose manifests and indexes do not fit into the caches.

100,000 files with 417 MB of embedded indexes are planned with new literals that no file has. What does not
fit is mapped from temporary files; a plan that read manifests, or stacked indexes again, would take a hundred
times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import httpx

from benchmarks.events import DATABASE, SCORES, TABLE, scores
from benchmarks.plans import LARGEST
from benchmarks.runner import percentile
from benchmarks.servers import server
from benchmarks.services import VALUES, WAREHOUSE, prepare, read_manifests, warehouse_of
from benchmarks.workload import Figure, Suite, Target, Unit

MEBIBYTES: Final = (1_100, 600, 488)
"""Memory of the service; the last is 512 MB."""
_TARGET: Final = Target(100)
_RUNS: Final = 15
_SECONDS_TOTAL: Final = "process_cpu_seconds_total "


def suites() -> Iterator[Suite]:
    """Yield plans of the same table with less and less memory."""
    yield Suite("small memory", _figures, partial(prepare, VALUES, LARGEST))


def name_of(mebibytes: int) -> str:
    """Name the row of a service with so much memory."""
    return f"processor time of a plan over HTTP, {mebibytes:,} MiB of memory: score BETWEEN, no file kept"


def _figures(directory: Path) -> Iterator[Figure]:
    warehouse = warehouse_of(directory, VALUES, LARGEST)
    read_manifests(warehouse)
    present = {score for body in range(VALUES.bodies) for score in scores(body, VALUES.distinct)}
    absent = sorted(set(range(SCORES - 1)) - present - {score - 1 for score in present})
    for mebibytes in MEBIBYTES:
        random = Random(mebibytes)
        with (
            server(warehouse, memory_bytes=str(mebibytes << 20)) as port,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client,
        ):
            for _ in range(2):
                _plan(client, random.choice(absent))
            took = sorted(_processor_ms(client, random.choice(absent)) for _ in range(_RUNS))
        yield Figure(
            name_of(mebibytes),
            LARGEST,
            Unit.MILLISECONDS,
            median(took),
            percentile(took, 0.99),
            runs=len(took),
            kept=0,
            target=_TARGET,
        )


def _processor_ms(client: httpx.Client, score: int) -> float:
    before = _processor_seconds(client)
    _plan(client, score)
    return (_processor_seconds(client) - before) * 1e3


def _plan(client: httpx.Client, score: int) -> None:
    place = f"/v1/{WAREHOUSE}/databases/{DATABASE}/tables/{TABLE}/plan"
    answer = client.post(place, json={"filter": f"score BETWEEN {score} AND {score + 1}"})
    answer.raise_for_status()
    if kept := answer.json()["summary"]["files_kept"]:
        raise RuntimeError(f"expected no file with score {score}, found {kept}")


def _processor_seconds(client: httpx.Client) -> float:
    lines = client.get("/metrics").raise_for_status().text.splitlines()
    return float(next(line for line in lines if line.startswith(_SECONDS_TOTAL)).rpartition(" ")[2])

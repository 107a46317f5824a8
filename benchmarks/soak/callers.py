"""Callers of every kind beside each other, over an object store that fails now and then.

Tables of three warehouses lie on a real S3 server; a proxy before it spoils a share of its answers. Callers
plan, stream and look keys up; some take their answers slowly or stop in the middle of their bodies. Meanwhile
snapshots land. Caches are smaller than what is asked for. Every answer has to be that of a server of its own
over a local copy, asked without load about the same snapshot; where it warns that something could not be
read, it may name more data files, never fewer.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from benchmarks.runner import percentile
from benchmarks.soak.faults import BUCKET, COUNTS, Storage, serve
from benchmarks.soak.questions import TABLES, WAREHOUSES, Answer, Question, ask_about
from benchmarks.soak.serving import LOOK_SECONDS, PATIENCE_SECONDS, resident, server
from tests.golden_cases import DATABASE, unpack

MIB: Final = 1 << 20

_SLOW: Final = 8
"""Of the callers, those that take their answers slowly or do not send all of their bodies."""
_HEALTH_LIMIT_SECONDS: Final = 0.25
_SPREAD: Final = 10
_CLEAR_SECONDS: Final = 2.0
"""Caches are emptied so often, so that there is always something to read."""

_CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}


@dataclass(slots=True)
class Report:
    """What a run showed.

    Attributes:
        limit: bytes of memory that the server was given.
        statuses: answers by status; 0 where a connection broke.
        kinds: answers of 200 by what was asked for.
        took: seconds of answers of 200.
        health: seconds of answers of ``/health/ready``.
        answers: what was answered to each question.
        landed: snapshots that were committed meanwhile.
        storage: what the proxy counted.
        peak: largest resident size of the server, in bytes.
        degraded: answers that warn, and name more files.
        wrong: questions whose answers are wrong.
    """

    limit: int
    statuses: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    answers: dict[Question, set[Answer]] = field(default_factory=dict)
    landed: int = 0
    storage: Mapping[str, int] = field(default_factory=dict)
    peak: int = 0
    degraded: int = 0
    wrong: list[Question] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """What is not as it has to be."""
        found = [f"a wrong answer to {each}" for each in self.wrong]
        if bugs := self.statuses[500]:
            found.append(f"{bugs} answers of 500")
        if self.peak > self.limit:
            found.append("resident memory was over the limit")
        if percentile(self.took, 0.99) > _SPREAD * percentile(self.took, 0.5):
            found.append(f"the slowest answers take more than {_SPREAD} times the median")
        if percentile(self.health, 0.99) > _HEALTH_LIMIT_SECONDS:
            found.append("health waits")
        return found

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of a table: what was looked at, and what it was."""
        yield "answers by status", _counted(self.statuses)
        yield "answers of 200 by question", _counted(self.kinds)
        yield "wrong answers", str(len(self.wrong))
        yield "answers that warn and keep more", str(self.degraded)
        yield "p50, p99 and maximum of answers of 200", _times(self.took)
        yield "p50, p99 and maximum of health", _times(self.health)
        yield "snapshots landed meanwhile", str(self.landed)
        yield "calls of storage", _counted(self.storage)
        yield "peak of resident memory, and the limit", f"{self.peak // MIB} and {self.limit // MIB} MiB"


def _counted(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()))


def _times(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return ", ".join(f"{percentile(ordered, share) * 1e3:,.0f}" for share in (0.5, 0.99, 1)) + " ms"


class Copies:
    """Copies of golden tables, locally as a whole, and in storage up to the snapshots that have landed.

    ``directory``: an empty one.
    ``count``: copies of each table.
    """

    def __init__(self, directory: Path, count: int) -> None:
        golden = unpack(directory / "golden")
        self.root = directory / "warehouse"
        self.tables = [f"{name}-{number}" for number in range(count) for name in TABLES]
        self._to_come: list[tuple[str, int]] = []
        for table in self.tables:
            name = table.rpartition("-")[0]
            shutil.copytree(golden.table(name), self._directory(table), copy_function=os.link)
            self._to_come += [(table, number) for number in self._snapshots(table)[1:]]

    def _directory(self, table: str) -> Path:
        return self.root / f"{DATABASE}.db" / table

    def _snapshots(self, table: str) -> list[int]:
        found = self._directory(table).glob("snapshot/snapshot-*")
        return sorted(int(path.name.partition("-")[2]) for path in found)

    def first(self) -> dict[str, bytes]:
        """All objects but data files, which nobody reads, and later snapshots."""
        found: dict[str, bytes] = {}
        for table in self.tables:
            for path in self._directory(table).rglob("*"):
                is_data = path.name.startswith(("data-", "changelog-")) and path.suffix != ".index"
                if path.is_file() and not is_data and path.parent.name != "snapshot":
                    found[self._key(path)] = path.read_bytes()
            found |= self._landing(table, self._snapshots(table)[0])
        return found

    def landings(self, chance: random.Random) -> Iterator[dict[str, bytes]]:
        """Yield the objects of each later snapshot, as they are to be written."""
        waiting = {table: iter(self._snapshots(table)[1:]) for table in self.tables}
        order = [table for table, _ in self._to_come]
        chance.shuffle(order)
        for table in order:
            yield self._landing(table, next(waiting[table]))

    def _landing(self, table: str, number: int) -> dict[str, bytes]:
        directory = self._directory(table) / "snapshot"
        snapshot = directory / f"snapshot-{number}"
        return {
            self._key(snapshot): snapshot.read_bytes(),
            self._key(directory / "LATEST"): str(number).encode(),
            self._key(directory / "EARLIEST"): str(self._snapshots(table)[0]).encode(),
        }

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self.root.parent))


def run(directory: Path, *, seconds: float, callers: int, limit: int, share: float, copies: int) -> Report:
    """Ask a server for so long, and look at its answers.

    ``directory``: an empty one.
    ``seconds``: how long.
    ``callers``: threads that ask.
    ``limit``: bytes of memory that the server is told to stay within.
    ``share``: of the storage's answers, how many are spoilt.
    ``copies``: of each golden table.
    """
    tables = Copies(directory, copies)
    report = Report(limit)
    with serve(share) as storage:
        storage.put(tables.first())
        environment = {
            **_CREDENTIALS,
            "AWS_ENDPOINT_URL": storage.endpoint,
            "PAIMON_INDEX_MEMORY_BYTES": str(limit),
        }
        with server([f"{name}=s3://{BUCKET}/warehouse" for name in WAREHOUSES], environment) as (
            process,
            url,
        ):
            _call(tables, report, storage, url, process.pid, seconds, callers)
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with status {process.returncode}")
        report.storage = httpx.get(storage.endpoint + COUNTS).json()
    with server([f"{name}={tables.root}" for name in WAREHOUSES], {}) as (_, url):
        _compare(report, url)
    return report


def _call(
    tables: Copies, report: Report, storage: Storage, url: str, pid: int, seconds: float, callers: int
) -> None:
    is_over = threading.Event()
    threads = [
        threading.Thread(target=_watch, args=(url, pid, report, is_over)),
        threading.Thread(target=_clear, args=(url, is_over)),
        threading.Thread(target=_land, args=(tables, storage, report, is_over, seconds)),
        *(threading.Thread(target=_dawdle, args=(url, tables, seed, is_over)) for seed in range(_SLOW)),
        *(
            threading.Thread(target=_ask, args=(url, tables, seed, report, is_over))
            for seed in range(callers - _SLOW)
        ),
    ]
    for thread in threads:
        thread.start()
    is_over.wait(seconds)
    is_over.set()
    for thread in threads:
        thread.join()


def _ask(url: str, tables: Copies, seed: int, report: Report, is_over: threading.Event) -> None:
    chance = random.Random(seed)
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        while not is_over.is_set():
            question = ask_about(tables.tables, chance)
            started = time.perf_counter()
            try:
                response = question.post(client)
            except httpx.HTTPError:
                report.statuses[0] += 1
                continue
            took = time.perf_counter() - started
            report.statuses[response.status_code] += 1
            if response.status_code == httpx.codes.OK:
                report.took.append(took)
                report.kinds[question.kind] += 1
                report.answers.setdefault(question, set()).add(Answer.of(question.kind, response.content))


def _dawdle(url: str, tables: Copies, seed: int, is_over: threading.Event) -> None:
    """Send half a body and wait, or take an answer a little at a time."""
    chance = random.Random(-seed)
    place = urlsplit(url)
    while not is_over.is_set():
        question = ask_about(tables.tables, chance)
        body = question.body.encode()
        head = (
            f"POST {question.path} HTTP/1.1\r\nHost: localhost\r\nAccept: {question.kind.media_type}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with socket.create_connection(
            (str(place.hostname), place.port or 80), PATIENCE_SECONDS
        ) as connection:
            sent = body[: len(body) // 2] if seed % 2 else body
            connection.sendall(head.encode() + sent)
            give_up = time.monotonic() + 10
            while time.monotonic() < give_up and not is_over.wait(LOOK_SECONDS):
                if not seed % 2 and not connection.recv(16):
                    break


def _land(tables: Copies, storage: Storage, report: Report, is_over: threading.Event, seconds: float) -> None:
    landings = list(tables.landings(random.Random(seconds)))
    for objects in landings:
        if is_over.wait(seconds / (len(landings) + 1)):
            return
        storage.put(objects)
        report.landed += 1


def _watch(url: str, pid: int, report: Report, is_over: threading.Event) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        while not is_over.wait(LOOK_SECONDS):
            report.peak = max(report.peak, resident(pid))
            started = time.perf_counter()
            client.get("/health/ready").raise_for_status()
            report.health.append(time.perf_counter() - started)


def _clear(url: str, is_over: threading.Event) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        while not is_over.wait(_CLEAR_SECONDS):
            client.post("/v1/cache/clear")


def _compare(report: Report, url: str) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        for question, answers in report.answers.items():
            for answer in answers:
                if answer.snapshot_id is None:
                    report.wrong.append(question)
                    continue
                response = question.at(answer.snapshot_id).post(client).raise_for_status()
                truth = Answer.of(question.kind, response.content)
                if answer.files == truth.files:
                    continue
                if answer.warnings and answer.names() >= truth.names():
                    report.degraded += 1
                else:
                    report.wrong.append(question)

"""Two warehouses of one server: many callers of one ask what is dear, and one caller of the other little.

What is dear is also what never comes to an end: storage that takes calls and answers none, a decoder of ORC
and Parquet that stands still, a pipe where a file is expected.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from benchmarks.bounds.asking import OK, Caller, Dear, asked_all_the_time
from benchmarks.bounds.memory import MIB, counted, port_of
from benchmarks.control_groups import control_group
from benchmarks.events import DATABASE
from benchmarks.runner import percentile
from benchmarks.soak.serving import server

_CALLERS: Final = 16
_ALONE_SECONDS: Final = 3.0
_BESIDE_SECONDS: Final = 6.0
_WARM_UP_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02
_LIMIT: Final = 1_536 * MIB
_TIMES: Final = 10
_HEALTH_SECONDS: Final = 0.25
_CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What two warehouses came to.

    Attributes:
        alone: seconds that plans of the one took before anybody asked the other, ascending.
        beside: the same while they do.
        health: seconds that health took then.
        failed: answers of the one that are no plans, by their statuses.
        answered: what the callers of the other were answered.
    """

    what: str
    alone: list[float]
    beside: list[float]
    health: list[float]
    failed: Counter[int]
    answered: Counter[int]

    @property
    def failures(self) -> Iterator[str]:
        """What nobody may be answered, however busy the machine is."""
        if self.failed:
            yield f"failures: {counted(self.failed)}"
        if self.answered[500]:
            yield "answers of 500"

    @property
    def delays(self) -> Iterator[str]:
        """What takes too long, as other programs of the machine can make it."""
        if not self.beside or percentile(self.beside, 0.99) > _TIMES * percentile(self.alone, 0.99):
            yield f"p99 is more than {_TIMES} times that alone"
        if percentile(self.health, 0.99) > _HEALTH_SECONDS:
            yield "health waits"

    def __str__(self) -> str:
        times = " | ".join(
            f"{percentile(each, 0.5) * 1e3:.0f}, {percentile(each, 0.99) * 1e3:.0f}" if each else "none"
            for each in (self.alone, self.beside, self.health)
        )
        faults = "; ".join([*self.failures, *self.delays])
        return f"| {self.what} | {times} | {counted(self.answered)} | {faults or 'kept'} |"


HEAD: Final = (
    "| 16 callers of another warehouse ask | plans alone: p50, p99 in ms | beside them | health | "
    "answers of the others | |\n| --- | --- | --- | --- | --- | --- |"
)


@dataclass(slots=True)
class _Times:
    took: list[float] = field(default_factory=list)
    failed: Counter[int] = field(default_factory=Counter)


def beside(warehouse: Path, dear: Dear) -> Row:
    """Return a request of many callers."""
    return _row(str(warehouse), dear, dear.name, {})


def beside_hung_storage(warehouse: Path, dear: Dear) -> Row:
    """Return the same of a store that takes calls and answers none."""
    with _silent() as endpoint:
        environment = {**_CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
        return _row("s3://bucket/warehouse", dear, "storage that never answers", environment, str(warehouse))


def beside_stopped_decoder(warehouse: Path, dear: Dear) -> Row:
    """Return the same while the process that decodes stands still."""
    stopped: list[int] = []

    def stop(pid: int, url: str) -> None:
        Caller(port_of(url), "a").of_table("orc", "plan", {})
        stopped.extend(_children(pid))
        for child in stopped:
            os.kill(child, signal.SIGSTOP)
        httpx.post(f"{url}/v1/cache/clear", timeout=60)

    try:
        row = _row(str(warehouse), dear, "a decoder that stands still", {}, before=stop)
    finally:
        for child in stopped:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    if not stopped:
        raise RuntimeError("there is no process that decodes")
    return row


def _row(
    url: str,
    dear: Dear,
    what: str,
    environment: Mapping[str, str],
    other: str | None = None,
    before: Callable[[int, str], None] | None = None,
) -> Row:
    with ExitStack() as stack:
        group = stack.enter_context(control_group(_LIMIT))
        told = {"PAIMON_INDEX_ICEBERG": "true", **environment}
        if group is None:
            told["PAIMON_INDEX_MEMORY_BYTES"] = str(_LIMIT)
        warehouses = [f"a={url}", f"b={other or url}"]
        process, at = stack.enter_context(server(warehouses, told, group))
        port = port_of(at)
        alone, _, _ = _measured(port, _ALONE_SECONDS)
        if before is not None:
            before(process.pid, at)
        answered: Counter[int] = Counter()
        with asked_all_the_time(port, "a", dear, _CALLERS) as statuses:
            took, health, failed = _measured(port, _BESIDE_SECONDS)
            while statuses.poll():
                answered[statuses.recv()] += 1
        return Row(what, alone, took, health, failed, answered)


def _measured(port: int, seconds: float) -> tuple[list[float], list[float], Counter[int]]:
    """Seconds of small plans of ``b`` and of health, ascending, and what else plans were answered."""
    plans, health = _Times(), _Times()
    until = time.perf_counter() + _WARM_UP_SECONDS + seconds
    path = f"/v1/b/databases/{DATABASE}/tables/small/plan"
    watcher = threading.Thread(target=_ask, args=(port, "GET", "/health/ready", until, health))
    watcher.start()
    _ask(port, "POST", path, until, plans)
    watcher.join()
    return sorted(plans.took), sorted(health.took), plans.failed


def _ask(port: int, method: str, path: str, until: float, times: _Times) -> None:
    begun = time.perf_counter()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        number = 0
        while time.perf_counter() < until:
            number += 1
            started = time.perf_counter()
            content = json.dumps({"filter": f"c0 = {number}"}) if method == "POST" else None
            try:
                status = client.request(method, path, content=content).status_code
            except httpx.HTTPError:
                status = 0
            ended = time.perf_counter()
            if status != OK:
                times.failed[status] += 1
            elif started > begun + _WARM_UP_SECONDS:
                times.took.append(ended - started)
            time.sleep(_PAUSE_SECONDS)


@contextmanager
def _silent() -> Iterator[str]:
    """Yield the URL of a server that accepts connections, and answers nothing."""
    taken: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                taken.append(listener.accept()[0])

    with closing(socket.create_server(("127.0.0.1", 0), backlog=256)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in taken:
                each.close()


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found

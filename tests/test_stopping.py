"""How a server process ends, and that it can begin again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.golden_tables import GoldenWarehouse

PATIENCE_SECONDS = 120
PLAN = "/v1/main/databases/golden/tables/append_sidecar/plan"


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a process of its own."""

    process: subprocess.Popen[bytes]
    client: httpx.Client
    port: int

    def begin_plan(self) -> socket.socket:
        """A connection on which a plan was asked for, but for its last byte."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        connection.sendall(f"POST {PLAN} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{".encode())
        # An answer on another connection says that the first was seen.
        self.client.get("/health/live")
        return connection


@contextmanager
def serving(golden: GoldenWarehouse, workers: int = 1, **settings: object) -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    named = {f"PAIMON_INDEX_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve"]
    command += ["--warehouse", f"main={golden.root}", "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(command, env={**os.environ, **named})  # noqa: S603 - our own command
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
            _until_ready(client, process)
            yield Served(process, client, port)
    finally:
        process.kill()
        process.wait()


def _until_ready(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < give_up, "the server is not ready"
        try:
            client.get("/health/ready").raise_for_status()
        except httpx.HTTPError:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
        else:
            return


def received(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def answers(served: Served, path: str) -> Iterator[Any]:
    """What a new connection gets, over and over, until nobody listens."""
    while True:
        try:
            yield httpx.get(f"http://127.0.0.1:{served.port}{path}", timeout=PATIENCE_SECONDS).status_code
        except httpx.HTTPError:
            return


def test_requests_are_taken_while_others_are_told_not_to_send_more(golden: GoldenWarehouse) -> None:
    with serving(golden, drain_seconds=2, grace_seconds=60) as served, served.begin_plan() as connection:
        served.process.send_signal(signal.SIGTERM)
        ready = list(answers(served, "/health/ready"))
        connection.sendall(b"}")
        answer = received(connection)
        status = served.process.wait(PATIENCE_SECONDS)

    # The signal may not have been seen by the first of them.
    assert set(ready) <= {200, 503}
    assert ready[-1] == 503
    assert answer.startswith(b"HTTP/1.1 200")
    assert status == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_what_outlives_the_grace_period_is_answered_and_the_status_is_0(
    golden: GoldenWarehouse, workers: int
) -> None:
    with serving(golden, workers, drain_seconds=0, grace_seconds=1) as served:
        with served.begin_plan() as connection:
            served.process.send_signal(signal.SIGTERM)
            answer = received(connection)
        status = served.process.wait(PATIENCE_SECONDS)

    assert answer.startswith(b"HTTP/1.1 503")
    assert b"urn:paimon-index:error:not-ready" in answer
    assert b"retry-after: 1" in answer
    assert status == 0


def test_a_second_signal_ends_at_once(golden: GoldenWarehouse) -> None:
    with serving(golden, drain_seconds=10 * PATIENCE_SECONDS) as served:
        served.process.send_signal(signal.SIGTERM)
        while served.client.get("/health/ready").status_code == 200:
            pass
        served.process.send_signal(signal.SIGTERM)

        assert served.process.wait(PATIENCE_SECONDS) == 0


def test_the_disk_cache_survives_being_killed(golden: GoldenWarehouse, tmp_path: Path) -> None:
    plans = []
    for asked in (1, 3, 9):
        with serving(golden, disk_cache=tmp_path / "cache") as served:
            plans += [served.client.post(PLAN, json={"limit": n + 1}) for n in range(asked)]
            served.process.send_signal(signal.SIGKILL)

    assert {plan.status_code for plan in plans} == {200}
    files = [plan.json()["files"] for plan in plans if plan.request.content == plans[0].request.content]
    assert files == [files[0]] * 3

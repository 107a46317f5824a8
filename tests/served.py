"""Servers in processes of their own, as operators start them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

PATIENCE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Served:
    process: subprocess.Popen[bytes]
    client: httpx.Client
    port: int

    def begin_plan(self, path: str) -> socket.socket:
        """Return a connection on which a plan was asked for, but for its last byte."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{".encode())
        # An answer on another connection says that the first was seen.
        self.client.get("/health/live")
        return connection


@contextmanager
def serving(
    warehouse: Path | None, workers: int = 1, *, before: str = "", log: Path | None = None, **settings: object
) -> Iterator[Served]:
    """Serve for the time of a block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    named = {f"PAIMON_INDEX_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve"]
    command += ["--port", str(port), "--workers", str(workers)]
    if warehouse is not None:
        command += ["--warehouse", f"main={warehouse}"]
    if before:
        command = ["/bin/sh", "-c", f'{before}; exec "$@"', "sh", *command]
    with ExitStack() as stack:
        lines = None if log is None else stack.enter_context(log.open("wb"))
        process = subprocess.Popen(command, env={**os.environ, **named}, stderr=lines)  # noqa: S603 - ours
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

"""The service as it is run: in its own process, behind a port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.services import WAREHOUSE

_START_SECONDS: Final = 60
_END_SECONDS: Final = 30


@contextmanager
def server(
    warehouse: Path | str, *, workers: int = 1, has_own_core: bool = True, **settings: str
) -> Iterator[int]:
    """Serve one warehouse, and yield the port.

    ``warehouse``: a directory, or a URL.
    ``workers``: processes of the server.
    ``has_own_core``: the server runs on one core and the caller on the others, where there are two.
    ``settings``: others, by their names.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = int(listener.getsockname()[1])
    program = "from app.cli import main; main()"
    flags = ["--warehouse", f"{WAREHOUSE}={warehouse}", "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program, "serve", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            "PAIMON_INDEX_DRAIN_SECONDS": "0",
            **{f"PAIMON_INDEX_{name.upper()}": value for name, value in settings.items()},
        },
    )
    try:
        if has_own_core and hasattr(os, "sched_setaffinity"):
            first, *others = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(process.pid, {first})
            os.sched_setaffinity(0, set(others) or {first})
        _await_listening(port)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_listening(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return

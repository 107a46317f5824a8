"""The server that a soak asks, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import httpx

from benchmarks.control_groups import ControlGroup

PATIENCE_SECONDS: Final = 120
LOOK_SECONDS: Final = 0.1


@contextmanager
def server(
    warehouses: Sequence[str], environment: Mapping[str, str], group: ControlGroup | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a server, and yield its process and its URL.

    ``warehouses``: each ``name=url``.
    ``environment``: variables beside those of this process.
    ``group``: a control group that it is to join.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # In the group from its first moment on, it finds the limit by itself.
    members = "" if group is None else str(group.path / "cgroup.procs")
    join = f"open({members!r}, 'w').write(str(os.getpid())); " if members else ""
    code = f"import os; {join}from app.cli import main; main()"
    flags = ["--port", str(port), *chain.from_iterable(("--warehouse", each) for each in warehouses)]
    command = [sys.executable, "-c", code, "serve", *flags]
    process = subprocess.Popen(  # noqa: S603 - our own command
        command,
        env={**os.environ, **environment, "PAIMON_INDEX_DRAIN_SECONDS": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not _is_ready(url):
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError("the server does not start")
            time.sleep(LOOK_SECONDS)
        yield process, url
    finally:
        process.terminate()
        process.wait()


def resident(pid: int) -> int:
    """Bytes of memory that a process has; 0 if it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready").is_success
    except httpx.HTTPError:
        return False

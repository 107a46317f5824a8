"""The service as it is run: a process of its own, whose log is read while it serves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

_PATIENCE_SECONDS = 150.0
_LISTENING = re.compile(r"Uvicorn running on (http://\S+)")


class Service:
    """A running service.

    Attributes:
        process: the first process of it.
        lines: of its log, so far.
        url: where it listens.
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [Path(sys.executable).with_name("paimon-index"), "serve", "--port", "0", *arguments],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = self.line(_LISTENING.search)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of a log in JSON."""
        return [json.loads(line) for line in self.lines]

    def line(self, found: Callable[[str], re.Match[str] | None], count: int = 1) -> str:
        """The first group of a match in the log, once there are as many matches."""
        with self._changed:
            there = self._changed.wait_for(
                lambda: len([line for line in self.lines if found(line)]) >= count, _PATIENCE_SECONDS
            )
            assert there, "\n".join(self.lines)
            match = next(filter(None, map(found, self.lines)))
            return match[match.re.groups]

    def client(self) -> httpx.Client:
        """A client whose connections are closed after each request, so that any process may get the next."""
        return httpx.Client(base_url=self.url, timeout=_PATIENCE_SECONDS, headers={"Connection": "close"})

    def stop(self) -> int:
        """Asks the service to end; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(_PATIENCE_SECONDS)
        self._reader.join()
        return status

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()


@contextmanager
def running(
    *arguments: str, workers: int = 1, environment: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """A service that answers, for the time of a block."""
    service = Service("--workers", str(workers), *arguments, environment=environment or {})
    try:
        service.line(re.compile("Application startup complete").search, workers)
        yield service
    finally:
        service.stop()
        assert service.process.stderr is not None
        service.process.stderr.close()

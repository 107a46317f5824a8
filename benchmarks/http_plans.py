"""Plans over HTTP: a server in its own process on one core, a client on another.

The client writes requests to sockets that stay open, since a client library takes longer than the server.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.events import DATABASE, FILES_PER_DAY, FIRST_DAY, TABLE
from benchmarks.questions import one_day, sql
from benchmarks.runner import percentile
from benchmarks.servers import server
from benchmarks.services import NO_INDEX, WAREHOUSE, prepare, warehouse_of
from benchmarks.workload import Figure, Suite, Target, Unit

_FILES: Final = 10_000
_LATENCY: Final = Target(5)
_RATE: Final = Target(300, is_ceiling=False)
_WARM_UP_SECONDS: Final = 1.0
_SECONDS: Final = 4.0
_CONNECTIONS: Final = 8
_MANY_FILES: Final = 20_000
_MANY_KEPT: Final = 2_000
_MANY_PLANS: Final = 100
_WARM_UP_PLANS: Final = 20
_PATIENCE_SECONDS: Final = 60
_PATH: Final = f"/v1/{WAREHOUSE}/databases/{DATABASE}/tables/{TABLE}/plan"
_OK: Final = b"HTTP/1.1 200 "
_HEAD_END: Final = b"\r\n\r\n"


def suites() -> Iterator[Suite]:
    """Answers one by one, and as many as there can be."""
    yield Suite("HTTP", _figures, partial(prepare, NO_INDEX, _FILES))
    yield Suite("HTTP, many files", _many_figures, partial(prepare, NO_INDEX, _MANY_FILES))


def _many_figures(directory: Path) -> Iterator[Figure]:
    """Plans that keep a tenth of the files, each of other days."""
    with (
        server(warehouse_of(directory, NO_INDEX, _MANY_FILES)) as port,
        closing(_Connection(port)) as connection,
    ):
        took: list[float] = []
        answer = b""
        for number in range(_WARM_UP_PLANS + _MANY_PLANS):
            first = FIRST_DAY + timedelta(days=number)
            last = first + timedelta(days=_MANY_KEPT // FILES_PER_DAY - 1)
            body = json.dumps(
                {"filter": f"day BETWEEN DATE '{first}' AND DATE '{last}'", "page_size": _MANY_KEPT}
            )
            started = time.perf_counter()
            answer = connection.post(body.encode())
            took.append(time.perf_counter() - started)
    took = sorted(took[_WARM_UP_PLANS:])
    yield Figure(
        f"plan over HTTP, {_MANY_KEPT:,} files kept",
        _MANY_FILES,
        Unit.MILLISECONDS,
        percentile(took, 0.5) * 1e3,
        percentile(took, 0.99) * 1e3,
        runs=len(took),
        kept=len(json.loads(answer)["files"]),
        target=Target(10),
    )


def _figures(directory: Path) -> Iterator[Figure]:
    with server(warehouse_of(directory, NO_INDEX, _FILES)) as port:
        random = Random(port)
        with closing(_Connection(port)) as connection:
            _ask(connection, random, _WARM_UP_SECONDS)
            took, kept = _ask(connection, random, _SECONDS)
        yield Figure(
            "plan over HTTP, 10 files kept",
            _FILES,
            Unit.MILLISECONDS,
            percentile(took, 0.5) * 1e3,
            percentile(took, 0.99) * 1e3,
            runs=len(took),
            kept=kept,
            target=_LATENCY,
        )
        answers, seconds = _answers_side_by_side(port)
        yield Figure(
            f"plans over HTTP, {_CONNECTIONS} connections",
            _FILES,
            Unit.PER_SECOND,
            answers / seconds,
            runs=answers,
            kept=kept,
            target=_RATE,
        )


class _Connection:
    """An HTTP/1.1 connection that asks one thing after the other."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = self._socket.makefile("rb")

    def close(self) -> None:
        """End the connection."""
        self._answer.close()
        self._socket.close()

    def post(self, body: bytes) -> bytes:
        """Return the body of the answer."""
        head = f"POST {_PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = self._answer.readline()
        if not status.startswith(_OK):
            raise RuntimeError(f"the server answered {status!r}")
        length = 0
        while (line := self._answer.readline().lower()) != b"\r\n":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return self._answer.read(length)


def _ask(connection: _Connection, random: Random, seconds: float) -> tuple[list[float], int]:
    """Ask for that long; seconds that each answer took, ascending, and how many files the last one has."""
    took: list[float] = []
    answer = b""
    end = time.perf_counter() + seconds
    while not took or time.perf_counter() < end:
        body = json.dumps({"filter": sql(one_day(random, _FILES))}).encode()
        started = time.perf_counter()
        answer = connection.post(body)
        took.append(time.perf_counter() - started)
    return sorted(took), len(json.loads(answer)["files"])


def _answers_side_by_side(port: int) -> tuple[int, float]:
    """Answers over several connections at once, and the seconds that they took."""

    def ask(seed: int) -> int:
        with closing(_Connection(port)) as connection:
            took, _ = _ask(connection, Random(seed), _SECONDS)
        return len(took)

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        started = time.perf_counter()
        answers = sum(threads.map(ask, range(_CONNECTIONS)))
    return answers, time.perf_counter() - started

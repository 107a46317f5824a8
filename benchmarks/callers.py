"""How long ``/health/ready`` takes beside callers who ask for much, take nothing, or send nothing.

The callers are a process of their own. All of it shares the machine's cores, as it does in the field where
other programs run on a node.
"""

from __future__ import annotations

import json
import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, cast

from benchmarks.events import DATABASE, TABLE
from benchmarks.runner import percentile
from benchmarks.servers import server
from benchmarks.services import NO_INDEX, WAREHOUSE, prepare, warehouse_of
from benchmarks.workload import Figure, Suite, Target, Unit

_FILES: Final = 100_000
_SECONDS: Final = 8.0
_WARM_UP_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 60
_PAUSE_SECONDS: Final = 0.01
_PLAN: Final = f"/v1/{WAREHOUSE}/databases/{DATABASE}/tables/{TABLE}/plan"
_HEALTH: Final = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
_STREAMS: Final = Target(250)
_OTHERS: Final = Target(100)
_MAX_BODY: Final = 32 << 20
_UNREAD: Final[list[socket.socket]] = []
"""Connections that stay open until the process of the callers ends."""


@dataclass(frozen=True, slots=True)
class Callers:
    """Some callers who all do the same.

    Attributes:
        what: they do, for the table of results.
        count: how many there are.
        accept: the media type that they ask for.
        is_read: they take what they are sent; and ask again when they have it.
        body: what they send.
        claimed: length of the body as their requests tell it; None if that is what they send.
        target: for the slowest hundredth of the answers beside them.
    """

    what: str
    count: int
    accept: str = "application/json"
    is_read: bool = False
    body: bytes = b"{}"
    claimed: int | None = None
    target: Target = _OTHERS

    @property
    def request(self) -> bytes:
        """What each of them sends."""
        length = len(self.body) if self.claimed is None else self.claimed
        head = (
            f"POST {_PLAN} HTTP/1.1",
            "Host: localhost",
            "Connection: close",
            f"Accept: {self.accept}",
            "Content-Type: application/json",
            f"Content-Length: {length}",
        )
        return "\r\n".join((*head, "", "")).encode() + self.body


_NOBODY: Final = Callers("nobody", 0, target=Target(1))


def _literals(size: int) -> bytes:
    """Return a body of about so many bytes: a list of numbers."""
    numbers = ", ".join(map(str, range(10**9, 10**9 + size // 12)))
    return json.dumps({"filter": f"id IN ({numbers})"}).encode()


def _all() -> Iterator[Callers]:
    yield Callers("64 NDJSON streams", 64, "application/x-ndjson", is_read=True, target=_STREAMS)
    arrow = "application/vnd.apache.arrow.stream"
    yield Callers("64 Arrow streams", 64, arrow, is_read=True, target=_STREAMS)
    yield Callers("256 streams that nobody reads", 256, "application/x-ndjson")
    page = json.dumps({"page_size": 5_000}).encode()
    yield Callers("200 pages that nobody reads", 200, body=page)
    yield Callers("256 bodies that never arrive", 256, body=b"", claimed=1_000)
    yield Callers(
        "40 bodies that stop before their end", 40, body=_literals(_MAX_BODY - (1 << 20)), claimed=_MAX_BODY
    )
    yield Callers("8 bodies of 4 MB", 8, is_read=True, body=_literals(4 << 20))


def suites() -> Iterator[Suite]:
    """One caller's load, and another's wait."""
    yield Suite("callers", _figures, partial(prepare, NO_INDEX, _FILES))


def _figures(directory: Path) -> Iterator[Figure]:
    warehouse = warehouse_of(directory, NO_INDEX, _FILES)
    for workers in (1, 2):
        with server(warehouse, workers=workers, has_own_core=False) as port:
            took = _beside(_NOBODY, port)
        name = f"health beside nobody, {workers} {'worker' if workers == 1 else 'workers'}"
        yield _figure(name, took, 0.5, 0.99, _NOBODY.target)
    for callers in _all():
        with server(warehouse, has_own_core=False) as port:
            took = _beside(callers, port)
        yield _figure(f"health beside {callers.what}: p99, max", took, 0.99, 1, callers.target)


def _figure(name: str, took: list[float], share: float, larger: float, target: Target) -> Figure:
    """Two of the times, by how many answers took less."""
    low, high = (percentile(took, each) * 1e3 for each in (share, larger))
    return Figure(name, _FILES, Unit.MILLISECONDS, low, high, runs=len(took), target=target)


def _beside(callers: Callers, port: int) -> list[float]:
    """Seconds that answers took beside the callers, ascending."""
    context = multiprocessing.get_context("spawn")
    is_over = context.Event()
    process = context.Process(target=_call, args=(callers, port, is_over))
    process.start()
    took: list[float] = []
    try:
        with closing(socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun = time.perf_counter()
            while (started := time.perf_counter()) < begun + _WARM_UP_SECONDS + _SECONDS:
                connection.sendall(_HEALTH)
                answer = connection.recv(1 << 16)
                # Head and body may come apart.
                while not answer.endswith(b"}"):
                    answer += connection.recv(1 << 16)
                if not answer.startswith(b"HTTP/1.1 200 "):
                    raise RuntimeError(f"the server answered {answer[:100]!r}")
                if started > begun + _WARM_UP_SECONDS:
                    took.append(time.perf_counter() - started)
                time.sleep(_PAUSE_SECONDS)
    finally:
        is_over.set()
        process.join()
    return sorted(took)


def _call(callers: Callers, port: int, is_over: Event) -> None:
    """Do what the callers do until it is over."""
    request = callers.request
    with selectors.DefaultSelector() as selector:
        for _ in range(callers.count):
            _open(selector, port)
        unsent = {key.fd: memoryview(request) for key in selector.get_map().values()}
        while not is_over.is_set():
            for key, events in selector.select(0.1):
                connection = cast("socket.socket", key.fileobj)
                if events & selectors.EVENT_WRITE:
                    unsent[key.fd] = unsent[key.fd][connection.send(unsent[key.fd]) :]
                    if not unsent[key.fd]:
                        _expect(selector, connection, is_read=callers.is_read)
                elif not _take(connection):
                    selector.unregister(connection)
                    connection.close()
                    again = _open(selector, port)
                    unsent[again.fileno()] = memoryview(request)


def _open(selector: selectors.BaseSelector, port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS)
    connection.settimeout(0)
    selector.register(connection, selectors.EVENT_WRITE)
    return connection


def _expect(selector: selectors.BaseSelector, connection: socket.socket, *, is_read: bool) -> None:
    if is_read:
        selector.modify(connection, selectors.EVENT_READ)
    else:
        selector.unregister(connection)
        _UNREAD.append(connection)


def _take(connection: socket.socket) -> bool:
    """Whether there was something to take."""
    with suppress(ConnectionError):
        return bool(connection.recv(1 << 20))
    return False

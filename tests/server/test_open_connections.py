"""Connections are bounded by the descriptors of the process; those who ask for its health are answered."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.server.connections import OpenConnections
from tests.golden_tables import GoldenWarehouse
from tests.served import PATIENCE_SECONDS, serving

DESCRIPTORS = 256
CALLERS = 400
HEALTH = b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def test_silent_connections_keep_nobody_from_being_answered(golden: GoldenWarehouse, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(golden.root, before=f"ulimit -n {DESCRIPTORS}", log=log) as served, ExitStack() as stack:
        before = stack.enter_context(
            served.begin_plan("/v1/main/databases/golden/tables/append_sidecar/plan")
        )
        silent = [stack.enter_context(connect(served.port)) for _ in range(CALLERS)]
        asking = stack.enter_context(connect(served.port))
        asking.sendall(HEALTH)
        health = asking.recv(1 << 16)
        before.sendall(b"}")
        plan = before.recv(1 << 16)
        # The eldest gave way.
        assert silent[0].recv(1) == b""

    assert health.startswith(b"HTTP/1.1 200")
    assert plan.startswith(b"HTTP/1.1 ")
    assert log.read_text().count("socket.accept()") == 0


def test_the_soft_limit_of_descriptors_is_raised(golden: GoldenWarehouse) -> None:
    with serving(golden.root, before=f"ulimit -Sn {DESCRIPTORS}") as served, ExitStack() as stack:
        connections = [stack.enter_context(connect(served.port)) for _ in range(CALLERS)]
        for connection in connections:
            connection.sendall(HEALTH)
        answers = [connection.recv(12) for connection in connections]

    assert answers == [b"HTTP/1.1 200"] * CALLERS


class Connection:
    """A connection from an address."""

    def __init__(self, address: str) -> None:
        self.client = (address, 1)
        self.transport = self
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False


@pytest.fixture
def connections() -> OpenConnections:
    return OpenConnections(16)


def opened(connections: OpenConnections, count: int, address: str = "") -> list[Any]:
    found: list[Any] = [Connection(address or f"10.0.0.{n}") for n in range(count)]
    for each in found:
        connections.open(each)
    return found


def states(found: list[Any]) -> list[bool]:
    return [each.is_open for each in found]


def test_one_address_has_an_eighth_of_all_silent_connections(connections: OpenConnections) -> None:
    others = opened(connections, 3)
    ours = opened(connections, 4, "10.1.1.1")

    assert states(ours) == [False, False, True, True]
    assert states(others) == [True] * 3


def test_who_has_asked_is_not_silent(connections: OpenConnections) -> None:
    asked = opened(connections, 2, "10.1.1.1")
    for each in asked:
        connections.ask(each)
        connections.rest(each)
    opened(connections, 2, "10.1.1.1")

    assert states(asked) == [True, True]


def test_silent_connections_give_way_before_idle_ones_and_those_who_are_waited_for_never_do(
    connections: OpenConnections,
) -> None:
    asking = opened(connections, 14)
    for each in asking:
        connections.ask(each)
    idle = opened(connections, 1)
    connections.ask(idle[0])
    connections.rest(idle[0])
    silent = opened(connections, 1)

    newer = opened(connections, 1)
    assert (states(silent), states(idle)) == ([False], [True])
    connections.ask(newer[0])
    newer += opened(connections, 1)
    assert states(idle) == [False]
    connections.ask(newer[1])
    newer += opened(connections, 1)

    assert states(newer) == [True, True, False]
    assert states(asking) == [True] * 14


def test_fewer_requests_than_connections_may_be_under_way(connections: OpenConnections) -> None:
    assert connections.requests == 14

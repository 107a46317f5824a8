from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import uvicorn

from app.server.connections import UNTAKEN_ANSWERS, OpenConnections, PunctualProtocol, UntakenAnswers
from tests.golden_tables import GoldenWarehouse
from tests.served import PATIENCE_SECONDS, serving

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the state of a connection")
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class HastyProtocol(PunctualProtocol):
    head_seconds: ClassVar[float] = 1.0


async def application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def listening(answering: Callable[..., Any], protocol: type[PunctualProtocol]) -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(answering, port=0, log_config=None, lifespan="off", loop="asyncio", http=protocol)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with listening(application, HastyProtocol) as found:
        yield found


def received(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def receive_answer(connection: socket.socket) -> None:
    answer = b""
    while not answer.endswith(b"ok"):
        piece = connection.recv(65_536)
        assert piece, "the connection was closed"
        answer += piece


@pytest.mark.parametrize("head", [b"", b"G", REQUEST[:-2]])
def test_a_head_that_does_not_arrive_closes_the_connection(address: tuple[str, int], head: bytes) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head)

        assert received(connection) == b""


def test_a_later_head_that_does_not_arrive_closes_the_connection(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(REQUEST)
        receive_answer(connection)
        connection.sendall(REQUEST[:-2])

        assert received(connection) == b""


def test_requests_in_pieces_and_in_a_row_are_answered() -> None:
    with (
        listening(application, PunctualProtocol) as address,
        socket.create_connection(address, timeout=20) as connection,
    ):
        for _ in range(3):
            connection.sendall(REQUEST[:9])
            connection.sendall(REQUEST[9:])
            receive_answer(connection)


def test_a_connection_without_a_request_is_closed_after_the_time_that_is_set(golden: GoldenWarehouse) -> None:
    with (
        serving(golden.root, keep_alive_seconds=1) as served,
        socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection,
    ):
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")

        assert received(connection).startswith(b"HTTP/1.1 200")


class Flood:
    """An application that answers with more than anybody's buffers hold."""

    SIZE = 64 << 20

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % self.SIZE)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(self.SIZE)})


@pytest.fixture
def flood() -> Iterator[tuple[str, int]]:
    before = UNTAKEN_ANSWERS.seconds, UNTAKEN_ANSWERS.limit
    with listening(Flood(), PunctualProtocol) as found:
        yield found
    UNTAKEN_ANSWERS.seconds, UNTAKEN_ANSWERS.limit = before


def test_an_answer_that_nobody_takes_is_broken_off(flood: tuple[str, int]) -> None:
    UNTAKEN_ANSWERS.seconds = 0.2
    with socket.create_connection(flood, timeout=20) as connection:
        connection.sendall(REQUEST)
        connection.recv(1)
        while not UNTAKEN_ANSWERS.unsent_bytes:
            pass
        while UNTAKEN_ANSWERS.unsent_bytes:
            pass
        assert len(received(connection)) < Flood.SIZE


def test_an_answer_that_is_taken_arrives_however_large(flood: tuple[str, int]) -> None:
    UNTAKEN_ANSWERS.seconds = 5.0
    with socket.create_connection(flood, timeout=20) as connection:
        connection.sendall(REQUEST)
        size = 0
        while size < Flood.SIZE:
            size += len(connection.recv(1 << 20))

    # The caller may have the last bytes before the event loop looks at its buffer again.
    while UNTAKEN_ANSWERS.unsent_bytes:
        pass


class Clock:
    """The time of an event loop that calls nothing."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def call_later(self, _seconds: float, *_: Any) -> Any:
        return SimpleNamespace(cancel=lambda: None)


class Caller:
    """A connection whose caller left 100 bytes untaken."""

    def __init__(self, loop: Clock) -> None:
        self.loop = loop
        self.is_broken_off = False
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: 100, abort=self._abort)

    def _abort(self) -> None:
        self.is_broken_off = True


def test_of_answers_that_are_too_much_together_the_one_goes_that_waits_longest() -> None:
    answers, clock = UntakenAnswers(), Clock()
    answers.limit = 250
    callers: Any = [Caller(clock) for _ in range(4)]
    for caller in callers[:2]:
        answers.add(caller)
    clock.now = 10
    for caller in callers[2:]:
        answers.add(caller)

    assert [caller.is_broken_off for caller in callers] == [True, True, False, False]


def test_nobody_is_broken_off_who_was_given_no_time() -> None:
    answers, clock = UntakenAnswers(), Clock()
    answers.limit = 50
    caller: Any = Caller(clock)

    answers.add(caller)

    assert not caller.is_broken_off


def test_a_request_of_two_lengths_is_refused_and_the_connection_closed(address: tuple[str, int]) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head + b"0\r\n\r\n" + REQUEST)
        answers = received(connection)

    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "header", [b"Content-Length: 5\r\n\r\nabcde", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
def test_a_request_of_one_length_is_answered(address: tuple[str, int], header: bytes) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + header)
        receive_answer(connection)
        connection.sendall(REQUEST)
        receive_answer(connection)


class OverloadedProtocol(PunctualProtocol):
    """Has waited for too long whatever it looks at."""

    unread_seconds: ClassVar[float] = 0.0


@ON_LINUX
def test_a_request_that_waited_for_too_long_is_refused_and_health_is_not() -> None:
    with listening(application, OverloadedProtocol) as address:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(b"POST /v1/main/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            refused = received(connection)
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
            receive_answer(connection)

    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ")
    assert b"Retry-After: 1" in head
    assert json.loads(body)["type"] == "urn:paimon-index:error:too-many-requests"


@ON_LINUX
def test_a_caller_who_has_gone_before_the_request_was_looked_at_is_not_answered() -> None:
    begun, released, asked = threading.Event(), threading.Event(), list[str]()

    async def holding(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        if scope["path"] == "/v1/hold":
            begun.set()
            # The event loop looks at nothing meanwhile.
            assert released.wait(20)
        await application(scope, receive, send)

    with listening(holding, PunctualProtocol) as address, ExitStack() as stack:
        first, gone, stays = (
            stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(3)
        )
        first.sendall(REQUEST.replace(b"/ ", b"/v1/hold ", 1))
        assert begun.wait(20)
        gone.sendall(REQUEST.replace(b"/ ", b"/v1/gone ", 1))
        gone.close()
        stays.sendall(REQUEST.replace(b"/ ", b"/v1/stays ", 1))
        released.set()
        receive_answer(first)
        receive_answer(stays)

    assert asked == ["/v1/hold", "/v1/stays"]


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

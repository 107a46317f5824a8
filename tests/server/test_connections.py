import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import uvicorn

from app.main import create_app
from app.server.connections import PunctualProtocol
from app.settings import Settings
from tests.golden_cases import GoldenWarehouse
from tests.served import PATIENCE_SECONDS, serving

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class HastyProtocol(PunctualProtocol):
    head_seconds: ClassVar[float] = 1.0


async def application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def listening(
    answering: Callable[..., Any],
    protocol: type[PunctualProtocol],
    lifespan: Literal["on", "off"] = "off",
) -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(
        answering, port=0, log_config=None, lifespan=lifespan, loop="asyncio", http=protocol
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with listening(application, HastyProtocol) as found:
        yield found


def received(connection: socket.socket) -> bytes:
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
    """An application that answers with more than anybody's buffers hold, within these limits."""

    SIZE = 64 << 20

    def __init__(self, **limits: float) -> None:
        self.ended = threading.Event()
        self._limits = limits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            scope["state"].update(self._limits)
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        headers = [(b"content-length", b"%d" % self.SIZE)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(self.SIZE), "more_body": True})
        # Waits until the answer is taken or broken off.
        await send({"type": "http.response.body"})
        self.ended.set()


def test_an_answer_that_nobody_takes_is_broken_off() -> None:
    flood = Flood(untaken_seconds=0.2)
    with (
        listening(flood, PunctualProtocol, lifespan="on") as address,
        socket.create_connection(address, timeout=20) as connection,
    ):
        connection.sendall(REQUEST)
        assert flood.ended.wait(20)

        assert len(received(connection)) < Flood.SIZE


def test_an_answer_that_is_taken_arrives_however_large() -> None:
    flood = Flood(untaken_seconds=5.0)
    with (
        listening(flood, PunctualProtocol, lifespan="on") as address,
        socket.create_connection(address, timeout=20) as connection,
    ):
        connection.sendall(REQUEST)
        size = 0
        while size < Flood.SIZE:
            size += len(connection.recv(1 << 20))


class ImpatientProtocol(PunctualProtocol):
    patience_seconds: ClassVar[float] = 0.0


@pytest.mark.parametrize("protocol", [PunctualProtocol, ImpatientProtocol])
def test_of_answers_that_are_too_much_together_the_one_goes_that_waits_longest(
    protocol: type[PunctualProtocol],
) -> None:
    patience = PATIENCE_SECONDS if protocol is ImpatientProtocol else 0.5
    flood = Flood(untaken_seconds=3.0 + patience, untaken_bytes=1.5 * Flood.SIZE)
    with (
        listening(flood, protocol, lifespan="on") as address,
        socket.create_connection(address, timeout=20) as first,
        socket.create_connection(address, timeout=20) as second,
    ):
        for connection in (first, second):
            connection.sendall(REQUEST)
            connection.recv(1)
        # Nobody is broken off for others who was given no time.
        is_broken_off = flood.ended.wait(patience)

        assert is_broken_off is (protocol is ImpatientProtocol)
        assert is_broken_off is (len(received(first)) < Flood.SIZE // 2)


def test_a_request_of_two_lengths_is_refused_and_the_connection_closed(address: tuple[str, int]) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head + b"0\r\n\r\n" + REQUEST)
        answers = received(connection)

    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "head",
    [
        REQUEST.replace(b"1.1", b"9.9"),
        REQUEST.replace(b"\r\n", b"\n"),
        REQUEST.replace(b"\r\nHost", b"\nHost"),
        REQUEST.replace(b"\r\n\r\n", b"\r\n\n"),
        b"GET / HTTP/1.1\r\nHost: x\r\nAccept: text/plain,\r\n text/html\r\n\r\n",
    ],
)
def test_a_head_that_others_may_read_differently_is_refused(address: tuple[str, int], head: bytes) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head)

        assert received(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("target", "path"), [("/v1?a=/b", "/v1"), ("", "/"), ("?a", "/")])
def test_an_absolute_target_is_answered_for_its_host_and_path(target: str, path: str) -> None:
    async def echo(scope: Any, _receive: Any, send: Any) -> None:
        body = b" ".join([dict(scope["headers"])[b"host"], scope["path"].encode(), b"ok"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    with (
        listening(echo, PunctualProtocol) as address,
        socket.create_connection(address, timeout=20) as connection,
    ):
        head = f"GET http://index:8080{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())

        assert f"index:8080 {path} ok".encode() in received(connection)


@pytest.mark.parametrize(
    "header", [b"Content-Length: 5\r\n\r\nabcde", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
def test_a_request_of_one_length_is_answered(address: tuple[str, int], header: bytes) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + header)
        receive_answer(connection)
        connection.sendall(REQUEST)
        receive_answer(connection)


class StalledProtocol(PunctualProtocol):
    """Looks at each request later than it should."""

    unread_seconds: ClassVar[float] = 0.0


class BehindProtocol(StalledProtocol):
    """Has more requests in flight than it can answer, too."""

    few_requests: ClassVar[int] = 0


class PatientProtocol(StalledProtocol):
    few_requests: ClassVar[int] = 2


def test_of_many_requests_in_a_row_that_lay_unread_the_later_ones_are_refused(tmp_path: Path) -> None:
    app = create_app(Settings.load(warehouses={"main": str(tmp_path)}))
    statuses = []
    with listening(app, PatientProtocol, lifespan="on") as address:
        for _ in range(5):
            # None is in flight when the next one comes, as if each caller had left.
            with connect(address[1]) as caller:
                caller.sendall(b"GET /v1/config HTTP/1.1\r\nHost: x\r\n\r\n")
                statuses.append(caller.recv(12)[-3:])

    assert statuses[2:] == [b"429"] * 3


@pytest.mark.parametrize(("protocol", "refused"), [(StalledProtocol, 0), (BehindProtocol, 3)])
def test_requests_that_lay_unread_are_refused_only_beside_many_in_flight(
    tmp_path: Path, protocol: type[PunctualProtocol], refused: int
) -> None:
    app = create_app(Settings.load(warehouses={"main": str(tmp_path)}))
    with listening(app, protocol, lifespan="on") as address, ExitStack() as stack:
        callers = [stack.enter_context(connect(address[1])) for _ in range(3)]
        for caller in callers:
            caller.sendall(b"GET /v1/config HTTP/1.1\r\nHost: x\r\n\r\n")
        statuses = [caller.recv(12)[-3:] for caller in callers]

    assert statuses.count(b"429") == refused


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long bytes lay unread")
def test_a_request_that_lay_unread_is_refused_and_health_and_metrics_are_not(tmp_path: Path) -> None:
    app = create_app(Settings.load(warehouses={"main": str(tmp_path)}))
    answers = {}
    with listening(app, BehindProtocol, lifespan="on") as address:
        for path in ("/v1/main/plan", "/iceberg/v1/config", "/health/live", "/metrics"):
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                answers[path] = received(connection)

    statuses = {path: int(answer.split()[1]) for path, answer in answers.items()}
    assert statuses == {"/v1/main/plan": 429, "/iceberg/v1/config": 429, "/health/live": 200, "/metrics": 200}
    assert b'paimon_index_requests_total{route="unrouted",status="429"} 2.0' in answers["/metrics"]
    head, _, body = answers["/v1/main/plan"].partition(b"\r\n\r\n")
    problem = json.loads(body)
    assert b"retry-after: 1\r\n" in head
    assert b"content-type: application/problem+json\r\n" in head
    assert f"x-request-id: {problem['instance']}".encode() in head
    assert problem["type"] == "urn:paimon-index:error:too-many-requests"
    assert json.loads(answers["/iceberg/v1/config"].partition(b"\r\n\r\n")[2])["error"]["code"] == 429


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

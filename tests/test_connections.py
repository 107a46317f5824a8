from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import uvicorn

from app.connections import PunctualProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class HastyProtocol(PunctualProtocol):
    head_seconds: ClassVar[float] = 0.2


async def application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(application, port=0, log_config=None, lifespan="off", http=HastyProtocol)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join()


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


def test_requests_in_pieces_and_in_a_row_are_answered(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        for _ in range(3):
            connection.sendall(REQUEST[:9])
            connection.sendall(REQUEST[9:])
            receive_answer(connection)

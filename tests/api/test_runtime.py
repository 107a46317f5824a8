"""Work ends when nobody waits for it any more: its time is up, or its caller went away."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.api.request_ids import RequestIds
from app.api.runtime import Runtime
from app.errors import DeadlineExceededError, RequestCancelledError
from app.opening import create_service
from app.settings import Settings
from app.storage import check_deadline
from tests.api.conftest import listening

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_SECONDS = 20


class Endless:
    """An application whose work ends only when it is told to; ``ended_by`` is what told it."""

    def __init__(self, warehouse: Path, deadline_seconds: float) -> None:
        settings = Settings.load(warehouses={"main": str(warehouse)}, deadline_seconds=deadline_seconds)
        self._runtime = Runtime.start(settings, create_service(settings))
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.ended_by: type[Exception] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        runtime = replace(self._runtime, receive=receive)
        await RequestIds(lambda *_: runtime.run(self._work))(scope, receive, send)

    def close(self) -> None:
        self._runtime.close()
        self._runtime.service.close()

    def _work(self) -> None:
        self.begun.set()
        try:
            while True:
                check_deadline()
        except DeadlineExceededError as error:
            self.ended_by = type(error)
            self.ended.set()
            raise


def test_work_ends_when_its_caller_goes_away(tmp_path: Path) -> None:
    endless = Endless(tmp_path, deadline_seconds=10 * PATIENCE_SECONDS)
    with listening(endless, lifespan="off") as client:
        with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert endless.begun.wait(PATIENCE_SECONDS)

        assert endless.ended.wait(PATIENCE_SECONDS)

    assert endless.ended_by is RequestCancelledError
    endless.close()


def test_work_ends_when_its_time_is_up(tmp_path: Path) -> None:
    endless = Endless(tmp_path, deadline_seconds=0.3)
    with listening(endless, lifespan="off") as client:
        response = client.get("/")

    assert response.status_code == 504
    assert endless.ended.wait(PATIENCE_SECONDS)
    endless.close()

"""Work ends when nobody waits for it any more: its time is up, or its caller went away."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.responses import Response

from app.api.problems import problem_of
from app.api.request_ids import RequestIds
from app.api.runtime import Runtime
from app.errors import BusyError, DeadlineExceededError, RequestCancelledError
from app.opening import create_service
from app.settings import Settings
from app.storage import check_deadline
from tests.api.conftest import listening

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


class OneThread:
    """An application with one thread, which the first request holds, and a place for one that waits."""

    def __init__(self, warehouse: Path) -> None:
        settings = Settings.load(warehouses={"main": str(warehouse)}, threads=1, concurrency=2)
        self._runtime = Runtime.start(settings, create_service(settings))
        self.begun = threading.Event()
        self.released = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        runtime = replace(self._runtime, receive=receive)
        try:
            await runtime.run(self._work)
            response = Response(b"done")
        except BusyError as error:
            response = problem_of(error).response("")
        await response(scope, receive, send)

    def close(self) -> None:
        self._runtime.close()
        self._runtime.service.close()

    def _work(self) -> None:
        self.begun.set()
        assert self.released.wait(PATIENCE_SECONDS)


def test_where_no_place_is_left_the_oldest_that_waits_is_refused_for_the_newest(tmp_path: Path) -> None:
    one = OneThread(tmp_path)
    with listening(one, lifespan="off") as client, ThreadPoolExecutor(3) as callers:
        first = callers.submit(client.get, "/")
        assert one.begun.wait(PATIENCE_SECONDS)
        others = [callers.submit(client.get, "/") for _ in range(2)]
        refused, waiting = wait(others, PATIENCE_SECONDS, FIRST_COMPLETED)
        one.released.set()
        statuses = [each.result().status_code for each in (first, *refused, *waiting)]
    one.close()

    assert statuses == [200, 429, 200]
    assert refused.pop().result().headers["retry-after"] == "1"

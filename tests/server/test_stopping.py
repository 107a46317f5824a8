"""How a server process ends, and that it can begin again."""

import asyncio
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.supervisors.multiprocess import SIGNALS, Process

from app.api.http.problems import ProblemError
from app.api.routes.operations import Caches, Warmth
from app.opening import create_service
from app.server.processes import VARIABLE, Processes, shared_directory
from app.server.stopping import WorkerSupervisor
from app.settings import Settings
from tests.golden_cases import GoldenWarehouse
from tests.served import PATIENCE_SECONDS, Served, serving
from tests.server.test_connections import received

PLAN = "/v1/main/databases/golden/tables/append_sidecar/plan"


def answers(served: Served, path: str) -> Iterator[Any]:
    """Yield what a new connection gets, over and over, until nobody listens."""
    while True:
        try:
            yield httpx.get(f"http://127.0.0.1:{served.port}{path}", timeout=PATIENCE_SECONDS).status_code
        except httpx.HTTPError:
            return


def test_requests_are_taken_while_others_are_told_not_to_send_more(golden: GoldenWarehouse) -> None:
    with (
        serving(golden.root, drain_seconds=2, grace_seconds=60) as served,
        served.begin_plan(PLAN) as connection,
    ):
        served.process.send_signal(signal.SIGTERM)
        ready = list(answers(served, "/health/ready"))
        connection.sendall(b"}")
        answer = received(connection)
        status = served.process.wait(PATIENCE_SECONDS)

    # The signal may not have been seen by the first of them.
    assert set(ready) <= {200, 503}
    assert ready[-1] == 503
    assert answer.startswith(b"HTTP/1.1 200")
    assert status == 0


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_what_outlives_the_grace_period_is_answered_and_the_status_is_0(
    golden: GoldenWarehouse, workers: int
) -> None:
    with serving(golden.root, workers, drain_seconds=0, grace_seconds=1) as served:
        with served.begin_plan(PLAN) as connection:
            served.process.send_signal(signal.SIGTERM)
            answer = received(connection)
        status = served.process.wait(PATIENCE_SECONDS)

    assert answer.startswith(b"HTTP/1.1 503")
    assert b"urn:paimon-index:error:not-ready" in answer
    assert b"retry-after: 1" in answer
    assert status == 0


def test_a_second_signal_ends_at_once(golden: GoldenWarehouse) -> None:
    with serving(golden.root, drain_seconds=10 * PATIENCE_SECONDS) as served:
        served.process.send_signal(signal.SIGTERM)
        while served.client.get("/health/ready").status_code == 200:
            pass
        served.process.send_signal(signal.SIGTERM)

        assert served.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.long
def test_the_disk_cache_survives_being_killed(golden: GoldenWarehouse, tmp_path: Path) -> None:
    plans = []
    for asked in (1, 9):
        with serving(golden.root, disk_cache=tmp_path / "cache") as served:
            plans += [served.client.post(PLAN, json={"limit": n + 1}) for n in range(asked)]
            served.process.send_signal(signal.SIGKILL)

    assert {plan.status_code for plan in plans} == {200}
    files = [plan.json()["files"] for plan in plans if plan.request.content == plans[0].request.content]
    assert files == [files[0]] * 2


def children(served: Served) -> list[int]:
    """Return the workers, and the process that multiprocessing tracks its resources with."""
    tasks = Path(f"/proc/{served.process.pid}/task/{served.process.pid}")
    return list(map(int, (tasks / "children").read_text().split()))


def listens_no_more(served: Served) -> bool:
    give_up = time.monotonic() + PATIENCE_SECONDS / 4
    return not any(time.monotonic() > give_up for _ in answers(served, "/health/live"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent ended")
def ends(process: int) -> None:
    """Wait for the end of a process that is no child of this one."""
    with suppress(ProcessLookupError):
        ended = os.pidfd_open(process)
        try:
            assert select.select([ended], [], [], PATIENCE_SECONDS)[0]
        finally:
            os.close(ended)


def test_workers_end_when_their_parent_is_killed_and_leave_no_files(golden: GoldenWarehouse) -> None:
    with serving(golden.root, workers=2) as served:
        workers = children(served)
        named = re.search(VARIABLE.encode() + b"=([^\0]+)", Path(f"/proc/{workers[-1]}/environ").read_bytes())
        served.process.kill()
        try:
            assert listens_no_more(served)
            for worker in workers:
                ends(worker)
            assert named
            assert not Path(named[1].decode()).exists()
        finally:
            for worker in workers:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)


def test_a_signal_is_heeded_while_a_worker_is_silent() -> None:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        workers = WorkerSupervisor(
            uvicorn.Config("none", timeout_worker_healthcheck=PATIENCE_SECONDS), sockets=[]
        )
        # Never started, it answers nothing.
        workers.processes.append(Process(workers.config, []))
        signal.raise_signal(signal.SIGTERM)
        workers.keep_subprocess_alive()
        workers.handle_signals()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert workers.should_exit.is_set()


@contextmanager
def answering(directory: Path | None, asking_seconds: float = 2.0, **answers: bytes) -> Iterator[Processes]:
    process = Processes(directory, asking_seconds)
    for question, content in answers.items():
        process.answer(question.encode(), lambda content=content: content)  # type: ignore[misc]
    process.start()
    yield process
    process.stop()


def test_every_other_process_is_asked(tmp_path: Path) -> None:
    with (
        answering(tmp_path, who=b"first") as first,
        answering(tmp_path, who=b"second") as second,
        answering(tmp_path, who=b"third" * 100_000) as third,
    ):
        assert dict(first.ask(b"who")) == {second.name: b"second", third.name: b"third" * 100_000}
        assert {content for _, content in third.ask(b"who")} == {b"first", b"second"}


def test_a_process_that_ended_is_told_from_one_that_hangs(tmp_path: Path) -> None:
    with (
        answering(tmp_path, 0.2) as asking,
        closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as hanging,
    ):
        hanging.bind(str(tmp_path / "hanging.sock"))
        hanging.listen()
        with answering(tmp_path, who=b"ended") as ended:
            pass

        assert list(asking.ask(b"who")) == [("hanging", None)]
        with answering(tmp_path, who=b"successor") as successor:
            assert successor.name == ended.name
            assert dict(asking.ask(b"who")) == {successor.name: b"successor", "hanging": None}


def test_one_process_alone_asks_nobody() -> None:
    with answering(None) as alone:
        assert list(alone.ask(b"who")) == []


def test_caches_that_are_not_known_to_be_cleared_are_an_error(tmp_path: Path) -> None:
    service = create_service(Settings(warehouses={"main": str(tmp_path)}))
    with (
        answering(tmp_path, 0.2) as processes,
        closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as hanging,
    ):
        hanging.bind(str(tmp_path / "hanging.sock"))
        hanging.listen()

        with pytest.raises(ProblemError) as caught:
            Caches(service, processes).clear()

    assert caught.value.problem.status == 503
    assert "1 of 2 processes" in caught.value.problem.detail


def test_balancers_wait_for_the_tables_of_every_process(tmp_path: Path) -> None:
    is_warm = {"own": False, "other": False}
    own, other = Processes(tmp_path), Processes(tmp_path)
    warmth = Warmth(lambda: is_warm["own"], own)
    Warmth(lambda: is_warm["other"], other)
    reached = []
    own.start()
    other.start()
    for name in ("", *is_warm):
        is_warm |= {name: True}
        reached.append(asyncio.run(warmth.is_reached()))
    own.stop()
    other.stop()

    assert reached == [False, False, True]


def test_the_directory_of_a_run_is_private_and_removed() -> None:
    with shared_directory() as directory:
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not directory.exists()

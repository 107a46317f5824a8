"""Requests that wait for a thread: the newest and the oldest go first by turns, the oldest is refused."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import Response

from app.api.gate.admission import Admission, Bulkhead
from app.api.http.headers import RequestIds
from app.api.http.problems import problem_of
from app.errors import BusyError
from tests.api.conftest import listening

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 20


class Hung:
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.released = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.released.wait(PATIENCE_SECONDS)
        return "hung"


class Clock(asyncio.SelectorEventLoop):
    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@pytest.fixture
def begun() -> list[str]:
    return []


def bulkhead(limit: int) -> Bulkhead:
    return Bulkhead("test", threads=1, limit=limit)


async def held(pool: Bulkhead) -> tuple[Hung, asyncio.Future[str]]:
    """Have the one thread do something that does not end."""
    hung = Hung()
    answer = pool.submit(hung)
    await hung.begun.wait()
    return hung, answer


async def test_the_newest_and_the_oldest_go_first_by_turns(begun: list[str]) -> None:
    pool = bulkhead(limit=6)
    hung, first = await held(pool)
    answers = [pool.submit(partial(begun.append, name)) for name in "abcde"]
    hung.released.set()
    await asyncio.gather(first, *answers)
    pool.close()

    assert begun == ["a", "e", "b", "d", "c"]


async def test_a_piece_of_an_answer_that_is_sent_goes_before_what_is_not_begun(begun: list[str]) -> None:
    pool = bulkhead(limit=1)
    hung, first = await held(pool)
    first.cancel()
    await asyncio.sleep(0)
    answers = [
        pool.submit(partial(begun.append, "piece"), is_begun=True),
        pool.submit(partial(begun.append, "new")),
    ]
    hung.released.set()
    await asyncio.gather(*answers)
    pool.close()

    assert begun == ["piece", "new"]


async def test_the_oldest_that_waits_is_refused_for_a_newer_one(begun: list[str]) -> None:
    pool = bulkhead(limit=3)
    hung, first = await held(pool)
    oldest, *others = (pool.submit(partial(begun.append, name)) for name in "abc")
    with pytest.raises(BusyError):
        await oldest
    hung.released.set()
    assert await first == "hung"
    await asyncio.gather(*others)
    assert pool.under_way == 0
    pool.close()

    assert begun == ["b", "c"]


async def test_what_is_worked_on_is_never_refused(begun: list[str]) -> None:
    pool = bulkhead(limit=1)
    hung, first = await held(pool)
    with pytest.raises(BusyError):
        pool.submit(partial(begun.append, "a"))
    hung.released.set()
    assert await first == "hung"
    pool.close()

    assert begun == []


@pytest.mark.parametrize("loop_had_its_turn", [True, False])
async def test_who_goes_away_leaves_the_line(begun: list[str], loop_had_its_turn: bool) -> None:
    pool = bulkhead(limit=2)
    hung, first = await held(pool)
    pool.submit(partial(begun.append, "gone")).cancel()
    if loop_had_its_turn:
        await asyncio.sleep(0)
        assert pool.under_way == 1
    stays = pool.submit(partial(begun.append, "stays"))
    hung.released.set()
    await asyncio.gather(first, stays)
    pool.close()

    assert begun == ["stays"]


async def test_a_thread_that_hangs_stays_counted_when_nobody_waits_for_it(begun: list[str]) -> None:
    pool = bulkhead(limit=1)
    hung, first = await held(pool)
    first.cancel()
    await asyncio.sleep(0)
    later = pool.submit(partial(begun.append, "later"))
    assert pool.is_waiting(later)
    hung.released.set()
    await later
    pool.close()

    assert begun == ["later"]


def test_who_is_refused_is_told_to_come_back_when_those_who_wait_may_be_answered() -> None:
    clock = Clock()

    async def main() -> BusyError:
        pool = bulkhead(limit=3)
        hung, first = await held(pool)
        # A sixteenth of it counts, since everything before took no time.
        clock.ahead = 100.0
        hung.released.set()
        await first
        hung, first = await held(pool)
        answers = [pool.submit(lambda: None) for _ in range(3)]
        with pytest.raises(BusyError) as refused:
            await answers[0]
        hung.released.set()
        await asyncio.gather(first, *answers[1:])
        pool.close()
        return refused.value

    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        error = runner.run(main())

    # Two requests waited, each for a sixteenth of 100 s, rounded up.
    assert problem_of(error).headers == {"Retry-After": "13"}


def test_more_requests_than_may_be_under_way_are_turned_away_and_health_is_not() -> None:
    entered, leave = threading.Event(), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/v1/held":
            entered.set()
            loops.append(asyncio.get_running_loop())
            await leave.wait()
        await Response(b"done")(scope, receive, send)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = SimpleNamespace(state=SimpleNamespace(runtime=application))
        await RequestIds(gate)(scope, receive, send)

    loops: list[asyncio.AbstractEventLoop] = []
    gate = Admission(application, 1)
    with listening(guarded, lifespan="off") as client, ThreadPoolExecutor(1) as callers:
        held = callers.submit(client.get, "/v1/held")
        assert entered.wait(PATIENCE_SECONDS)
        refused, health = client.get("/v1/config"), client.get("/health/ready")
        loops[0].call_soon_threadsafe(leave.set)
        statuses = [held.result().status_code, client.get("/v1/config").status_code]

    assert (refused.status_code, refused.headers["retry-after"], refused.json()["limit"]) == (429, "1", 1)
    assert refused.json()["type"] == "urn:paimon-index:error:too-many-requests"
    assert [health.status_code, *statuses] == [200, 200, 200]

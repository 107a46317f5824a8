"""Admission: every bound on the number of requests, and the order in which they run.

========================= ============================================== =====================================
bound                     what counts                                    beyond it
========================= ============================================== =====================================
:func:`refuse_unread`     seconds for which a request was unread, if     429, without being parsed
                          many are in flight
:class:`Admission`        requests in flight in a process, including     429 at once; 503 before the service
                          bodies that arrive and answers being sent      is ready
:class:`Bulkhead`         requests of a warehouse that run or wait for a 429 for the one that waits longest
                          thread
threads of a bulkhead     requests of a warehouse that run               the oldest and the newest start in
                                                                         turn
:mod:`app.work.cores`     threads that compute, as many as cores         warehouses take turns; within one,
                                                                         started work goes first, then newest
========================= ============================================== =====================================

Health always answers, so that monitoring sees why nothing else does.

Each warehouse has threads and places of its own, so that a hanging storage holds up no other warehouse.
Separate threads parse large bodies, so storage never holds up parsing. Requests about no warehouse have
threads of their own, too.

First-in-first-out would start each request when its caller is about to give up, so that no caller is answered
under lasting overload. Newest-first would leave patient callers waiting until their deadline.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from app.api.http.problems import AGAIN, Problem, problem_of_status
from app.errors import BusyError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_T = TypeVar("_T")

# Weight of the latest request in the moving mean of request times.
_WEIGHT: Final = 1 / 16

_LONGEST_PAUSE_SECONDS: Final = 30

_GUARDED: Final = ("/v1/", "/iceberg/")
_FIRST_BYTES: Final = 256

MOST_REQUESTS: Final = 2_048
"""Limit of requests in flight in one process."""


def refuse_unread(head: bytes) -> bytes | None:
    """Build a 429 from the first bytes of a request.

    Return None for health checks, which are always parsed.
    """
    path = head[:_FIRST_BYTES].partition(b" ")[2].decode("latin-1")
    if not path.startswith(_GUARDED):
        return None
    detail = "more requests come than this process can read; ask again in a moment"
    problem = problem_of_status(429, detail, headers={**AGAIN, "Connection": "close"})
    request_id = uuid.uuid4().hex
    answer = problem.response({"path": path, "state": {"request_id": request_id}})
    headers = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
    written = b"HTTP/1.1 429 Too Many Requests\r\n%bx-request-id: %b\r\n\r\n%b"
    return written % (headers, request_id.encode(), bytes(answer.body))


class Admission:
    """ASGI middleware that bounds requests under ``/v1`` and ``/iceberg``."""

    def __init__(self, app: ASGIApp, requests: int) -> None:
        self._app = app
        self._requests = requests
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal.response(scope)(scope, receive, send)
            return
        self._in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight -= 1

    def _refusal(self, scope: Scope) -> Problem | None:
        if scope["app"].state.runtime is None:
            return problem_of_status(503, "the service is starting or shutting down", headers=AGAIN)
        if self._in_flight >= self._requests:
            detail = f"{self._requests} requests are in flight already"
            return problem_of_status(429, detail, headers=AGAIN, limit=self._requests)
        return None


class Bulkhead:
    """Threads and a queue of requests that wait for them. Used by the event loop alone.

    ``warehouse``: None for requests about no warehouse. ``threads``: size of the pool. ``limit``: requests
    that run or wait. Bodies that still arrive and answers that have begun do not count.
    """

    def __init__(self, warehouse: str | None, threads: int, limit: int) -> None:
        self.warehouse = warehouse
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"paimon-index-{warehouse or ''}")
        self._threads = self._free = threads
        self._limit = limit
        self._running: set[asyncio.Future[Any]] = set()
        self._waiting: dict[asyncio.Future[Any], Callable[[], Any]] = {}
        self._pieces: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._oldest_next = False
        self._mean_seconds = 0.0

    @property
    def under_way(self) -> int:
        """Requests that run for a waiting caller, or wait for a thread."""
        return len(self._running) + len(self._waiting)

    def submit(self, work: Callable[[], _T], *, is_begun: bool = False) -> asyncio.Future[_T]:
        """Run ``work`` in a thread. The caller cancels the future once it is no longer needed.

        ``is_begun``: part of the answer is sent already, so the work is never refused and goes first. The
        future fails with BusyError if newer requests take the last place. Raises BusyError if the limit is
        reached, and no waiting request can be refused instead.
        """
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        if is_begun:
            self._pieces.append((answer, work))
        else:
            if self.under_way >= self._limit:
                self._refuse_oldest()
            self._waiting[answer] = work
            answer.add_done_callback(self._leave)
        self._begin()
        return answer

    def is_waiting(self, answer: asyncio.Future[_T]) -> bool:
        """Return True while a request waits for a thread."""
        return answer in self._waiting

    def close(self) -> None:
        """End the threads and drop work that has not started."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _refuse_oldest(self) -> None:
        pause = len(self._waiting) * self._mean_seconds / self._threads
        error = BusyError(
            f"{self._limit} requests run or wait already",
            limit=self._limit,
            pause_seconds=min(max(1, math.ceil(pause)), _LONGEST_PAUSE_SECONDS),
        )
        if not self._waiting:
            raise error
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        # A caller who has just gone away frees a place too, though the loop removes the future only later.
        if not oldest.done():
            oldest.set_exception(error)

    def _begin(self) -> None:
        while self._free and (self._pieces or self._waiting):
            if self._pieces:
                answer, work = self._pieces.popleft()
            else:
                answer = next(iter(self._waiting) if self._oldest_next else reversed(self._waiting))
                self._oldest_next = not self._oldest_next
                work = self._waiting.pop(answer)
                self._running.add(answer)
            if answer.done():
                continue
            # A thread that storage holds up is not free, even after its request was answered with 504. So no
            # number of such requests makes more threads.
            self._free -= 1
            loop = asyncio.get_running_loop()
            ended = partial(self._end, answer, loop.time())
            loop.run_in_executor(self._pool, work).add_done_callback(ended)

    def _end(self, answer: asyncio.Future[_T], since: float, done: asyncio.Future[_T]) -> None:
        self._free += 1
        self._mean_seconds += _WEIGHT * (answer.get_loop().time() - since - self._mean_seconds)
        if done.cancelled():
            answer.cancel()
            return
        error = done.exception()
        if answer.done():
            pass
        elif error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error)
        self._begin()

    def _leave(self, answer: asyncio.Future[Any]) -> None:
        self._waiting.pop(answer, None)
        self._running.discard(answer)

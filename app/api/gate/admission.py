"""Who gets in, and whose turn it is: every bound on the number of requests.

========================= ============================================== =====================================
bound                     what counts                                    beyond it
========================= ============================================== =====================================
:func:`refuse_unread`     seconds for which a request lay unread         429, without being parsed
:class:`Admission`        requests of a process, whatever they wait for; 429 at once; 503 before the service
                          also bodies that arrive and answers on their   is ready
                          way
:class:`Bulkhead`         requests of a warehouse that are worked on, or the one that waits longest is 429
                          wait for a thread
threads of a bulkhead     requests of a warehouse that are worked on     the oldest and the newest are begun
                                                                         by turns
:mod:`app.work.cores`  threads that compute, as many as cores         warehouses go round; of one, those go
                                                                         first that have begun, then newest
========================= ============================================== =====================================

Health answers always, so that whoever watches the service sees why nothing else does.

Each warehouse has threads and places of its own, so that a storage that hangs holds up no other warehouse;
large bodies are parsed by threads beside them, which storage never holds up. What is about no warehouse has
its own as well.

In the order of their coming alone, each request would be begun only when its caller is about to give up, and
under a load that lasts nobody would be answered at all. With the newest always first, callers who wait for
as long as it takes would be left until their deadline.
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

T = TypeVar("T")

_WEIGHT: Final = 1 / 16
"""Of the latest request in the mean of what a request takes."""

_LONGEST_PAUSE_SECONDS: Final = 30

_GUARDED: Final = ("/v1/", "/iceberg/")
_FIRST_BYTES: Final = 256

MOST_REQUESTS: Final = 2_048
"""Of one process, under way at one time."""


def refuse_unread(head: bytes) -> bytes | None:
    """Builds a 429 from the first bytes of a request; None for health checks, which are always parsed."""
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
    """ASGI middleware in front of everything under ``/v1`` and ``/iceberg``."""

    def __init__(self, app: ASGIApp, requests: int) -> None:
        self._app = app
        self._requests = requests
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal.response(scope)(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1

    def _refusal(self, scope: Scope) -> Problem | None:
        if scope["app"].state.runtime is None:
            return problem_of_status(503, "the service is starting or shutting down", headers=AGAIN)
        if self._under_way >= self._requests:
            detail = f"{self._requests} requests are under way already"
            return problem_of_status(429, detail, headers=AGAIN, limit=self._requests)
        return None


class Bulkhead:
    """Threads, and a line of those who wait for them; used by the event loop alone.

    ``warehouse``: None for what reads from none. ``threads``: how many there are. A thread that storage holds
    up stays counted after its request was answered with 504, so that no number of such requests makes more
    threads. ``limit``: requests that are worked on or wait. Those whose body is still arriving, or whose
    answer has begun, are not among them.
    """

    def __init__(self, warehouse: str | None, threads: int, limit: int) -> None:
        self.warehouse = warehouse
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"paimon-index-{warehouse or ''}")
        self._threads = self._free = threads
        self._limit = limit
        self._answered_for: set[asyncio.Future[Any]] = set()
        self._waiting: dict[asyncio.Future[Any], Callable[[], Any]] = {}
        self._pieces: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._oldest_next = False
        self._mean_seconds = 0.0

    @property
    def under_way(self) -> int:
        """Requests that are worked on, for somebody who waits, or wait for a thread."""
        return len(self._answered_for) + len(self._waiting)

    def submit(self, work: Callable[[], T], *, is_begun: bool = False) -> asyncio.Future[T]:
        """The result of ``work`` in a thread; to be cancelled when nobody waits for it any more.

        It raises :class:`BusyError` if newer requests take the last place while this one waits for a thread.

        ``is_begun``: for an answer of which some is sent already: it is never refused, and goes first. Raises
        BusyError: the limit is reached, and none of the others can be refused.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if is_begun:
            self._pieces.append((answer, work))
        else:
            if self.under_way >= self._limit:
                self._refuse_oldest()
            self._waiting[answer] = work
            answer.add_done_callback(self._leave)
        self._begin()
        return answer

    def is_waiting(self, answer: asyncio.Future[T]) -> bool:
        """Whether a request waits for a thread."""
        return answer in self._waiting

    def close(self) -> None:
        """Ends the threads; work that was not begun is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _refuse_oldest(self) -> None:
        pause = len(self._waiting) * self._mean_seconds / self._threads
        error = BusyError(
            f"{self._limit} requests are worked on already",
            limit=self._limit,
            pause_seconds=min(max(1, math.ceil(pause)), _LONGEST_PAUSE_SECONDS),
        )
        if not self._waiting:
            raise error
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        # A caller who has just gone away makes room as well; his answer leaves in the loop's next turn.
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
                self._answered_for.add(answer)
            if answer.done():
                continue
            self._free -= 1
            loop = asyncio.get_running_loop()
            ended = partial(self._end, answer, loop.time())
            loop.run_in_executor(self._pool, work).add_done_callback(ended)

    def _end(self, answer: asyncio.Future[T], since: float, done: asyncio.Future[T]) -> None:
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
        self._answered_for.discard(answer)

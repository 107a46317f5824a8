"""Shared state of request handlers: the service, the settings, and the threads for blocking work."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Final, Self, TypeAlias, TypeVar

from fastapi import Depends
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from app.api.gate.admission import Bulkhead
from app.api.http.strict_json import write_json
from app.errors import DeadlineExceededError
from app.memory_budget import MemoryBudget
from app.observation import NO_OBSERVER, Observer, Phase, during, observed_by
from app.planning import IndexService, Watch
from app.planning.request import SnapshotSelector, TableRef
from app.settings import Settings
from app.telemetry import event_record
from app.work import CORES, Cancellation, cancellable, check_deadline, time_limit

# Callers of one warehouse whose answers are computed at the same time after a commit.
_ANSWERS_AT_ONCE: Final = 4

Watched: TypeAlias = tuple[TableRef, SnapshotSelector]

_T = TypeVar("_T")

_log = logging.getLogger("paimon_index")

# Most answers are ready within this time, before the disconnect of their callers is watched for.
_UNWATCHED_SECONDS = 0.05


class TableLooks:
    """Polls tables for newer versions for all waiting callers. Used by the event loop alone.

    However many callers wait for a commit to a table, one poll a second reads it. After a commit, few callers
    at a time have their answers computed, so that they do not push each other out of the queue of requests.
    """

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._polls: dict[Watched, asyncio.Task[str]] = {}
        self._slots: defaultdict[Bulkhead, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_ANSWERS_AT_ONCE)
        )

    async def identity(self, watched: Watched, look: Callable[[], Awaitable[str]]) -> str:
        """Return the identity of a version at the next poll.

        One ``look``, which may raise, serves all callers.
        """
        polling = self._polls.get(watched)
        if polling is None:
            polling = self._polls[watched] = asyncio.create_task(self._poll(watched, look))
            # Retrieves the exception if no caller awaits it any more. Otherwise asyncio would log it.
            polling.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(polling)

    @asynccontextmanager
    async def turn(self, bulkhead: Bulkhead, seconds: float) -> AsyncIterator[None]:
        """Hold one of the few slots in which answers to waiting callers of a warehouse are computed."""
        slots = self._slots[bulkhead]
        try:
            async with asyncio.timeout(seconds):
                await slots.acquire()
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"more callers wait for changes than are answered in {seconds:g} s: ask again"
            ) from error
        try:
            yield
        finally:
            slots.release()

    async def _poll(self, watched: Watched, look: Callable[[], Awaitable[str]]) -> str:
        try:
            await asyncio.sleep(self._seconds)
            return await look()
        finally:
            del self._polls[watched]


@dataclass(frozen=True, slots=True)
class Runtime:
    """State of a running service, and a copy of it for each request.

    ``bulkheads``: threads for blocking work, by warehouse. None for requests about no warehouse. ``parsers``:
    threads for parsing large bodies, by warehouse. ``receive``: awaits the caller's disconnect. None outside
    of requests.
    """

    settings: Settings
    service: IndexService
    watch: Watch
    budget: MemoryBudget
    bulkheads: Mapping[str | None, Bulkhead]
    parsers: Mapping[str | None, Bulkhead]
    bulkhead: Bulkhead
    looks: TableLooks
    receive: Receive | None = None
    observer: Observer = NO_OBSERVER

    @classmethod
    def start(cls, settings: Settings, service: IndexService, observer: Observer = NO_OBSERVER) -> Self:
        """Start the watch and the threads."""
        budget = MemoryBudget.of(settings)
        if _log.isEnabledFor(logging.INFO):
            for event, members in (
                ("warehouses that are served", {"warehouses": sorted(service.warehouses)}),
                ("memory of this process in bytes", {"memory": asdict(budget.use())}),
            ):
                _log.handle(event_record(_log.name, logging.INFO, event, members))
        watch = Watch(service, settings.watched_tables, settings.watch_seconds, observer=observer)
        watch.start()
        bulkheads, parsers = (
            {
                name: Bulkhead(name, settings.threads, settings.concurrency)
                for name in (None, *service.warehouses)
            }
            # Parsers have threads of their own: storage that hangs would otherwise keep bodies in memory.
            for _ in range(2)
        )
        return cls(settings, service, watch, budget, bulkheads, parsers, bulkheads[None], TableLooks())

    async def run(self, work: Callable[[], _T], *, is_begun: bool = False) -> _T:
        """Run blocking ``work`` in a thread before the deadline.

        ``is_begun``: part of the answer is sent already, so the work is never refused.

        Raises BusyError if the limit of requests of this warehouse is reached, or newer ones took the last
        place. Raises DeadlineExceededError if time ran out, in the queue or in the work. Raises
        ClientDisconnect if the caller went away.
        """
        seconds = self.settings.deadline_seconds
        cancellation = Cancellation()
        submitted = time.perf_counter()

        def limited() -> _T:
            with (
                time_limit(seconds),
                cancellable(cancellation),
                observed_by(self.observer),
                CORES.computing(self.bulkhead.warehouse, is_begun=is_begun),
            ):
                self.observer.spent(Phase.QUEUE, time.perf_counter() - submitted)
                check_deadline()
                return work()

        return await self._finished(self.bulkhead.submit(limited, is_begun=is_begun), cancellation)

    async def _finished(self, pending: asyncio.Future[_T], cancellation: Cancellation) -> _T:
        seconds = self.settings.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._while_awaited(pending)
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the request did not finish within {seconds:g} s: ask for less, or ask the operator for more"
            ) from error
        finally:
            # No caller waits for the rest of the work.
            pending.cancel()
            cancellation.cancel()

    async def parse(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` as :meth:`run` does, in a thread that no storage holds up."""
        return await replace(self, bulkhead=self.parsers[self.bulkhead.warehouse]).run(work)

    def for_nobody(self) -> Self:
        """Return a copy for work that belongs to no single request."""
        return replace(self, receive=None, observer=NO_OBSERVER)

    async def answer(self, work: Callable[[], object]) -> Response:
        """Answer with the result of blocking ``work`` in JSON."""

        # Encoding may take long, so the thread does it too.
        def write() -> bytes:
            result = work()
            with during(Phase.ENCODE):
                return write_json(result)

        return Response(await self.run(write), media_type="application/json")

    def close(self) -> None:
        """End the watch and the threads, and drop work that has not started."""
        self.watch.stop()
        for bulkhead in (*self.bulkheads.values(), *self.parsers.values()):
            bulkhead.close()

    async def _while_awaited(self, pending: asyncio.Future[_T]) -> _T:
        # A queued caller may have gone already, and must not take a thread from one who still waits.
        unwatched = 0 if self.bulkhead.is_waiting(pending) else _UNWATCHED_SECONDS
        done, _ = await asyncio.wait({pending}, timeout=unwatched)
        if not done and self.receive is not None:
            disconnect = asyncio.ensure_future(_disconnected(self.receive))
            first: set[asyncio.Future[_T] | asyncio.Future[None]] = {pending, disconnect}
            try:
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            finally:
                disconnect.cancel()
            if not pending.done():
                raise ClientDisconnect
        return await pending


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def runtime_of(request: Request) -> Runtime:
    """Return the runtime for a request, with the threads of the warehouse that it names."""
    runtime: Runtime = request.app.state.runtime
    return replace(
        runtime,
        bulkhead=runtime.bulkheads.get(request.path_params.get("warehouse"), runtime.bulkhead),
        receive=request.receive,
        observer=request.scope["state"].get("observer", NO_OBSERVER),
    )


async def _shared(request: Request) -> Runtime:
    return runtime_of(request)


Shared = Annotated[Runtime, Depends(_shared)]

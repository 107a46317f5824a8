"""What all request handlers share: the service, the settings, and the way in which blocking work runs.

However many callers wait for a commit to a table, it is looked at once a second; when it comes, they take
turns, so that they do not push each other out of the line of requests.
"""

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
from app.observation import NOBODY, Observer, Phase, during, observed_by
from app.planning import IndexService, Watch
from app.planning.request import SnapshotSelector, TableRef
from app.settings import Settings
from app.telemetry import event_record
from app.work import CORES, Cancellation, cancellable, check_deadline, time_limit

_TURNS: Final = 4
"""Callers who wait for tables of one warehouse and whose answers are computed at the same time."""

Asked: TypeAlias = tuple[TableRef, SnapshotSelector]


class TableLooks:
    """Looks for newer versions of tables, under way in one process; used by the event loop alone."""

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._looks: dict[Asked, asyncio.Task[str]] = {}
        self._turns: defaultdict[Bulkhead, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_TURNS))

    async def identity(self, asked: Asked, look: Callable[[], Awaitable[str]]) -> str:
        """The identity of a version, as it is seen at the next look.

        ``look``: finds out its identity; for all who ask for the same meanwhile, one of theirs is called.
        Raises PaimonIndexError: as ``look``.
        """
        under_way = self._looks.get(asked)
        if under_way is None:
            under_way = self._looks[asked] = asyncio.create_task(self._look(asked, look))
            # All who wait may have gone away.
            under_way.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(under_way)

    @asynccontextmanager
    async def turn(self, bulkhead: Bulkhead, seconds: float) -> AsyncIterator[None]:
        """In the block, one of few who wait for tables of a warehouse has its answer computed."""
        turns = self._turns[bulkhead]
        try:
            async with asyncio.timeout(seconds):
                await turns.acquire()
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"more callers wait for changes than are answered in {seconds:g} s: ask again"
            ) from error
        try:
            yield
        finally:
            turns.release()

    async def _look(self, asked: Asked, look: Callable[[], Awaitable[str]]) -> str:
        try:
            await asyncio.sleep(self._seconds)
            return await look()
        finally:
            del self._looks[asked]


T = TypeVar("T")

_log = logging.getLogger("paimon_index")

# Most answers are there before it would pay to watch whether their callers still wait for them.
_UNWATCHED_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Runtime:
    """One per running service, and a copy for each request.

    ``bulkheads``: have the threads that do the blocking work, by warehouse; None is for what reads from none.
    ``parsers``: likewise, those that parse large bodies, which no storage holds up: bodies are not kept then.
    ``receive``: tells when the caller of the request goes away; None outside of requests.
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
    observer: Observer = NOBODY

    @classmethod
    def start(cls, settings: Settings, service: IndexService, observer: Observer = NOBODY) -> Self:
        """The runtime of a service that starts."""
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
            for _ in range(2)
        )
        return cls(settings, service, watch, budget, bulkheads, parsers, bulkheads[None], TableLooks())

    async def run(self, work: Callable[[], T], *, is_begun: bool = False) -> T:
        """The result of blocking ``work``, done in a thread before the deadline.

        Args:
            is_begun: for an answer of which some is sent already, so that it is too late to be refused.

        Raises:
            BusyError: as many requests of this warehouse as may be are worked on, or wait and are newer.
            DeadlineExceededError: the time was up, in the queue or in the work.
            ClientDisconnect: nobody waits for the result any more.
        """
        seconds = self.settings.deadline_seconds
        cancellation = Cancellation()
        submitted = time.perf_counter()

        def limited() -> T:
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

    async def _finished(self, under_way: asyncio.Future[T], cancellation: Cancellation) -> T:
        seconds = self.settings.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._while_awaited(under_way)
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the request did not finish within {seconds:g} s: ask for less, or ask the operator for more"
            ) from error
        finally:
            # Whatever is left of the work by now is left for nobody.
            under_way.cancel()
            cancellation.cancel()

    async def parse(self, work: Callable[[], T]) -> T:
        """As :meth:`run`, in a thread that no storage holds up."""
        return await replace(self, bulkhead=self.parsers[self.bulkhead.warehouse]).run(work)

    def for_nobody(self) -> Self:
        """The same for work that no single request is waiting for."""
        return replace(self, receive=None, observer=NOBODY)

    async def answer(self, work: Callable[[], object]) -> Response:
        """The JSON answer that blocking ``work`` gives; written in the thread, too, since it may be long."""

        def write() -> bytes:
            result = work()
            with during(Phase.ENCODE):
                return write_json(result)

        return Response(await self.run(write), media_type="application/json")

    def close(self) -> None:
        """Ends the watch and the threads; work that was not begun is dropped."""
        self.watch.stop()
        for bulkhead in (*self.bulkheads.values(), *self.parsers.values()):
            bulkhead.close()

    async def _while_awaited(self, under_way: asyncio.Future[T]) -> T:
        # Who has to wait may have gone already, and must not take a thread from somebody who has not.
        unwatched = 0 if self.bulkhead.is_waiting(under_way) else _UNWATCHED_SECONDS
        done, _ = await asyncio.wait({under_way}, timeout=unwatched)
        if not done and self.receive is not None:
            gone = asyncio.ensure_future(_disconnected(self.receive))
            either: set[asyncio.Future[T] | asyncio.Future[None]] = {under_way, gone}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
            if not under_way.done():
                raise ClientDisconnect
        return await under_way


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def runtime_of(request: Request) -> Runtime:
    """That of a request, with the threads of the warehouse that it names."""
    runtime: Runtime = request.app.state.runtime
    return replace(
        runtime,
        bulkhead=runtime.bulkheads.get(request.path_params.get("warehouse"), runtime.bulkhead),
        receive=request.receive,
        observer=request.scope["state"].get("observer", NOBODY),
    )


async def _shared(request: Request) -> Runtime:
    return runtime_of(request)


Shared = Annotated[Runtime, Depends(_shared)]

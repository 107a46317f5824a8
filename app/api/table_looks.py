"""Looks for newer versions of tables, shared by all callers who wait for one.

However many callers wait for a commit to a table, it is looked at once a second; when it comes, they take
turns, so that they do not push each other out of the line of requests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from app.api.admission import Bulkhead
from app.errors import DeadlineExceededError
from app.planning.request.requests import SnapshotSelector, TableRef

_TURNS: Final = 4
"""Callers who wait for tables of one warehouse and whose answers are computed at the same time."""

Asked: TypeAlias = tuple[TableRef, SnapshotSelector]


class TableLooks:
    """The looks under way in one process; used by the event loop alone."""

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._looks: dict[Asked, asyncio.Task[str]] = {}
        self._turns: defaultdict[Bulkhead, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_TURNS))

    async def identity(self, asked: Asked, look: Callable[[], Awaitable[str]]) -> str:
        """The identity of a version, as it is seen at the next look.

        Args:
            look: finds out its identity; for all who ask for the same meanwhile, one of theirs is called.

        Raises:
            PaimonIndexError: as ``look``.
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

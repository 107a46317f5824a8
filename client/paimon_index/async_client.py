"""The client for asyncio."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from paimon_index.attempts import GRACE_SECONDS, MOST_ERROR_BYTES, Attempts, Failure, Settings, transport
from paimon_index.endpoints import Endpoints
from paimon_index.errors import IncompleteAnswerError
from paimon_index.plans import AsyncPlan, PlanReader, Progress
from paimon_index.requests import ARROW, Request, post, under

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence
    from typing import Unpack

    from paimon_index.endpoints import Call
    from paimon_index.options import PlanOptions

T = TypeVar("T")


class AsyncClient(Endpoints):
    """:class:`paimon_index.Client` for asyncio: equal arguments, methods, results and exceptions."""

    def __init__(
        self,
        base_urls: str | Sequence[str],
        *,
        token: str | None = None,
        deadline_seconds: float = 30.0,
        retries: int = 4,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = Settings.of(base_urls, deadline_seconds, retries)
        self._http = httpx.AsyncClient(**transport(token, tls))

    async def plan(
        self, table: str, *, progress: Progress | None = None, **options: Unpack[PlanOptions]
    ) -> AsyncPlan:
        """Plan a query. See :meth:`paimon_index.Client.plan`."""
        reader, ends = PlanReader(options, progress), self._settings.ends()
        request = post(under(table, "/plan"), options, ARROW)
        async with self._in_time(ends):
            response, attempts = await self._send(request, ends)
            pieces, first = _pieces(response, attempts), []
            try:
                async for piece in pieces:
                    first += reader.feed(piece)
                    if reader.has_begun:
                        return AsyncPlan(reader, first, pieces, response.aclose)
            except BaseException:
                await response.aclose()
                raise
        raise IncompleteAnswerError("the answer ended before its plan began: ask again")

    async def close(self) -> None:
        """Close all connections. Unread plans are lost."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({list(self._settings.replicas.base_urls)})"

    async def _run(self, call: Call[T]) -> T:
        request, ends = next(call), self._settings.ends()
        while True:
            async with self._in_time(ends):
                body = await _body(*await self._send(request, ends))
            try:
                request = call.send(body)
            except StopIteration as end:
                result: T = end.value
                return result

    @asynccontextmanager
    async def _in_time(self, ends: float) -> AsyncIterator[None]:
        """Raise :class:`DeadlineError` if the block outlasts its end."""
        limit = asyncio.timeout(ends - time.monotonic() + GRACE_SECONDS)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._settings.timed_out(" or ".join(self._settings.replicas.base_urls)) from None

    async def _send(self, request: Request, ends: float) -> tuple[httpx.Response, Attempts]:
        """Return the first successful answer, which the caller must read and close."""
        attempts = Attempts(self._settings, request, ends)
        while True:
            try:
                built = self._http.build_request(**attempts.arguments())
                response = await self._http.send(built, stream=True)
                if response.is_success:
                    return response, attempts
                body = b""
                with suppress(IncompleteAnswerError):
                    body = await _body(response, attempts, MOST_ERROR_BYTES)
                failure = Failure.of_answer(response.status_code, response.headers, body)
            except httpx.HTTPError as error:
                failure = attempts.failure_of(error)
            await asyncio.sleep(attempts.pause_after(failure))


async def _pieces(response: httpx.Response, attempts: Attempts) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        raise attempts.broken_off(error) from error


async def _body(response: httpx.Response, attempts: Attempts, most_bytes: float = math.inf) -> bytes:
    """Read a body, but stop after the piece that exceeds ``most_bytes``."""
    body = bytearray()
    try:
        async for piece in _pieces(response, attempts):
            body += piece
            attempts.remaining_seconds()
            if len(body) > most_bytes:
                break
    finally:
        await response.aclose()
    return bytes(body)

"""The client for asyncio: as the blocking one, but for how it waits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from paimon_index.attempts import Failure
from paimon_index.endpoints import Endpoints
from paimon_index.errors import IncompleteAnswerError
from paimon_index.http import MOST_ERROR_BYTES, Settings, arguments, broken_off, failure_of, transport
from paimon_index.plans import AsyncPlan, PlanReader, Progress
from paimon_index.requests import ARROW, Request, post, under

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Unpack

    from paimon_index.attempts import Attempts
    from paimon_index.endpoints import Call
    from paimon_index.options import PlanOptions

T = TypeVar("T")


class AsyncClient(Endpoints):
    """As :class:`paimon_index.Client`, for asyncio: the same arguments, methods, results and exceptions."""

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
        """As :meth:`paimon_index.Client.plan`."""
        reader = PlanReader(options, progress)

        async def begin(response: httpx.Response, attempts: Attempts) -> AsyncPlan:
            pieces = _pieces(response, attempts)
            first = []
            async for piece in pieces:
                first += reader.feed(piece)
                if reader.has_begun:
                    return AsyncPlan(reader, first, pieces, response.aclose)
            reader.check_whole()
            raise AssertionError("a stream with an end has a schema")

        return await self._send(post(under(table, "/plan"), options, ARROW), begin, self._settings.ends())

    async def close(self) -> None:
        """Closes all connections; plans that are not read to their end are lost."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({list(self._settings.replicas.base_urls)})"

    async def _run(self, call: Call[T]) -> T:
        """Sends what a call asks until it returns."""
        request, ends = next(call), self._settings.ends()
        while True:
            body = await self._send(request, _whole, ends)
            try:
                request = call.send(body)
            except StopIteration as end:
                result: T = end.value
                return result

    async def _send(
        self, request: Request, take: Callable[[httpx.Response, Attempts], Awaitable[T]], ends: float
    ) -> T:
        """What ``take`` makes of the first good answer before an end; it closes the response."""
        attempts = self._settings.attempts(request, ends)
        while True:
            try:
                built = self._http.build_request(**arguments(request, attempts))
                response = await self._http.send(built, stream=True)
                if response.is_success:
                    return await _taken(response, attempts, take)
                body = await _taken(response, attempts, _beginning)
                failure = Failure.of_answer(response.status_code, response.headers, body)
            except httpx.HTTPError as error:
                failure = failure_of(error, attempts)
            await asyncio.sleep(attempts.pause_after(failure))


async def _taken(
    response: httpx.Response, attempts: Attempts, take: Callable[[httpx.Response, Attempts], Awaitable[T]]
) -> T:
    try:
        return await take(response, attempts)
    except BaseException:
        await response.aclose()
        raise


async def _pieces(response: httpx.Response, attempts: Attempts) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        raise broken_off(error, attempts) from error


async def _beginning(response: httpx.Response, attempts: Attempts) -> bytes:
    """What is read of an error's body, though it may break off."""
    body = bytearray()
    with suppress(IncompleteAnswerError):
        async for piece in _pieces(response, attempts):
            body += piece
            attempts.remaining_seconds()
            if len(body) >= MOST_ERROR_BYTES:
                break
    await response.aclose()
    return bytes(body[:MOST_ERROR_BYTES])


async def _whole(response: httpx.Response, attempts: Attempts) -> bytes:
    body = bytearray()
    async for piece in _pieces(response, attempts):
        body += piece
        attempts.remaining_seconds()
    return bytes(body)

"""The client for asyncio: as the blocking one, but for how it waits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from paimon_index import calls, catalog, results
from paimon_index.attempts import Failure
from paimon_index.errors import IncompleteAnswerError
from paimon_index.http import MOST_ERROR_BYTES, Settings, arguments, broken_off, failure_of, transport
from paimon_index.plans import AsyncPlan, PlanReader, Progress
from paimon_index.requests import Request, get, post, under

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import Unpack

    from paimon_index import options
    from paimon_index.attempts import Attempts
    from paimon_index.calls import Call

T = TypeVar("T")


class AsyncClient:
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
        self, table: str, *, progress: Progress | None = None, **asked: Unpack[options.PlanOptions]
    ) -> AsyncPlan:
        """As :meth:`paimon_index.Client.plan`."""
        reader = PlanReader(asked, progress)

        async def begin(response: httpx.Response, attempts: Attempts) -> AsyncPlan:
            pieces = _pieces(response, attempts)
            first = []
            async for piece in pieces:
                first += reader.feed(piece)
                if reader.has_begun:
                    return AsyncPlan(reader, first, pieces, response.aclose)
            reader.check_whole()
            raise AssertionError("a stream with an end has a schema")

        return await self._send(calls.plan_request(table, asked), begin, self._settings.ends())

    async def about(self) -> catalog.About:
        """What answers at the base URL."""
        return await self._run(calls.one(catalog.About, get("/")))

    async def live(self) -> catalog.Health:
        """Whether the process runs."""
        return await self._run(calls.one(catalog.Health, get("/health/live")))

    async def ready(self) -> catalog.Health:
        """Whether requests are answered; 503 is an error, after retries."""
        return await self._run(calls.one(catalog.Health, get("/health/ready")))

    async def config(self) -> catalog.Configuration:
        """Version, limits and capabilities, and the warehouses that the token may use."""
        return await self._run(calls.one(catalog.Configuration, get("/v1/config")))

    async def databases(self, warehouse: str) -> tuple[str, ...]:
        """Databases of a warehouse."""
        return await self._run(calls.names("databases", get(f"/v1/{warehouse}/databases")))

    async def tables(self, warehouse: str, database: str) -> tuple[str, ...]:
        """Tables of a database."""
        return await self._run(calls.names("tables", get(f"/v1/{warehouse}/databases/{database}/tables")))

    async def describe(self, table: str, **asked: Unpack[options.VersionOptions]) -> catalog.TableDescription:
        """A table as it is, or as a version was."""
        return await self._run(calls.one(catalog.TableDescription, get(under(table, ""), asked)))

    async def schemas(
        self, table: str, **asked: Unpack[options.VersionOptions]
    ) -> tuple[catalog.Schema, ...]:
        """Schemas with full types, up to that of a version, the oldest first."""
        return await self._run(calls.schemas(table, asked))

    async def schema(self, table: str, schema_id: int, *, branch: str | None = None) -> catalog.Schema:
        """One schema with full types."""
        return await self._run(
            calls.one(catalog.Schema, get(under(table, f"/schemas/{schema_id}"), {"branch": branch}))
        )

    async def snapshots(self, table: str, *, branch: str | None = None) -> tuple[catalog.Snapshot, ...]:
        """Snapshots that are still there, the oldest first."""
        return await self._run(
            calls.listed(catalog.Snapshot, "snapshots", get(under(table, "/snapshots"), {"branch": branch}))
        )

    async def tags(self, table: str, *, branch: str | None = None) -> tuple[catalog.Tag, ...]:
        """Tags of a table."""
        return await self._run(
            calls.listed(catalog.Tag, "tags", get(under(table, "/tags"), {"branch": branch}))
        )

    async def branches(self, table: str) -> tuple[catalog.Branch, ...]:
        """Branches of a table."""
        return await self._run(calls.listed(catalog.Branch, "branches", get(under(table, "/branches"))))

    async def index_files(
        self, table: str, *, index_type: str | None = None, **asked: Unpack[options.VersionOptions]
    ) -> catalog.IndexFileList:
        """Live entries of the index manifest, of one index type or all."""
        return await self._run(calls.index_files(table, {**asked, "type": index_type}))

    async def deletions(self, table: str, **asked: Unpack[options.DeletionsOptions]) -> results.Deletions:
        """Deleted rows of data files."""
        return await self._run(calls.deletions(table, asked))

    async def buckets(self, table: str, **asked: Unpack[options.BucketsOptions]) -> results.BucketList:
        """Buckets, their index files and how full they are."""
        return await self._run(calls.one(results.BucketList, get(under(table, "/buckets"), asked)))

    async def lookup(self, table: str, **asked: Unpack[options.LookupOptions]) -> results.BucketLookup:
        """The buckets of keys or hashes, in their order."""
        return await self._run(calls.lookup(table, asked))

    async def assign(self, table: str, **asked: Unpack[options.AssignOptions]) -> results.Assignment:
        """The buckets that a writer would give keys; writes nothing."""
        return await self._run(calls.assign(table, asked))

    async def advice(self, table: str, **asked: Unpack[options.AdviceOptions]) -> results.TableAdvice:
        """What a table's file indexes cost and give, and what to do about it."""
        return await self._run(calls.one(results.TableAdvice, get(under(table, "/advice"), asked)))

    async def aggregate(
        self, table: str, **asked: Unpack[options.AggregateOptions]
    ) -> results.AggregateAnswer:
        """Counts, ends, sums and facets, as far as indexes tell them without data."""
        return await self._run(calls.one(results.AggregateAnswer, post(under(table, "/aggregate"), asked)))

    async def changes(
        self, table: str, from_snapshot_id: int | None = None, **asked: Unpack[options.ChangesOptions]
    ) -> results.ChangesAnswer:
        """The files that came and went, after a filter.

        With ``from_token`` since the answer whose ``next_from_token`` it is; with ``from_snapshot_id``
        between two versions, the later of which is named too. Without both nothing has changed yet.
        """
        body = {"from_snapshot_id": from_snapshot_id, **asked}
        return await self._run(calls.one(results.ChangesAnswer, post(under(table, "/changes"), body)))

    async def what_if(
        self,
        table: str,
        indexes: Iterable[options.ProposedIndex],
        **asked: Unpack[options.WhatIfOptions],
    ) -> results.WhatIf:
        """How many files indexes would leave out that nobody has built yet; reads some data files."""
        body = {"indexes": list(indexes), **asked}
        return await self._run(calls.one(results.WhatIf, post(under(table, "/what-if"), body)))

    async def evaluate(
        self,
        warehouse: str,
        schema: Mapping[str, str],
        files: Iterable[options.IndexFile],
        **asked: Unpack[options.EvaluateOptions],
    ) -> results.Evaluation:
        """What index files say about a filter; ``schema`` has type texts by column name."""
        return await self._run(calls.evaluate(warehouse, schema, files, **asked))

    async def inspect(
        self, warehouse: str, file: options.IndexFile, **asked: Unpack[options.InspectOptions]
    ) -> results.Inspection:
        """What is in an index file."""
        return await self._run(calls.inspect(warehouse, file, **asked))

    async def cache(self) -> dict[str, catalog.CacheState]:
        """What each cache holds, by its name."""
        return await self._run(calls.caches(get("/v1/cache")))

    async def clear_cache(self) -> dict[str, catalog.CacheState]:
        """Empties the caches in memory; for admin tokens."""
        return await self._run(calls.caches(post("/v1/cache/clear", {})))

    async def metrics(self) -> str:
        """Metrics in Prometheus' text form."""
        return await self._run(calls.text(get("/metrics")))

    async def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the service."""
        return await self._run(calls.document(get("/openapi.json")))

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

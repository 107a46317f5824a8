"""The blocking client."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from paimon_index import calls, catalog, results
from paimon_index.attempts import Failure
from paimon_index.errors import IncompleteAnswerError
from paimon_index.http import MOST_ERROR_BYTES, Settings, arguments, broken_off, failure_of, transport
from paimon_index.plans import Plan, PlanReader, Progress
from paimon_index.requests import Request, get, post, under

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    from paimon_index import options
    from paimon_index.attempts import Attempts
    from paimon_index.calls import Call

T = TypeVar("T")


class Client:
    """Asks a service; safe to share between threads.

    Tables are named ``warehouse.database.table``. What a method takes besides is in
    :mod:`paimon_index.options`, what it gives in :mod:`paimon_index.results` and :mod:`paimon_index.catalog`.

    Args:
        base_urls: of one service; with several, a table's hash chooses the one that is asked about it, and
            the next one is asked where that one is down.
        token: the secret of a bearer token.
        deadline_seconds: for an answer, all attempts together; of a plan, up to its first files, and then
            for each further piece.
        retries: how often is asked again, after every base URL was asked once, where no connection comes
            about, or the answer is 429 or 503.
        tls: instead of the usual checks of certificates.

    Raises:
        ValueError: a base URL, the deadline or the number of retries is none.

    Every method raises :class:`ServiceError` for a problem that the service answers,
    :class:`UnavailableError` where no base URL answers, :class:`DeadlineError` where none does in time, and
    :class:`IncompleteAnswerError` where an answer was cut.
    """

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
        self._http = httpx.Client(**transport(token, tls))

    def plan(
        self, table: str, *, progress: Progress | None = None, **asked: Unpack[options.PlanOptions]
    ) -> Plan:
        """The files that a query reads, and which of their rows, as they come in.

        Args:
            table: ``warehouse.database.table``.
            progress: is told after each batch of files.
            asked: see :class:`paimon_index.options.PlanOptions`.
        """
        reader = PlanReader(asked, progress)

        def begin(response: httpx.Response, attempts: Attempts) -> Plan:
            pieces = _pieces(response, attempts)
            first = []
            for piece in pieces:
                first += reader.feed(piece)
                if reader.has_begun:
                    return Plan(reader, first, pieces, response.close)
            reader.check_whole()
            raise AssertionError("a stream with an end has a schema")

        return self._send(calls.plan_request(table, asked), begin, self._settings.ends())

    def about(self) -> catalog.About:
        """What answers at the base URL."""
        return self._run(calls.one(catalog.About, get("/")))

    def live(self) -> catalog.Health:
        """Whether the process runs."""
        return self._run(calls.one(catalog.Health, get("/health/live")))

    def ready(self) -> catalog.Health:
        """Whether requests are answered; 503 is an error, after retries."""
        return self._run(calls.one(catalog.Health, get("/health/ready")))

    def config(self) -> catalog.Configuration:
        """Version, limits and capabilities, and the warehouses that the token may use."""
        return self._run(calls.one(catalog.Configuration, get("/v1/config")))

    def databases(self, warehouse: str) -> tuple[str, ...]:
        """Databases of a warehouse."""
        return self._run(calls.names("databases", get(f"/v1/{warehouse}/databases")))

    def tables(self, warehouse: str, database: str) -> tuple[str, ...]:
        """Tables of a database."""
        return self._run(calls.names("tables", get(f"/v1/{warehouse}/databases/{database}/tables")))

    def describe(self, table: str, **asked: Unpack[options.VersionOptions]) -> catalog.TableDescription:
        """A table as it is, or as a version was."""
        return self._run(calls.one(catalog.TableDescription, get(under(table, ""), asked)))

    def schemas(self, table: str, **asked: Unpack[options.VersionOptions]) -> tuple[catalog.Schema, ...]:
        """Schemas with full types, up to that of a version, the oldest first."""
        return self._run(calls.schemas(table, asked))

    def schema(self, table: str, schema_id: int, *, branch: str | None = None) -> catalog.Schema:
        """One schema with full types."""
        return self._run(
            calls.one(catalog.Schema, get(under(table, f"/schemas/{schema_id}"), {"branch": branch}))
        )

    def snapshots(self, table: str, *, branch: str | None = None) -> tuple[catalog.Snapshot, ...]:
        """Snapshots that are still there, the oldest first."""
        return self._run(
            calls.listed(catalog.Snapshot, "snapshots", get(under(table, "/snapshots"), {"branch": branch}))
        )

    def tags(self, table: str, *, branch: str | None = None) -> tuple[catalog.Tag, ...]:
        """Tags of a table."""
        return self._run(calls.listed(catalog.Tag, "tags", get(under(table, "/tags"), {"branch": branch})))

    def branches(self, table: str) -> tuple[catalog.Branch, ...]:
        """Branches of a table."""
        return self._run(calls.listed(catalog.Branch, "branches", get(under(table, "/branches"))))

    def index_files(
        self, table: str, *, index_type: str | None = None, **asked: Unpack[options.VersionOptions]
    ) -> catalog.IndexFileList:
        """Live entries of the index manifest, of one index type or all."""
        return self._run(calls.index_files(table, {**asked, "type": index_type}))

    def deletions(self, table: str, **asked: Unpack[options.DeletionsOptions]) -> results.Deletions:
        """Deleted rows of data files."""
        return self._run(calls.deletions(table, asked))

    def buckets(self, table: str, **asked: Unpack[options.BucketsOptions]) -> results.BucketList:
        """Buckets, their index files and how full they are."""
        return self._run(calls.one(results.BucketList, get(under(table, "/buckets"), asked)))

    def lookup(self, table: str, **asked: Unpack[options.LookupOptions]) -> results.BucketLookup:
        """The buckets of keys or hashes, in their order."""
        return self._run(calls.lookup(table, asked))

    def assign(self, table: str, **asked: Unpack[options.AssignOptions]) -> results.Assignment:
        """The buckets that a writer would give keys; writes nothing."""
        return self._run(calls.assign(table, asked))

    def advice(self, table: str, **asked: Unpack[options.AdviceOptions]) -> results.TableAdvice:
        """What a table's file indexes cost and give, and what to do about it."""
        return self._run(calls.one(results.TableAdvice, get(under(table, "/advice"), asked)))

    def aggregate(self, table: str, **asked: Unpack[options.AggregateOptions]) -> results.AggregateAnswer:
        """Counts, ends, sums and facets, as far as indexes tell them without data."""
        return self._run(calls.one(results.AggregateAnswer, post(under(table, "/aggregate"), asked)))

    def changes(
        self, table: str, from_snapshot_id: int | None = None, **asked: Unpack[options.ChangesOptions]
    ) -> results.ChangesAnswer:
        """The files that came and went, after a filter.

        With ``from_token`` since the answer whose ``next_from_token`` it is; with ``from_snapshot_id``
        between two versions, the later of which is named too. Without both nothing has changed yet.
        """
        body = {"from_snapshot_id": from_snapshot_id, **asked}
        return self._run(calls.one(results.ChangesAnswer, post(under(table, "/changes"), body)))

    def what_if(
        self,
        table: str,
        indexes: Iterable[options.ProposedIndex],
        **asked: Unpack[options.WhatIfOptions],
    ) -> results.WhatIf:
        """How many files indexes would leave out that nobody has built yet; reads some data files."""
        body = {"indexes": list(indexes), **asked}
        return self._run(calls.one(results.WhatIf, post(under(table, "/what-if"), body)))

    def evaluate(
        self,
        warehouse: str,
        schema: Mapping[str, str],
        files: Iterable[options.IndexFile],
        **asked: Unpack[options.EvaluateOptions],
    ) -> results.Evaluation:
        """What index files say about a filter; ``schema`` has type texts by column name."""
        return self._run(calls.evaluate(warehouse, schema, files, **asked))

    def inspect(
        self, warehouse: str, file: options.IndexFile, **asked: Unpack[options.InspectOptions]
    ) -> results.Inspection:
        """What is in an index file."""
        return self._run(calls.inspect(warehouse, file, **asked))

    def cache(self) -> dict[str, catalog.CacheState]:
        """What each cache holds, by its name."""
        return self._run(calls.caches(get("/v1/cache")))

    def clear_cache(self) -> dict[str, catalog.CacheState]:
        """Empties the caches in memory; for admin tokens."""
        return self._run(calls.caches(post("/v1/cache/clear", {})))

    def metrics(self) -> str:
        """Metrics in Prometheus' text form."""
        return self._run(calls.text(get("/metrics")))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the service."""
        return self._run(calls.document(get("/openapi.json")))

    def close(self) -> None:
        """Closes all connections; plans that are not read to their end are lost."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({list(self._settings.replicas.base_urls)})"

    def _run(self, call: Call[T]) -> T:
        """Sends what a call asks until it returns."""
        request, ends = next(call), self._settings.ends()
        while True:
            body = self._send(request, _whole, ends)
            try:
                request = call.send(body)
            except StopIteration as end:
                result: T = end.value
                return result

    def _send(self, request: Request, take: Callable[[httpx.Response, Attempts], T], ends: float) -> T:
        """What ``take`` makes of the first good answer before an end; it closes the response."""
        attempts = self._settings.attempts(request, ends)
        while True:
            try:
                built = self._http.build_request(**arguments(request, attempts))
                response = self._http.send(built, stream=True)
                if response.is_success:
                    return _taken(response, attempts, take)
                body = _taken(response, attempts, _beginning)
                failure = Failure.of_answer(response.status_code, response.headers, body)
            except httpx.HTTPError as error:
                failure = failure_of(error, attempts)
            time.sleep(attempts.pause_after(failure))


def download(client: Client, request: Request, most_bytes: int) -> bytes:
    """The body of an answer; more bytes are an :class:`IncompleteAnswerError`."""
    take = partial(_whole, most_bytes=most_bytes)
    return client._send(request, take, client._settings.ends())  # noqa: SLF001 - of this module


def _taken(response: httpx.Response, attempts: Attempts, take: Callable[[httpx.Response, Attempts], T]) -> T:
    try:
        return take(response, attempts)
    except BaseException:
        response.close()
        raise


def _pieces(response: httpx.Response, attempts: Attempts) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes()
    except httpx.HTTPError as error:
        raise broken_off(error, attempts) from error


def _beginning(response: httpx.Response, attempts: Attempts) -> bytes:
    """What is read of an error's body, though it may break off."""
    body = bytearray()
    with suppress(IncompleteAnswerError):
        for piece in _pieces(response, attempts):
            body += piece
            attempts.remaining_seconds()
            if len(body) >= MOST_ERROR_BYTES:
                break
    response.close()
    return bytes(body[:MOST_ERROR_BYTES])


def _whole(response: httpx.Response, attempts: Attempts, most_bytes: float = math.inf) -> bytes:
    body = bytearray()
    for piece in _pieces(response, attempts):
        body += piece
        attempts.remaining_seconds()
        if len(body) > most_bytes:
            raise IncompleteAnswerError(f"the answer has more than {most_bytes} bytes")
    return bytes(body)

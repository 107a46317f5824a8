"""Every endpoint, described once for both clients as a generator that yields requests and receives bodies.

:mod:`paimon_index.plans` has the stream of a plan, which is not among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

from paimon_index import catalog, results
from paimon_index.decoding import decode
from paimon_index.errors import IncompleteAnswerError
from paimon_index.requests import Request, get, index_file_members, post, under

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Unpack

    from paimon_index import options as given
    from paimon_index.async_client import AsyncClient
    from paimon_index.client import Client

P = ParamSpec("P")
T = TypeVar("T")
Call: TypeAlias = Generator[Request, bytes, T]


class endpoint(Generic[P, T]):  # noqa: N801 - a decorator
    """A method that runs a conversation. A coroutine in ``AsyncClient``."""

    def __init__(self, conversation: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._conversation = conversation

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Call[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._conversation
        conversation = self._conversation.__get__(client)

        @wraps(conversation)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._run(conversation(*args, **kwargs))  # noqa: SLF001 - of both clients

        return run


class Endpoints:
    """Methods of both clients except ``plan``. A ``Call[T]`` results in a T.

    Each raises :class:`ServiceError` for a problem answer, :class:`UnavailableError` if no base URL answers,
    :class:`DeadlineError` if none does in time, and :class:`IncompleteAnswerError` if an answer was cut.
    """

    @endpoint
    def about(self) -> Call[catalog.About]:
        """Return the name, version and paths of the service."""
        return _one(catalog.About, get("/"))

    @endpoint
    def live(self) -> Call[catalog.Health]:
        """Confirm that the process runs."""
        return _one(catalog.Health, get("/health/live"))

    @endpoint
    def ready(self) -> Call[catalog.Health]:
        """Confirm that requests are answered. 503 is an error, after retries."""
        return _one(catalog.Health, get("/health/ready"))

    @endpoint
    def config(self) -> Call[catalog.Configuration]:
        """Return the version, limits and capabilities, and the warehouses that the token may use."""
        return _one(catalog.Configuration, get("/v1/config"))

    @endpoint
    def databases(self, warehouse: str) -> Call[tuple[str, ...]]:
        """Return databases of a warehouse."""
        return _names("databases", f"/v1/{warehouse}/databases")

    @endpoint
    def tables(self, warehouse: str, database: str) -> Call[tuple[str, ...]]:
        """Return tables of a database."""
        return _names("tables", f"/v1/{warehouse}/databases/{database}/tables")

    @endpoint
    def describe(self, table: str, **options: Unpack[given.VersionOptions]) -> Call[catalog.TableDescription]:
        """Describe a table, now or at a version."""
        return _one(catalog.TableDescription, get(under(table, ""), options))

    @endpoint
    def schemas(
        self, table: str, **options: Unpack[given.VersionOptions]
    ) -> Call[tuple[catalog.Schema, ...]]:
        """Yield schemas with full types, up to that of a version, the oldest first."""
        path = under(table, "/schemas")
        joined = yield from _pages("schemas", lambda token: get(path, {**options, "page_token": token}))
        return tuple(decode(catalog.Schema, schema) for schema in joined["schemas"])

    @endpoint
    def schema(self, table: str, schema_id: int, *, branch: str | None = None) -> Call[catalog.Schema]:
        """Return one schema with full types."""
        return _one(catalog.Schema, get(under(table, f"/schemas/{schema_id}"), {"branch": branch}))

    @endpoint
    def snapshots(self, table: str, *, branch: str | None = None) -> Call[tuple[catalog.Snapshot, ...]]:
        """Return existing snapshots, the oldest first."""
        return _listed(catalog.Snapshot, "snapshots", under(table, "/snapshots"), branch=branch)

    @endpoint
    def tags(self, table: str, *, branch: str | None = None) -> Call[tuple[catalog.Tag, ...]]:
        """Return tags of a table."""
        return _listed(catalog.Tag, "tags", under(table, "/tags"), branch=branch)

    @endpoint
    def branches(self, table: str) -> Call[tuple[catalog.Branch, ...]]:
        """Return branches of a table."""
        return _listed(catalog.Branch, "branches", under(table, "/branches"))

    @endpoint
    def index_files(
        self, table: str, *, index_type: str | None = None, **options: Unpack[given.VersionOptions]
    ) -> Call[catalog.IndexFileList]:
        """Yield live entries of the index manifest, of one index type or all."""
        path, members = under(table, "/index-files"), {**options, "type": index_type}
        joined = yield from _pages("index_files", lambda token: get(path, {**members, "page_token": token}))
        return decode(catalog.IndexFileList, joined)

    @endpoint
    def deletions(self, table: str, **options: Unpack[given.DeletionsOptions]) -> Call[results.Deletions]:
        """Return deleted rows of data files."""
        path = under(table, "/deletions")
        joined = yield from _pages("deletions", lambda token: post(path, {**options, "page_token": token}))
        return decode(results.Deletions, joined)

    @endpoint
    def buckets(self, table: str, **options: Unpack[given.BucketsOptions]) -> Call[results.BucketList]:
        """Return buckets, their index files and how full they are."""
        return _one(results.BucketList, get(under(table, "/buckets"), options))

    @endpoint
    def lookup(self, table: str, **options: Unpack[given.LookupOptions]) -> Call[results.BucketLookup]:
        """Return the buckets of keys or hashes, in their order."""
        return _one(results.BucketLookup, post(under(table, "/buckets/lookup"), options))

    @endpoint
    def assign(self, table: str, **options: Unpack[given.AssignOptions]) -> Call[results.Assignment]:
        """Return the buckets that a writer would give keys. Write nothing."""
        return _one(results.Assignment, post(under(table, "/buckets/assign"), options))

    @endpoint
    def advice(self, table: str, **options: Unpack[given.AdviceOptions]) -> Call[results.TableAdvice]:
        """Return the cost and use of a table's file indexes, and advice about them."""
        return _one(results.TableAdvice, get(under(table, "/advice"), options))

    @endpoint
    def aggregate(
        self, table: str, **options: Unpack[given.AggregateOptions]
    ) -> Call[results.AggregateAnswer]:
        """Return counts, extremes, sums and facets, as far as indexes give them without data."""
        return _one(results.AggregateAnswer, post(under(table, "/aggregate"), options))

    @endpoint
    def changes(
        self, table: str, from_snapshot_id: int | None = None, **options: Unpack[given.ChangesOptions]
    ) -> Call[results.ChangesAnswer]:
        """Return files that came and went, after a filter.

        With ``from_token``, changes since the answer with it as ``next_from_token``. With
        ``from_snapshot_id``, changes up to a later version, which must be named too. Without both, none.
        """
        body = {"from_snapshot_id": from_snapshot_id, **options}
        return _one(results.ChangesAnswer, post(under(table, "/changes"), body))

    @endpoint
    def what_if(
        self, table: str, indexes: Iterable[given.ProposedIndex], **options: Unpack[given.WhatIfOptions]
    ) -> Call[results.WhatIf]:
        """Return numbers of files that proposed indexes would skip.

        The service reads a sample of data files.
        """
        return _one(results.WhatIf, post(under(table, "/what-if"), {"indexes": list(indexes), **options}))

    @endpoint
    def evaluate(
        self,
        warehouse: str,
        schema: Mapping[str, str],
        files: Iterable[given.IndexFile],
        **options: Unpack[given.EvaluateOptions],
    ) -> Call[results.Evaluation]:
        """Return decisions of index files about a filter. ``schema`` has type texts by column name."""
        columns = [{"name": name, "type": type_} for name, type_ in schema.items()]
        members = {"schema": columns, "files": [index_file_members(file) for file in files], **options}
        return _one(results.Evaluation, post(f"/v1/{warehouse}/index-files/evaluate", members))

    @endpoint
    def inspect(
        self, warehouse: str, file: given.IndexFile, **options: Unpack[given.InspectOptions]
    ) -> Call[results.Inspection]:
        """Return contents of an index file."""
        types = options.pop("types", None)
        request = post(f"/v1/{warehouse}/index-files/inspect", {**index_file_members(file), **options})
        parameters = get("", {"schema": types}).parameters
        return _one(results.Inspection, replace(request, parameters=parameters))

    @endpoint
    def cache(self) -> Call[dict[str, catalog.CacheState]]:
        """Return the state of each cache by its name."""
        return _caches(get("/v1/cache"))

    @endpoint
    def clear_cache(self) -> Call[dict[str, catalog.CacheState]]:
        """Empty the caches in memory, for admin tokens."""
        return _caches(post("/v1/cache/clear", {}))

    @endpoint
    def metrics(self) -> Call[str]:
        """Return metrics in Prometheus' text form."""
        return (yield get("/metrics")).decode()

    @endpoint
    def openapi(self) -> Call[dict[str, Any]]:
        """Yield the OpenAPI document of the service."""
        document: dict[str, Any] = _json((yield get("/openapi.json")))
        return document


def _one(kind: type[T], request: Request) -> Call[T]:
    return decode(kind, _json((yield request)))


def _listed(kind: type[T], member: str, path: str, **options: str | None) -> Call[tuple[T, ...]]:
    joined = yield from _pages(member, lambda token: get(path, {**options, "page_token": token}))
    return tuple(decode(kind, each) for each in joined[member])


def _names(member: str, path: str) -> Call[tuple[str, ...]]:
    joined = yield from _pages(member, lambda token: get(path, {"page_token": token}))
    return tuple(joined[member])


def _caches(request: Request) -> Call[dict[str, catalog.CacheState]]:
    answer = _json((yield request))
    return {name: decode(catalog.CacheState, state) for name, state in answer.items() if state is not None}


def _pages(member: str, page: Callable[[str | None], Request]) -> Call[dict[str, Any]]:
    """Join all pages: the first page's object, with the entries of all pages under ``member``."""
    joined: dict[str, Any] = _json((yield page(None)))
    entries, token = list(_member(joined, member)), joined.get("next_page_token")
    while token is not None:
        further = _json((yield page(token)))
        entries += _member(further, member)
        token = further.get("next_page_token")
    return {**joined, member: entries}


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise IncompleteAnswerError(f"the answer is not JSON: {error}") from error


def _member(answer: Any, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise IncompleteAnswerError(f"the answer has no member {name}; is the base URL that of paimon-index?")
    return answer[name]

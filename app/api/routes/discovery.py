"""Discovery: warehouses, databases, tables and their versions and index files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.access import Role
from app.api.answers.encoding import NextToken, SchemaList, encode_schemas
from app.api.answers.paging import PAGE_BYTES, Listing, NextPageToken, Window
from app.api.answers.selections import MOST_POSITIONS
from app.api.answers.versioned import VersionedQuestion
from app.api.gate.access import CurrentCaller
from app.api.http.headers import PlanFormat
from app.api.http.paths import DATABASES, ICEBERG, TABLE, TABLES, DatabaseName, SchemaId, WarehouseName
from app.api.http.problems import iceberg_error
from app.api.http.strict_json import write_json
from app.api.openapi import operation
from app.api.questions.queries import (
    BranchQuery,
    IndexFilesQuery,
    ListingQuery,
    LocatedTable,
    NamesQuery,
    SchemasQuery,
    VersionQuery,
)
from app.api.runtime import Shared
from app.described import DESCRIBED
from app.memory_budget import MemoryUse
from app.planning import Version
from app.planning.buckets import SnapshotId
from app.planning.version import Branch, IndexFileEntry, Refusal, Schema, Snapshot, TableDescription, Tag
from app.predicates.unbound import DEFAULT_LIMITS
from app.release import __version__
from app.settings import Settings

router = APIRouter(tags=["discovery"])

_CAPABILITIES = {
    "filters": ["spark_sql", "paimon_json"],
    "selections": ["none", "count", "bitmap", "ranges", "positions"],
    "formats": [format_.value for format_ in PlanFormat],
    "encodings": ["gzip"],
}


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table whose latest snapshot is kept decoded."""

    warehouse: str
    database: str
    table: str
    snapshot_id: int | None
    """The last snapshot that was decoded; null before the first."""
    failures: int
    """Failed attempts to read the table since the last success."""


@dataclass(frozen=True, slots=True)
class Token:
    """The token of the request."""

    name: str
    role: Literal["reader", "admin"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The service's version, limits and capabilities, and the caller's rights."""

    __pydantic_config__ = DESCRIBED

    service: str
    version: str
    warehouses: Sequence[str]
    warehouse_urls: Mapping[str, str]
    """Public URLs of the warehouses, for readers of their files."""
    limits: Mapping[str, float]
    memory: MemoryUse
    capabilities: Mapping[str, Sequence[str]]
    watch: Sequence[WatchedTable]
    """Watched tables of this process; other processes follow them on their own."""
    token: Annotated[Token | None, Field(description="Null if the service requires none.")]


@dataclass(frozen=True, slots=True)
class WarehouseList:
    """The warehouses that the caller may use."""

    __pydantic_config__ = DESCRIBED

    warehouses: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatabaseList:
    """One page of the databases of a warehouse, by name."""

    __pydantic_config__ = DESCRIBED

    databases: Sequence[str]
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class TableList:
    """One page of the tables of a database, by name."""

    __pydantic_config__ = DESCRIBED

    tables: Sequence[str]
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """One page of a table's snapshots, oldest first."""

    __pydantic_config__ = DESCRIBED

    snapshots: Sequence[Snapshot]
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class TagList:
    """One page of a table's tags, by name."""

    __pydantic_config__ = DESCRIBED

    tags: Sequence[Tag]
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class BranchList:
    """A table's branches besides the main one."""

    __pydantic_config__ = DESCRIBED

    branches: Sequence[Branch]


@dataclass(frozen=True, slots=True)
class IndexFileList:
    """One page of the index manifest's live entries."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: SnapshotId
    index_files: Sequence[IndexFileEntry]
    next_page_token: NextPageToken


@router.get("/v1/config", **operation(Configuration, storage=False))
async def config(request: Request, runtime: Shared, caller: CurrentCaller) -> Response:
    """List the service's version, limits and capabilities, and the warehouses that the caller may use."""
    if "warehouse" in request.query_params:
        return _iceberg_elsewhere(request)
    settings = runtime.settings
    warehouses = {
        name: warehouse
        for name, warehouse in sorted(runtime.service.warehouses.items())
        if caller.may_use(name)
    }
    answer = Configuration(
        service="paimon-index",
        version=__version__,
        warehouses=list(warehouses),
        warehouse_urls={name: warehouse.public_url for name, warehouse in warehouses.items()},
        limits={
            "body_bytes": settings.body_bytes,
            "filter_depth": settings.limits.filter_depth,
            "filter_literals": settings.filter_literals,
            "filter_characters": DEFAULT_LIMITS.characters,
            "files_named": settings.files_named,
            "positions": MOST_POSITIONS,
            "page_size": settings.page_size,
            "page_size_max": settings.page_size_max,
            "page_bytes": PAGE_BYTES,
            "deadline_seconds": settings.deadline_seconds,
            "concurrency": settings.concurrency,
        },
        memory=runtime.budget.use(),
        capabilities=_CAPABILITIES,
        watch=[
            WatchedTable(table.warehouse, table.database, table.table, watched.snapshot_id, watched.failures)
            for watched in runtime.watch.tables()
            if caller.may_use((table := watched.table).warehouse, table.database)
        ],
        token=None
        if caller.name is None
        else Token(caller.name, "admin" if caller.role is Role.ADMIN else "reader"),
    )
    return Response(write_json(answer), media_type="application/json")


@router.get("/v1", **operation(WarehouseList, storage=False))
async def warehouses(runtime: Shared, caller: CurrentCaller) -> Response:
    """List the warehouses that the caller may use. Their URLs and the limits are in `/v1/config`."""
    answer = WarehouseList([name for name in sorted(runtime.service.warehouses) if caller.may_use(name)])
    return Response(write_json(answer), media_type="application/json")


@router.get("/v1/namespaces", include_in_schema=False)
async def namespaces(request: Request) -> Response:
    """Direct Iceberg clients to the catalog."""
    return _iceberg_elsewhere(request)


def _iceberg_elsewhere(request: Request) -> Response:
    """Refer clients of Iceberg, which read this form of errors, to the catalog's URL."""
    detail = (
        f"Iceberg's catalog is at {request.base_url}{ICEBERG.removeprefix('/')} if PAIMON_INDEX_ICEBERG is "
        f"true: set the catalog's uri to this URL"
    )
    status, body = iceberg_error(404, "not-found", detail, request.url.path)
    return Response(write_json(body), status_code=status, media_type="application/json")


@router.get("/v1/{warehouse}", **operation(DatabaseList))
async def warehouse(
    warehouse: WarehouseName, query: Annotated[NamesQuery, Query()], runtime: Shared, caller: CurrentCaller
) -> Response:
    """List the databases of a warehouse, as `/v1/{warehouse}/databases` does."""
    return await databases(warehouse, query, runtime, caller)


@router.get(DATABASES, **operation(DatabaseList))
async def databases(
    warehouse: WarehouseName, query: Annotated[NamesQuery, Query()], runtime: Shared, caller: CurrentCaller
) -> Response:
    """List the databases of a warehouse that the caller may use."""
    listing = Listing.of("databases", warehouse, query=query, settings=runtime.settings)

    def compute() -> object:
        names = runtime.service.tables.databases(warehouse)
        return DatabaseList(*listing.page([name for name in names if caller.may_use(warehouse, name)]))

    return await runtime.answer(compute)


@router.get(TABLES, **operation(TableList))
async def tables(
    warehouse: WarehouseName,
    database: DatabaseName,
    query: Annotated[NamesQuery, Query()],
    runtime: Shared,
) -> Response:
    """List the tables of a database."""
    listing = Listing.of("tables", warehouse, database, query=query, settings=runtime.settings)
    return await runtime.answer(
        lambda: TableList(*listing.page(runtime.service.tables.names(warehouse, database)))
    )


@router.get(TABLE, **operation(TableDescription))
async def describe(table: LocatedTable, query: Annotated[VersionQuery, Query()], runtime: Shared) -> Response:
    """Describe a table as it is or as a version was: its schema, keys, options and indexes."""
    return await runtime.answer(
        lambda: runtime.service.tables.describe(table, query.selector, _iceberg_refusal(runtime.settings))
    )


def _iceberg_refusal(settings: Settings) -> Refusal:
    if not settings.iceberg:
        return lambda *_: "this service does not serve Iceberg clients: PAIMON_INDEX_ICEBERG is not set"
    from app.iceberg import reason_against  # noqa: PLC0415 - loaded where Iceberg is served

    return reason_against


@router.get(TABLE + "/schemas", **operation(SchemaList, tagged=True))
async def schemas(
    request: Request, table: LocatedTable, query: Annotated[SchemasQuery, Query()], runtime: Shared
) -> Response:
    """List a table's schemas, the oldest first, with the full types of their columns."""
    question = VersionedQuestion(runtime, table, "schemas", query, request.headers.getlist("if-none-match"))

    def compute(version: Version, window: Window, token: NextToken) -> SchemaList:
        return encode_schemas(runtime.service.tables.schemas(version), window, token)

    return await runtime.run(lambda: question.answer(compute))


@router.get(TABLE + "/schemas/{schema_id}", **operation(Schema))
async def schema(
    table: LocatedTable, schema_id: SchemaId, query: Annotated[BranchQuery, Query()], runtime: Shared
) -> Response:
    """Show one schema of a table, with the full types of its columns."""
    return await runtime.answer(lambda: runtime.service.tables.schema(table, schema_id, query.branch))


@router.get(TABLE + "/snapshots", **operation(SnapshotList))
async def snapshots(
    table: LocatedTable, query: Annotated[ListingQuery, Query()], runtime: Shared
) -> Response:
    """List a table's snapshots, the oldest first."""
    listing = Listing.of("snapshots", table, query.branch, query=query, settings=runtime.settings)
    after = None if listing.after is None else int(listing.after)

    def compute() -> object:
        page, last = runtime.service.tables.snapshots(table, query.branch, after, listing.size)
        return SnapshotList(page, listing.next_token(last))

    return await runtime.answer(compute)


@router.get(TABLE + "/tags", **operation(TagList))
async def tags(table: LocatedTable, query: Annotated[ListingQuery, Query()], runtime: Shared) -> Response:
    """List a table's tags by name."""
    listing = Listing.of("tags", table, query.branch, query=query, settings=runtime.settings)

    def compute() -> object:
        page, last = runtime.service.tables.tags(table, query.branch, listing.after, listing.size)
        return TagList(page, listing.next_token(last))

    return await runtime.answer(compute)


@router.get(TABLE + "/branches", **operation(BranchList))
async def branches(table: LocatedTable, runtime: Shared) -> Response:
    """List a table's branches."""
    return await runtime.answer(lambda: BranchList(runtime.service.tables.branches(table)))


@router.get(TABLE + "/index-files", **operation(IndexFileList, tagged=True))
async def index_files(
    request: Request, table: LocatedTable, query: Annotated[IndexFilesQuery, Query()], runtime: Shared
) -> Response:
    """List the live entries of a table's index manifest."""
    question = VersionedQuestion(
        runtime, table, "index-files", query, request.headers.getlist("if-none-match")
    )

    def compute(version: Version, window: Window, token: NextToken) -> IndexFileList:
        entries = runtime.service.tables.index_files(version, query.type)
        page = window.fill(len(entries), entries.__getitem__)
        return IndexFileList(version.snapshot_id, page.entries, token(page.next_offset))

    return await runtime.run(lambda: question.answer(compute))

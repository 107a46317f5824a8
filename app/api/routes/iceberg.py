"""Apache Iceberg's REST catalog, read only, at ``/iceberg`` if the operator has enabled it.

Iceberg's own OpenAPI document describes these endpoints, so ours does not. A warehouse is a prefix, a
database a namespace of one level. :mod:`app.api.http.problems` translates errors. Unknown members of bodies
are ignored, since other releases may have them.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from fastapi import APIRouter, Depends, Query
from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.versioned import etag_matches
from app.api.gate.access import CurrentCaller, check_place
from app.api.http.paths import (
    ICEBERG,
    ICEBERG_ROUTES,
    NAMESPACE,
    NAMESPACE_TABLE,
    NAMESPACE_TABLES,
    NAMESPACES,
)
from app.api.http.strict_json import write_json
from app.api.questions.bodies import JsonBody
from app.api.questions.queries import NamedTable
from app.api.runtime import Runtime, Shared
from app.errors import NotFoundError, PageTokenError, RequestError
from app.iceberg import ACCEPT, LONGEST_ID, MILLIS, IcebergCatalog, PlanQuestion, PlanToken, write_filter
from app.planning.request import members
from app.types.digest import digest

Id = Annotated[int, Field(ge=0, lt=1 << 63)]

router = APIRouter(prefix=ICEBERG, include_in_schema=False)

_SERVER_PLANNING: Final = {"scan-planning-mode": "server"}

_CLIENT_HEADERS: Final = ("x-client-version", "user-agent")
"""Headers that identify a client."""
_PYICEBERG: Final = "PyIceberg"
"""Name of a client that, up to release 0.12, reads deletion vectors in whole Puffin files only."""

_NAMES: Final = {"{warehouse}": "{prefix}", "{database}": "{namespace}", "{plan_id}": "{plan-id}"}
"""Our names of path parameters, and Iceberg's."""


class IcebergBody(members.Request):
    """A JSON object whose members are called ``like-this``."""

    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        frozen=True,
        alias_generator=AliasGenerator(validation_alias=lambda name: name.replace("_", "-")),
    )


class PlanScanBody(IcebergBody):
    """``PlanTableScanRequest``: a scan to plan."""

    snapshot_id: Id | None = None
    select: list[str] | None = None
    filter: Annotated[bool | dict[str, Any], members.OF_ALLOWED_SIZE] | None = None
    min_rows_requested: Id | None = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    start_snapshot_id: Id | None = None
    end_snapshot_id: Id | None = None
    stats_fields: list[str] | None = None

    @model_validator(mode="after")
    def _one_kind_of_scan(self) -> Self:
        is_incremental = self.start_snapshot_id is not None or self.end_snapshot_id is not None
        if is_incremental and self.snapshot_id is not None:
            raise ValueError("snapshot-id goes with neither start-snapshot-id nor end-snapshot-id")
        if is_incremental and (self.start_snapshot_id is None or self.end_snapshot_id is None):
            raise ValueError("start-snapshot-id and end-snapshot-id go together")
        return self

    def to_question(self) -> PlanQuestion:
        """Convert the body to the planner's form. Raises RequestError if the filter nests too deeply."""
        try:
            written = None if self.filter is None else write_filter(self.filter)
        except RecursionError as error:
            raise RequestError("the filter nests too deeply") from error
        return PlanQuestion(
            snapshot_id=self.snapshot_id if self.end_snapshot_id is None else self.end_snapshot_id,
            use_snapshot_schema=self.use_snapshot_schema,
            filter=written,
            case_sensitive=self.case_sensitive,
            min_rows=self.min_rows_requested,
            statistics=tuple(self.stats_fields or ()),
            start_snapshot_id=self.start_snapshot_id,
        )


class FetchTasksBody(IcebergBody):
    """``FetchScanTasksRequest``: a part of a plan."""

    plan_task: str


class MetricsBody(IcebergBody):
    """``ReportMetricsRequest``, of which only the kind is read."""

    report_type: str


class ListQuery(BaseModel):
    """Query parameters of a request for a page of a list."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=False)

    page_token: str | None = Field(None, alias="pageToken")
    page_size: Annotated[int, Field(ge=1)] | None = Field(None, alias="pageSize")
    parent: str | None = None


class LoadQuery(BaseModel):
    """The snapshots to include in the metadata."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    snapshots: Literal["all", "refs"] = "all"


def _as_iceberg(route: str) -> str:
    for ours, theirs in _NAMES.items():
        route = route.replace(ours, theirs)
    return route.replace(ICEBERG, "")


_ENDPOINTS: Final = [_as_iceberg(route) for route in ICEBERG_ROUTES]


async def _catalog(request: Request, runtime: Shared) -> IcebergCatalog:
    accepts = request.headers.get(ACCEPT, "").replace(" ", "").split(",")
    settings = runtime.settings
    return IcebergCatalog(
        runtime.service,
        settings.limits,
        settings.plan_budget_ms,
        millis=MILLIS in accepts,
        vectors=not any(request.headers.get(name, "").startswith(_PYICEBERG) for name in _CLIENT_HEADERS),
    )


_Catalog = Annotated[IcebergCatalog, Depends(_catalog)]


@router.get("/v1/config")
async def iceberg_config(runtime: Shared, caller: CurrentCaller, warehouse: str | None = None) -> Response:
    """Give the prefix of a warehouse, the endpoints, and server-side planning."""
    names = sorted(name for name in runtime.service.warehouses if caller.may_use(name))
    if warehouse is None and len(names) != 1:
        raise RequestError(f"give the catalog one of these as its warehouse: {', '.join(names) or 'none'}")
    name = names[0] if warehouse is None else warehouse
    check_place(caller, name, None)
    if name not in names:
        raise NotFoundError(f"there is no warehouse {name!r}")
    answer = {
        "defaults": dict(runtime.settings.iceberg_s3),
        "overrides": {"prefix": name, **_SERVER_PLANNING},
        "endpoints": _ENDPOINTS,
    }
    return Response(write_json(answer), media_type="application/json")


@router.get(NAMESPACES)
async def iceberg_namespaces(
    warehouse: str, query: Annotated[ListQuery, Query()], runtime: Shared, caller: CurrentCaller
) -> Response:
    """List the databases that the caller may use."""

    def compute() -> object:
        databases = [
            name for name in runtime.service.tables.databases(warehouse) if caller.may_use(warehouse, name)
        ]
        if query.parent:
            _check_exists(query.parent, databases)
            databases = []
        names, token = _page(databases, query, runtime)
        return {"namespaces": [[name] for name in names], "next-page-token": token}

    return await runtime.answer(compute)


@router.get(NAMESPACE)
async def iceberg_namespace(warehouse: str, database: str, runtime: Shared) -> Response:
    """Confirm that a database exists. It has no properties."""

    def compute() -> object:
        _check_exists(database, runtime.service.tables.databases(warehouse))
        return {"namespace": [database], "properties": {}}

    return await runtime.answer(compute)


@router.head(NAMESPACE)
async def iceberg_has_namespace(warehouse: str, database: str, runtime: Shared) -> Response:
    """Confirm that a database exists."""
    await runtime.run(lambda: _check_exists(database, runtime.service.tables.databases(warehouse)))
    return Response(status_code=204)


@router.get(NAMESPACE_TABLES)
async def iceberg_tables(
    warehouse: str, database: str, query: Annotated[ListQuery, Query()], runtime: Shared
) -> Response:
    """List the tables of a database, including those that cannot be read."""

    def compute() -> object:
        names, token = _page(runtime.service.tables.names(warehouse, database), query, runtime)
        tables = [{"namespace": [database], "name": name} for name in names]
        return {"identifiers": tables, "next-page-token": token}

    return await runtime.answer(compute)


@router.get(NAMESPACE_TABLE)
async def iceberg_table(
    request: Request,
    table: NamedTable,
    query: Annotated[LoadQuery, Query()],
    runtime: Shared,
    catalog: _Catalog,
) -> Response:
    """Load the metadata of a table."""
    if_none_match = request.headers.getlist("if-none-match")

    def answer() -> Response:
        metadata = catalog.load_table(table, referenced_only=query.snapshots == "refs")
        content = write_json({"metadata": metadata, "config": {**_SERVER_PLANNING}})
        etag = f'W/"{digest(content).hex()}"'
        if etag_matches(etag, if_none_match):
            return Response(status_code=304, headers={"ETag": etag})
        return Response(content, headers={"ETag": etag}, media_type="application/json")

    return await runtime.run(answer)


@router.head(NAMESPACE_TABLE)
async def iceberg_has_table(table: NamedTable, runtime: Shared, catalog: _Catalog) -> Response:
    """Confirm that a table exists."""
    await runtime.run(lambda: catalog.check_table(table))
    return Response(status_code=204)


@router.post(NAMESPACE_TABLE + "/plan")
async def iceberg_plan(
    table: NamedTable,
    body: Annotated[PlanScanBody, Depends(JsonBody(PlanScanBody))],
    runtime: Shared,
    catalog: _Catalog,
) -> Response:
    """Plan a scan. A large plan is fetched in tasks."""
    return await runtime.answer(lambda: catalog.plan(table, body.to_question()))


@router.get(NAMESPACE_TABLE + "/plan/{plan_id}")
async def iceberg_fetch_plan(table: NamedTable, plan_id: str, runtime: Shared, catalog: _Catalog) -> Response:
    """Plan the same scan of the same snapshot once more."""
    return await runtime.answer(lambda: catalog.fetch_plan(table, plan_id))


@router.delete(NAMESPACE_TABLE + "/plan/{plan_id}")
async def iceberg_cancel_plan(table: NamedTable, plan_id: str, runtime: Shared) -> Response:
    """Accept the cancellation of a plan. The service keeps no state of it."""
    await runtime.run(lambda: PlanToken.read(plan_id, table, LONGEST_ID))
    return Response(status_code=204)


@router.post(NAMESPACE_TABLE + "/tasks")
async def iceberg_tasks(
    table: NamedTable,
    body: Annotated[FetchTasksBody, Depends(JsonBody(FetchTasksBody))],
    runtime: Shared,
    catalog: _Catalog,
) -> Response:
    """Fetch the tasks of a part of a plan."""
    return await runtime.answer(lambda: catalog.fetch_tasks(table, body.plan_task))


@router.post(NAMESPACE_TABLE + "/metrics")
async def iceberg_metrics(
    table: NamedTable,
    _: Annotated[MetricsBody, Depends(JsonBody(MetricsBody))],
    runtime: Shared,
    catalog: _Catalog,
) -> Response:
    """Accept a client's report, which is only counted as a request."""
    await runtime.run(lambda: catalog.check_table(table))
    return Response(status_code=204)


def _check_exists(database: str, databases: Sequence[str]) -> None:
    if database not in databases:
        raise NotFoundError(f"there is no namespace {database!r}")


def _page(names: Sequence[str], query: ListQuery, runtime: Runtime) -> tuple[Sequence[str], str | None]:
    """Return a page of names, and the token of the next page: the last name of this one, in base64."""
    # Iceberg's document: a client that sends no token, not even an empty one, gets all names.
    if query.page_token is None:
        return names, None
    if query.page_token:
        try:
            after = base64.urlsafe_b64decode(query.page_token.encode("ascii")).decode()
        except ValueError as error:
            raise PageTokenError(
                "this is not a page token: send next-page-token back as it was given"
            ) from error
        names = [name for name in names if name > after]
    size = query.page_size or runtime.settings.page_size
    page = names[:size]
    token = base64.urlsafe_b64encode(page[-1].encode()).decode() if len(names) > size else None
    return page, token

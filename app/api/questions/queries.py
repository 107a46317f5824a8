"""Query parameters, and the table that a request is about.

Values are text and read as such. An unknown parameter is an error, like an unknown member of a body.

The path names a table, or the parameter ``location`` gives its directory, for catalogs whose directories do
not follow from names. The names of the path are then the caller's own. Rights follow the directory: it is
below the root of the warehouse of the path, and that warehouse's rights apply.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from fastapi import Depends
from pydantic import ConfigDict, Field
from starlette.requests import Request as HttpRequest

from app.api.gate.access import CurrentCaller, check_path
from app.api.http.paths import DatabaseName, TableName, WarehouseName
from app.api.http.strict_json import read_json
from app.api.questions.bodies import PagedRequest
from app.api.runtime import Shared
from app.errors import RequestError
from app.planning.request import BucketsRequest, TableRef, VersionedRequest
from app.planning.request.members import Name, Request
from app.suggestions import hint
from app.table import DATABASE_SUFFIX

# FastAPI reads the parameters from the model, so it must be complete.
_LENIENT = ConfigDict(strict=False, defer_build=False)


Location: TypeAlias = Annotated[
    str | None,
    Field(
        description="The table's directory, if it does not follow from its name: a URL below the "
        "warehouse's.",
        # Warehouse.path_of refuses others, with a message.
        json_schema_extra={"pattern": "^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"},
    ),
]


class TableQuery(Request):
    """The parameters of a table."""

    model_config = _LENIENT

    location: Location = None


class BranchQuery(TableQuery):
    """The parameters of a branch of a table."""

    branch: Name | None = None


class NamesQuery(Request):
    """The parameters of a page of names."""

    model_config = _LENIENT

    page_size: Annotated[int, Field(ge=1)] | None = None
    page_token: str | None = None


class ListingQuery(NamesQuery, BranchQuery):
    """The parameters of a page of a table's snapshots or tags."""


class VersionQuery(VersionedRequest, TableQuery):
    """The parameters of a version of a table."""


class SchemasQuery(PagedRequest, TableQuery):
    """The parameters of a page of schemas up to that of a version."""


class IndexFilesQuery(PagedRequest, TableQuery):
    """The parameters of a page of index files of a version."""

    type: Name | None = Field(None, description="Only entries of this index type.", examples=["HASH"])


class AdviceQuery(VersionQuery):
    """The parameters of advice."""

    files: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Data files whose index heads are read at most. Absent: 1,000."
    )


class BucketsQuery(VersionedRequest, TableQuery):
    """The parameters of buckets of a version."""

    partition: str | None = Field(
        None, description="A JSON object by partition column.", examples=['{"dt": "2025-08-01"}']
    )

    def request(self) -> BucketsRequest:
        """Convert the parameters, with the partition decoded."""
        partition = None if self.partition is None else _json_object("partition", self.partition)
        return BucketsRequest.like(self, partition=partition)


class InspectQuery(Request):
    """The types of the columns of an index file."""

    model_config = _LENIENT

    columns: str | None = Field(
        None,
        alias="schema",
        description="A JSON object of types by column name; without it only facts that need no type appear.",
        examples=['{"id": "BIGINT", "name": "STRING"}'],
    )

    def types(self) -> Mapping[str, str]:
        """Return the type texts by column name."""
        types = {} if self.columns is None else _json_object("schema", self.columns)
        if not all(isinstance(text, str) for text in types.values()):
            raise RequestError("schema: expected a type text for each column name")
        return types


def _json_object(name: str, text: str) -> dict[str, Any]:
    value = read_json(text.encode(errors="surrogatepass"), f"parameter {name}")
    if not isinstance(value, dict):
        raise RequestError(f"{name}: expected a JSON object")
    return value


async def _named_table(warehouse: WarehouseName, database: DatabaseName, table: TableName) -> TableRef:
    return TableRef(warehouse, database, table)


NamedTable = Annotated[TableRef, Depends(_named_table)]


async def _table(
    request: HttpRequest,
    named: NamedTable,
    runtime: Shared,
    caller: CurrentCaller,
    location: Location = None,
) -> TableRef:
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counted.items():
        # Only one of them would be used, and a proxy may have checked the other.
        if count > 1:
            raise RequestError(f"the parameter {name[:50]!r} stands {count} times: send it once")
    if request.method == "POST":
        # Queries of GET have a model each. Here a mistyped location would give the answer of another table.
        for name in counted.keys() - {"location"}:
            suggestion = hint(name, ["location"], plural="parameters")
            raise RequestError(f"there is no parameter {name[:50]!r}{suggestion}")
    if location is None:
        return named
    directory = runtime.service.tables.path_of(named.warehouse, location)
    check_path(caller, named.warehouse, directory)
    is_named = directory == f"{named.database}{DATABASE_SUFFIX}/{named.table}"
    return named if is_named else replace(named, directory=directory)


LocatedTable = Annotated[TableRef, Depends(_table)]

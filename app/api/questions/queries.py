"""What callers send as query parameters, and which table a request is about.

Values are text and read as such; an unknown parameter is refused like an unknown member of a body.

A table is that of the path or, by the parameter ``location``, one elsewhere: a catalog may give it a
directory that its name does not tell. The names of the path are then what the caller calls it. Where it lies
decides what is read and who may: it lies below the root of the warehouse that the path names, whose rights
hold.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request as HttpRequest

from app.api.gate.access import Asking, check_path
from app.api.http.paths import DatabaseName, TableName, WarehouseName
from app.api.http.strict_json import read_json
from app.api.questions.bodies import PagedRequest
from app.api.runtime import Shared
from app.errors import RequestError
from app.planning.request import BucketsRequest, TableRef, VersionedRequest
from app.planning.request.members import Name, Request, TimeZone
from app.suggestions import hint
from app.table import DATABASE_SUFFIX

# FastAPI reads the parameters of a model that is complete.
_LENIENT = ConfigDict(strict=False, defer_build=False)


LOCATION: Final = "The table's directory, where its name does not tell it: a URL below the warehouse's."


class TableQuery(Request):
    """Which table."""

    model_config = _LENIENT

    location: str | None = Field(None, description=LOCATION)


class BranchQuery(TableQuery):
    """Which branch of a table."""

    branch: Name | None = None


class NamesQuery(Request):
    """Which page of a listing of names."""

    model_config = _LENIENT

    page_size: Annotated[int, Field(ge=1)] | None = None
    page_token: str | None = None


class ListingQuery(NamesQuery, BranchQuery):
    """Which page of a listing of what a table has."""


class VersionQuery(VersionedRequest, TableQuery):
    """Which version of a table."""


class SchemasQuery(PagedRequest, TableQuery):
    """Which page of the schemas up to that of a version."""


class IndexFilesQuery(PagedRequest, TableQuery):
    """Which index files of which version."""

    type: Name | None = Field(None, description="Only entries of this index type.", examples=["HASH"])


class AdviceQuery(VersionQuery):
    """What to look at for advice."""

    files: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Data files whose index heads are read at most. Absent: 1,000."
    )


class BucketsQuery(VersionedRequest, TableQuery):
    """Which buckets of which version."""

    partition: str | None = Field(
        None, description="A JSON object by partition column.", examples=['{"dt": "2025-08-01"}']
    )
    time_zone: TimeZone | None = None

    def request(self) -> BucketsRequest:
        """The request, with the partition read."""
        partition = None if self.partition is None else _json_object("partition", self.partition)
        return BucketsRequest.like(self, partition=partition)


class InspectQuery(Request):
    """Which types the columns of an index file have."""

    model_config = _LENIENT

    columns: str | None = Field(
        None,
        alias="schema",
        description="A JSON object of types by column name; without it only what needs no type is shown.",
        examples=['{"id": "BIGINT", "name": "STRING"}'],
    )

    def types(self) -> Mapping[str, str]:
        """Type texts by column name."""
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
    caller: Asking,
    location: Annotated[str | None, Query(description=LOCATION)] = None,
) -> TableRef:
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counted.items():
        # One of them would decide, and another the caller or a proxy may have looked at.
        if count > 1:
            raise RequestError(f"the parameter {name[:50]!r} stands {count} times: send it once")
    if request.method == "POST":
        # Queries of GET have a model each; here one word would be another table's answer.
        for name in counted.keys() - {"location"}:
            known = hint(name, ["location"], what="parameters")
            raise RequestError(f"there is no parameter {name[:50]!r}{known}")
    if location is None:
        return named
    directory = runtime.service.path_of(named.warehouse, location)
    check_path(caller, named.warehouse, directory)
    is_named = directory == f"{named.database}{DATABASE_SUFFIX}/{named.table}"
    return named if is_named else replace(named, directory=directory)


Table = Annotated[TableRef, Depends(_table)]

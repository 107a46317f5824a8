"""What callers send as query parameters.

Values are text and read as such; an unknown parameter is refused like an unknown member of a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from app.api.bodies import Body, Name, PagedBody, TimeZone, VersionedBody
from app.api.strict_json import read_json
from app.errors import RequestError
from app.planning.request.requests import BucketsRequest

_LENIENT = ConfigDict(strict=False, extra="forbid", frozen=True)


LOCATION: Final = "The table's directory, where its name does not tell it: a URL below the warehouse's."


class TableQuery(Body):
    """Which table; :mod:`app.api.tables` reads it."""

    model_config = _LENIENT

    location: str | None = Field(None, description=LOCATION)


class BranchQuery(TableQuery):
    """Which branch of a table."""

    branch: Name | None = None


class ListingQuery(BranchQuery):
    """Which page of a listing."""

    page_size: Annotated[int, Field(ge=1)] | None = None
    page_token: str | None = None


class VersionQuery(VersionedBody, TableQuery):
    """Which version of a table."""


class SchemasQuery(PagedBody, TableQuery):
    """Which page of the schemas up to that of a version."""


class IndexFilesQuery(PagedBody, TableQuery):
    """Which index files of which version."""

    type: Name | None = Field(None, description="Only entries of this index type.", examples=["HASH"])


class AdviceQuery(VersionQuery):
    """What to look at for advice."""

    files: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Data files whose index heads are read at most. Absent: 1,000."
    )


class BucketsQuery(VersionedBody, TableQuery):
    """Which buckets of which version."""

    partition: str | None = Field(
        None, description="A JSON object by partition column.", examples=['{"dt": "2025-08-01"}']
    )
    time_zone: TimeZone | None = None

    def to_request(self) -> BucketsRequest:
        """The planner's form."""
        partition = None if self.partition is None else _json_object("partition", self.partition)
        return BucketsRequest(self.selector(), partition, self.time_zone)


class InspectQuery(Body):
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

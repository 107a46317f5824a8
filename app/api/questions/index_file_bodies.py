"""Bodies of requests about index files on their own, without a table."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from app.api.questions.bodies import Alias, Body, Count, Filter, InLists, Name, SelectionName, TimeZone
from app.api.questions.plan_bodies import TopNBody
from app.errors import RequestError
from app.planning.request.requests import EvaluateRequest, IndexFileRef


class IndexFileBody(Body):
    """An index file: a path inside of the warehouse, or its bytes."""

    path: Name | None = Field(None, description="Relative to the warehouse.")
    content: str | None = Field(None, description="The file's bytes in base64.")
    name: str | None = None

    @model_validator(mode="after")
    def _path_or_content(self) -> Self:
        if (self.path is None) == (self.content is None):
            raise ValueError("exactly one of path and content is expected")
        return self

    def to_request(self) -> IndexFileRef:
        """The planner's form."""
        if self.content is None:
            return IndexFileRef(self.path, None, self.name)
        try:
            return IndexFileRef(None, base64.b64decode(self.content, validate=True), self.name)
        except (binascii.Error, ValueError) as error:
            raise RequestError(f"content is not base64: {error}") from error


class ColumnBody(Body):
    """A column of the data files that index files belong to."""

    name: Name
    type: str | dict[str, Any] = Field(examples=["DECIMAL(12, 2)"])


class EvaluateBody(Body):
    """What do these index files say about a filter?"""

    example: ClassVar = {
        "schema": [{"name": "score", "type": "INT"}],
        "files": [{"path": "demo.db/events/bucket-0/data-1.parquet.index"}],
        "filter": "score > 60",
    }

    columns: list[ColumnBody] = Field(alias="schema", examples=[[{"name": "score", "type": "INT"}]])
    files: Annotated[list[IndexFileBody], Field(fail_fast=True)]
    row_count: Count | None = None
    filter: Filter | None = None
    in_lists: InLists | None = None
    alias: Alias | None = None
    top_n: TopNBody | None = None
    selection: SelectionName = "bitmap"
    explain: bool = False
    time_zone: TimeZone | None = None

    def to_request(self) -> EvaluateRequest:
        """The planner's form."""
        return EvaluateRequest(
            schema=tuple((column.name, column.type) for column in self.columns),
            files=tuple(file.to_request() for file in self.files),
            row_count=self.row_count,
            filter=self.filter,
            in_lists=self.in_lists,
            alias=self.alias,
            top_n=None if self.top_n is None else self.top_n.to_request(),
            explain=self.explain,
            time_zone=self.time_zone,
        )


class InspectBody(IndexFileBody):
    """What is in this index file?"""

    example: ClassVar = {"path": "demo.db/events/bucket-0/data-1.parquet.index"}

    kind: Literal["file_index", "deletion_vectors", "hash"] | None = None
    offset: Count = Field(0, description="The first vector or hash to list.")
    limit: Annotated[int, Field(ge=1)] | None = Field(None, description="How many; as page_size elsewhere.")

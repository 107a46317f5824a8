"""Requests of the planner: frozen models without HTTP and storage.

Filters are as callers write them; :func:`app.planning.request.filters.read_filter` binds them to columns.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from app.planning.request.members import (
    AssignId,
    Channels,
    Count,
    FileNames,
    Filter,
    Hash,
    InLists,
    Listed,
    Name,
    Partition,
    Request,
    TypedValues,
    as_read,
    one_of,
)
from app.table import SchemaIds


class SelectionForm(StrEnum):
    """Form in which an answer returns a set of row positions."""

    NONE = "none"
    COUNT = "count"
    BITMAP = "bitmap"
    RANGES = "ranges"
    POSITIONS = "positions"


_NONE, _COUNT, _BITMAP, _RANGES, _POSITIONS = SelectionForm
_Selection = Annotated[SelectionForm, one_of(*SelectionForm)]
_DeletedRows = Annotated[SelectionForm, one_of(_NONE, _BITMAP, _RANGES, _POSITIONS)]
Encoding = Annotated[SelectionForm, one_of(_POSITIONS, _RANGES, _BITMAP, _COUNT)]


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table as callers name it."""

    warehouse: str
    database: str
    table: str
    # Path in the warehouse, without a slash at the end; None derives it from the name.
    directory: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSelector:
    """Selects a version of a table by at most one of the first three fields. The latest by default."""

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_millis: int | None = None
    branch: str | None = None
    # Ids of the schemas of columns and of options. None takes both from the newest schema; an older version
    # keeps its own columns.
    schemas: SchemaIds | None = None
    # Age up to which a remembered latest version will do; None leaves it to the service.
    max_staleness_ms: int | None = None


class VersionedRequest(Request):
    """A request about a version, selected by at most one of the first three members, or the latest."""

    snapshot_id: Count | None = None
    tag: Name | None = None
    timestamp_millis: Count | None = Field(
        default=None, description="Milliseconds since 1970-01-01 UTC.", examples=[1754006400000]
    )
    branch: Name | None = None
    max_staleness_ms: Count | None = Field(
        default=None,
        description="The answer may be about the snapshot that was the latest this many milliseconds ago, "
        "without looking for a newer one. 0 is the latest now. Absent: the service's default.",
    )

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        if sum(value is not None for value in (self.snapshot_id, self.tag, self.timestamp_millis)) > 1:
            raise ValueError("at most one of snapshot_id, tag and timestamp_millis names the version")
        return self

    @property
    def selector(self) -> SnapshotSelector:
        """The version selected."""
        return SnapshotSelector(
            self.snapshot_id,
            self.tag,
            self.timestamp_millis,
            self.branch,
            max_staleness_ms=self.max_staleness_ms,
        )


class FilteredRequest(VersionedRequest):
    """A request about the rows that satisfy a filter, or without one about all rows."""

    filter: Filter | None = None


class SortKey(Request):
    """One key of ORDER BY."""

    column: Name
    direction: Literal["asc", "desc"] = "asc"
    nulls: Literal["first", "last"] | None = Field(
        default=None, description="As in Spark SQL: first where ascending, last where descending."
    )

    @property
    def descending(self) -> bool:
        """True if the greatest value comes first."""
        return self.direction == "desc"

    @property
    def nulls_first(self) -> bool:
        """True if NULL comes before all values."""
        return not self.descending if self.nulls is None else self.nulls == "first"


class TopN(Request):
    """ORDER BY ... LIMIT."""

    order_by: Annotated[Listed[SortKey], Field(min_length=1)]
    limit: Count


class PlanRequest(FilteredRequest):
    """Asks which files a query reads."""

    example: ClassVar = {"filter": "dt = '2025-08-01' AND score BETWEEN 60 AND 80", "selection": "ranges"}

    in_lists: InLists | None = None
    selection: _Selection = Field(
        default=SelectionForm.BITMAP, description="Form of the row positions to read in a file."
    )
    explain: bool = Field(default=False, description="Name the step that decided on each file, and why.")
    files: FileNames | None = Field(default=None, description="Decide only these data files.")
    top_n: TopN | None = None
    limit: Count | None = Field(default=None, description="This many matching rows are enough, in any order.")
    uris: bool = Field(
        default=False, description="Paths are absolute URIs instead of relative to the warehouse."
    )
    budget_ms: Count | None = Field(
        default=None,
        description="Time in which the plan may read index files, and ask them more than 64 values of a "
        "list. Files whose indexes were not loaded or searched by then are kept, with decision_reason "
        "not_loaded or not_asked, and summary.complete is false; loading goes on in the background, so that "
        "the same request may skip more files later. Absent: the service's default. Without effect together "
        "with explain or top_n, and for tables with data evolution.",
    )
    deletions: _DeletedRows = Field(
        default=SelectionForm.NONE,
        description="Form of the deleted rows of each kept file, in deleted_rows and deleted_format. "
        "With none, the answer has only the places of deletion vectors.",
    )
    schemas: bool = Field(
        default=False,
        description="Add the schemas that the kept files were written with, and that of the version.",
    )
    totals: bool = Field(
        default=False,
        description="Read every manifest, so that bytes_total covers all partitions. "
        "Otherwise manifests whose partitions the filter rules out are not read.",
    )

    @property
    def reads_everything(self) -> bool:
        """True if the answer covers every manifest, including those that the filter rules out."""
        return self.totals or self.explain or self.files is not None


class DeletionsRequest(VersionedRequest):
    """Asks which rows of which files are deleted."""

    example: ClassVar = {"partition": {"dt": "2025-08-01"}, "encoding": "positions"}

    partition: Partition = None
    files: FileNames | None = Field(
        default=None, description="Data file names; absent: every file with a vector."
    )
    encoding: Encoding = SelectionForm.POSITIONS


class LookupRequest(VersionedRequest):
    """Asks which buckets keys are in."""

    example: ClassVar = {"partition": {"dt": "2025-08-01"}, "keys": [{"id": 1}, {"id": 2}]}

    partition: Partition = None
    keys: Annotated[Listed[TypedValues], Field(fail_fast=True)] | None = Field(
        default=None,
        description="Objects over the primary key; partition columns may be omitted.",
        examples=[[{"id": 1}, {"id": 2}]],
    )
    hashes: Annotated[Listed[Hash], Field(fail_fast=True)] | None = None

    @model_validator(mode="after")
    def _keys_or_hashes(self) -> Self:
        if (self.keys is None) == (self.hashes is None):
            raise ValueError("expected keys, or the hashes of keys, and not both")
        return self


class AssignRequest(LookupRequest):
    """Asks which buckets a writer would assign to keys."""

    example: ClassVar = {
        "partition": {"dt": "2025-08-01"},
        "keys": [{"id": 1}],
        "num_assigners": 2,
        "num_channels": 2,
    }

    assign_id: AssignId = 0
    num_assigners: Channels = 1
    num_channels: Channels = 1


class BucketsRequest(VersionedRequest):
    """Asks which buckets a version has, in one partition or in all."""

    partition: Partition = None


def _content(given: object, check: Callable[[object], str]) -> bytes:
    if isinstance(given, bytes):
        return given
    text = check(given)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not base64: {error}") from error


class IndexFileRef(Request):
    """An index file: a path inside the warehouse, or its bytes."""

    path: Name | None = Field(default=None, description="Relative to the warehouse.")
    content: Annotated[bytes, as_read(str, _content)] | None = Field(
        default=None, description="The file's bytes in base64."
    )
    name: str | None = None

    @model_validator(mode="after")
    def _path_or_content(self) -> Self:
        if (self.path is None) == (self.content is None):
            raise ValueError("exactly one of path and content is expected")
        return self


class InspectRequest(IndexFileRef):
    """Asks for the content of an index file."""

    example: ClassVar = {"path": "demo.db/events/bucket-0/data-1.parquet.index"}

    kind: Literal["file_index", "deletion_vectors", "hash", "btree", "bitmap"] | None = None
    offset: Count = Field(default=0, description="The first vector, hash or block to list.")
    limit: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Most vectors or hashes to list: the page size."
    )


class ColumnRef(Request):
    """A column of the data files that index files belong to."""

    name: Name
    type: str | dict[str, Any] = Field(examples=["DECIMAL(12, 2)"])


class EvaluateRequest(Request):
    """Asks index files about a filter."""

    example: ClassVar = {
        "schema": [{"name": "score", "type": "INT"}],
        "files": [{"path": "demo.db/events/bucket-0/data-1.parquet.index"}],
        "filter": "score > 60",
    }

    columns: Listed[ColumnRef] = Field(alias="schema", examples=[[{"name": "score", "type": "INT"}]])
    files: Annotated[Listed[IndexFileRef], Field(fail_fast=True)]
    row_count: Count | None = None
    filter: Filter | None = None
    in_lists: InLists | None = None
    top_n: TopN | None = None
    selection: _Selection = SelectionForm.BITMAP
    explain: bool = False

"""Requests of the planner, whoever asks: no HTTP and no storage.

Everything here is frozen. What is answered stands in :mod:`app.planning.plan.answers`. Filters are as
callers give them; :func:`app.planning.request.filters.read_filter` binds them to columns.
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
    Alias,
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
    TimeZone,
    TypedValues,
    as_read,
    one_of,
)
from app.table import SchemaIds


class SelectionForm(StrEnum):
    """How a set of row positions is returned."""

    NONE = "none"
    COUNT = "count"
    BITMAP = "bitmap"
    RANGES = "ranges"
    POSITIONS = "positions"


_NONE, _COUNT, _BITMAP, _RANGES, _POSITIONS = SelectionForm
Selection = Annotated[SelectionForm, one_of(*SelectionForm)]
DeletedRows = Annotated[SelectionForm, one_of(_NONE, _BITMAP, _RANGES, _POSITIONS)]
Encoding = Annotated[SelectionForm, one_of(_POSITIONS, _RANGES, _BITMAP, _COUNT)]


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table as callers name it.

    ``directory``: where it lies in the warehouse, without a slash at the end; None is where its name puts it.
    Then the name is only what it is called.
    """

    warehouse: str
    database: str
    table: str
    directory: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSelector:
    """Which version of a table: at most one of the first three; none of them is the latest.

    ``schemas``: whose columns filters refer to, and whose options hold. None is the newest schema; where an
    older version is asked for, the columns are those of its snapshot. ``max_staleness_ms``: the latest may be
    the one that was the latest so many milliseconds ago; None leaves that to the service.
    """

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_millis: int | None = None
    branch: str | None = None
    schemas: SchemaIds | None = None
    max_staleness_ms: int | None = None


class VersionedRequest(Request):
    """A request about one version of a table: at most one of the first three; none of them is the latest."""

    snapshot_id: Count | None = None
    tag: Name | None = None
    timestamp_millis: Count | None = Field(
        default=None, description="Milliseconds since 1970-01-01 UTC.", examples=[1754006400000]
    )
    branch: Name | None = None
    max_staleness_ms: Count | None = Field(
        default=None,
        description="The answer may be about the snapshot that was the latest so many milliseconds ago; then "
        "storage is not asked for a newer one. 0 is the latest now. Absent: the service's default.",
    )

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        if sum(value is not None for value in (self.snapshot_id, self.tag, self.timestamp_millis)) > 1:
            raise ValueError("at most one of snapshot_id, tag and timestamp_millis names the version")
        return self

    @property
    def selector(self) -> SnapshotSelector:
        """The version that is asked for."""
        return SnapshotSelector(
            self.snapshot_id,
            self.tag,
            self.timestamp_millis,
            self.branch,
            max_staleness_ms=self.max_staleness_ms,
        )


class FilteredRequest(VersionedRequest):
    """A request about the rows that satisfy a filter; None is every row."""

    filter: Filter | None = None
    alias: Alias | None = None
    time_zone: TimeZone | None = None


class SortKey(Request):
    """One key of ORDER BY."""

    column: Name
    direction: Literal["asc", "desc"] = "asc"
    nulls: Literal["first", "last"] | None = Field(
        default=None, description="As in Spark SQL: first where ascending, last where descending."
    )

    @property
    def descending(self) -> bool:
        """Whether the greatest value is the first."""
        return self.direction == "desc"

    @property
    def nulls_first(self) -> bool:
        """Whether NULL is before all values."""
        return not self.descending if self.nulls is None else self.nulls == "first"


class TopN(Request):
    """ORDER BY ... LIMIT."""

    order_by: Annotated[Listed[SortKey], Field(min_length=1)]
    limit: Count


class PlanRequest(FilteredRequest):
    """Which files does a query read?"""

    example: ClassVar = {"filter": "dt = '2025-08-01' AND score BETWEEN 60 AND 80", "selection": "ranges"}

    in_lists: InLists | None = None
    selection: Selection = Field(
        default=SelectionForm.BITMAP, description="How the rows to read of a file are told."
    )
    explain: bool = Field(default=False, description="Tell which step decided on each file, and why.")
    files: FileNames | None = Field(default=None, description="Decide only these data files.")
    top_n: TopN | None = None
    limit: Count | None = Field(default=None, description="So many matching rows are enough, in any order.")
    uris: bool = Field(
        default=False, description="Paths are absolute URIs instead of relative to the warehouse."
    )
    budget_ms: Count | None = Field(
        default=None,
        description="How long the plan may read index files, and ask them more than 64 values of a list. "
        "Files whose indexes were not loaded or asked by then are kept, with decision_reason not_loaded or "
        "not_asked, and summary.complete is false; loading goes on, so that the same request may leave out "
        "more later. Absent: the service's default. Without effect together with explain or top_n, and for "
        "tables with data evolution.",
    )
    deletions: DeletedRows = Field(
        default=SelectionForm.NONE,
        description="How the deleted rows of each kept file are told, as deleted_rows and deleted_format. "
        "With none, only the places of deletion vectors are.",
    )
    schemas: bool = Field(
        default=False,
        description="Tell the schemas that the kept files were written with, and that of the version.",
    )
    totals: bool = Field(
        default=False,
        description="Read every manifest, so that bytes_total covers all partitions. "
        "Otherwise manifests whose partitions the filter rules out are not read.",
    )

    @property
    def reads_everything(self) -> bool:
        """Whether the answer is about every manifest, whatever the filter rules out."""
        return self.totals or self.explain or self.files is not None


class DeletionsRequest(VersionedRequest):
    """Which rows of which files are deleted?"""

    example: ClassVar = {"partition": {"dt": "2025-08-01"}, "encoding": "positions"}

    partition: Partition = None
    files: FileNames | None = Field(
        default=None, description="Data file names; absent: every file with a vector."
    )
    encoding: Encoding = SelectionForm.POSITIONS
    time_zone: TimeZone | None = None


class LookupRequest(VersionedRequest):
    """Which buckets do these keys live in?"""

    example: ClassVar = {"partition": {"dt": "2025-08-01"}, "keys": [{"id": 1}, {"id": 2}]}

    partition: Partition = None
    keys: Annotated[Listed[TypedValues], Field(fail_fast=True)] | None = Field(
        default=None,
        description="Objects over the primary key; partition columns may be left out.",
        examples=[[{"id": 1}, {"id": 2}]],
    )
    hashes: Annotated[Listed[Hash], Field(fail_fast=True)] | None = None
    time_zone: TimeZone | None = None

    @model_validator(mode="after")
    def _keys_or_hashes(self) -> Self:
        if (self.keys is None) == (self.hashes is None):
            raise ValueError("expected keys, or the hashes of keys, and not both")
        return self


class AssignRequest(LookupRequest):
    """Which buckets would a writer assign?"""

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
    """Which buckets of which version, of one partition or of all?"""

    partition: Partition = None
    time_zone: TimeZone | None = None


def _content(given: object, check: Callable[[object], str]) -> bytes:
    if isinstance(given, bytes):
        return given
    text = check(given)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not base64: {error}") from error


class IndexFileRef(Request):
    """An index file: a path inside of the warehouse, or its bytes."""

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
    """What is in this index file?"""

    example: ClassVar = {"path": "demo.db/events/bucket-0/data-1.parquet.index"}

    kind: Literal["file_index", "deletion_vectors", "hash", "btree", "bitmap"] | None = None
    offset: Count = Field(default=0, description="The first vector, hash or block to list.")
    limit: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="How many; as page_size elsewhere."
    )


class ColumnRef(Request):
    """A column of the data files that index files belong to."""

    name: Name
    type: str | dict[str, Any] = Field(examples=["DECIMAL(12, 2)"])


class EvaluateRequest(Request):
    """What do these index files say about a filter?"""

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
    alias: Alias | None = None
    top_n: TopN | None = None
    selection: Selection = SelectionForm.BITMAP
    explain: bool = False
    time_zone: TimeZone | None = None

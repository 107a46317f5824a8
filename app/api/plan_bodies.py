"""What callers send to be answered with a plan, or with what changed; see :mod:`app.api.bodies`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from app.api.bodies import (
    Alias,
    Body,
    Count,
    FileNames,
    Filter,
    InLists,
    Name,
    PagedBody,
    SelectionName,
    TimeZone,
    VersionedBody,
)
from app.planning.request.requests import PlanRequest, SelectionForm, SortKey, TopN

_LONGEST_WAIT: Final = 60.0


class SortKeyBody(Body):
    """One key of ORDER BY."""

    column: Name
    direction: Literal["asc", "desc"] = "asc"
    nulls: Literal["first", "last"] | None = Field(
        None, description="As in Spark SQL: first where ascending, last where descending."
    )

    def to_request(self) -> SortKey:
        """The planner's form."""
        descending = self.direction == "desc"
        return SortKey(
            self.column, descending, not descending if self.nulls is None else self.nulls == "first"
        )


class TopNBody(Body):
    """ORDER BY ... LIMIT."""

    order_by: Annotated[list[SortKeyBody], Field(min_length=1)]
    limit: Count

    def to_request(self) -> TopN:
        """The planner's form."""
        return TopN(tuple(key.to_request() for key in self.order_by), self.limit)


class PlanBody(PagedBody):
    """Which files does a query read?"""

    example: ClassVar = {"filter": "dt = '2025-08-01' AND score BETWEEN 60 AND 80", "selection": "ranges"}

    filter: Filter | None = None
    in_lists: InLists | None = None
    alias: Alias | None = None
    selection: SelectionName = "bitmap"
    explain: bool = False
    files: FileNames | None = Field(None, description="Decide only these data files.")
    top_n: TopNBody | None = None
    limit: Count | None = None
    time_zone: TimeZone | None = None
    uris: bool = Field(
        default=False, description="Paths are absolute URIs instead of relative to the warehouse."
    )
    budget_ms: Count | None = Field(
        None,
        description="How long the plan may read index files, and ask them more than 64 values of a list. "
        "Files whose indexes were not loaded or asked by then are kept, with decision_reason not_loaded or "
        "not_asked, and summary.complete is false; loading goes on, so that the same request may leave out "
        "more later. Absent: the service's default. Without effect together with explain or top_n, and for "
        "tables with data evolution.",
    )
    deletions: Literal["none", "bitmap", "ranges", "positions"] = Field(
        "none",
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

    def to_request(self) -> PlanRequest:
        """The planner's form."""
        return PlanRequest(
            selector=self.selector(),
            filter=self.filter,
            in_lists=self.in_lists,
            alias=self.alias,
            files=None if self.files is None else tuple(self.files),
            top_n=None if self.top_n is None else self.top_n.to_request(),
            limit=self.limit,
            selection=SelectionForm(self.selection),
            explain=self.explain,
            time_zone=self.time_zone,
            uris=self.uris,
            budget_ms=self.budget_ms,
            deletions=SelectionForm(self.deletions),
            schemas=self.schemas,
            totals=self.totals,
        )


class PrunedSnapshotBody(VersionedBody):
    """Which snapshot has only the files that a query reads?"""

    example: ClassVar = {"filter": "dt = '2025-08-01' AND score BETWEEN 60 AND 80"}

    filter: Filter | None = None
    in_lists: InLists | None = None
    alias: Alias | None = None
    time_zone: TimeZone | None = None
    budget_ms: Count | None = Field(None, description="As of a plan.")
    most_share: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0,
        description="Of the table's files. Where more are kept, no files are named, and `document` is null: "
        "the engine's own plan costs less.",
    )

    def to_request(self) -> PlanRequest:
        """The planner's form."""
        return PlanRequest(
            selector=self.selector(),
            filter=self.filter,
            in_lists=self.in_lists,
            alias=self.alias,
            selection=SelectionForm.NONE,
            time_zone=self.time_zone,
            budget_ms=self.budget_ms,
        )


class ChangesBody(VersionedBody):
    """Which files came and went since an answer, or between two versions?"""

    example: ClassVar = {"from_snapshot_id": 3, "snapshot_id": 5, "filter": "dt = '2025-08-01'"}

    from_token: Name | None = Field(
        None, description="`next_from_token` of an answer: the changes since the version of that answer."
    )
    from_snapshot_id: Count | None = Field(
        None,
        description="The changes since the snapshot that has this number now; with the later version named, "
        "too. Absent, as `from_token`: nothing has changed yet, and `next_from_token` goes on from there.",
    )
    filter: Filter | None = Field(None, description="Files are told that can have a row that satisfies it.")
    alias: Alias | None = None
    time_zone: TimeZone | None = None
    uris: bool = Field(default=False, description="As of a plan.")
    wait_seconds: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = Field(
        0.0, description="How long to wait until a file came or went that the filter allows."
    )

    @model_validator(mode="after")
    def _from_one_version(self) -> Self:
        if self.from_token is not None and self.from_snapshot_id is not None:
            raise ValueError("at most one of from_token and from_snapshot_id names the earlier version")
        is_named = (self.snapshot_id, self.tag, self.timestamp_millis) != (None, None, None)
        if self.from_snapshot_id is not None and not is_named:
            raise ValueError(
                "a number does not tell which snapshot was meant: after a rollback another one has it. To "
                "follow a table, send the next_from_token of the last answer as from_token (the first one "
                "has neither); to compare two versions, name the later one, too, such as by snapshot_id"
            )
        if self.from_token is None and self.from_snapshot_id is None and self.wait_seconds:
            raise ValueError("wait_seconds waits for changes since an answer: send its next_from_token, too")
        return self

    def to_request(self) -> PlanRequest:
        """The planner's form."""
        return PlanRequest(
            selector=self.selector(),
            filter=self.filter,
            alias=self.alias,
            selection=SelectionForm.COUNT,
            time_zone=self.time_zone,
            uris=self.uris,
        )

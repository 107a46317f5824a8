"""What callers send with a filter: to have plans, changes and aggregates, and indexes tried.

See :mod:`app.api.questions.bodies`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from app.advice.what_if import DEFAULT_BYTES, DEFAULT_FILES, MOST_FILES, WhatIfRequest
from app.aggregates.answers import Aggregate, AggregateRequest, Function
from app.api.questions.bodies import (
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
from app.errors import FilterError
from app.options.file_indexes import DeclaredIndex
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


_MOST_AGGREGATES = 20
_MOST_GROUPS = 100_000
_FUNCTIONS: Final = [str(function) for function in Function]


class AggregateFunctionBody(Body):
    """One function of one column."""

    function: Annotated[str, Field(json_schema_extra={"enum": _FUNCTIONS})]
    column: Name | None = Field(None, description="Absent: `count` is of rows.")


class AggregateBody(VersionedBody):
    """Which aggregates of which rows?"""

    example: ClassVar = {
        "filter": "amount > 100",
        "aggregates": [{"function": "count"}, {"function": "sum", "column": "amount"}],
    }

    filter: Filter | None = None
    alias: Alias | None = None
    aggregates: (
        Annotated[list[AggregateFunctionBody], Field(min_length=1, max_length=_MOST_AGGREGATES)] | None
    ) = Field(None, description="Absent: the number of rows.")
    group_by: list[Name] = Field(
        [], description="One partition column, or one with an index, whose values are counted."
    )
    top: Annotated[int, Field(ge=1, le=_MOST_GROUPS)] = Field(
        10_000, description="Most groups of the answer: those of the most rows."
    )
    time_zone: TimeZone | None = None

    def to_request(self) -> AggregateRequest:
        """The form without HTTP. Raises FilterError: a function is not computed here."""
        aggregates = (
            (Aggregate(Function.COUNT),)
            if self.aggregates is None
            else tuple(
                Aggregate(_function(aggregate.function), aggregate.column) for aggregate in self.aggregates
            )
        )
        return AggregateRequest(
            selector=self.selector(),
            filter=self.filter,
            alias=self.alias,
            aggregates=aggregates,
            group_by=tuple(self.group_by),
            top=self.top,
            time_zone=self.time_zone,
        )


def _function(name: str) -> Function:
    if name not in _FUNCTIONS:
        raise FilterError(
            f"{name!r} is not computed here, {', '.join(_FUNCTIONS)} are: ask the engine, or, of distinct "
            "values, group_by the column: groups_total counts them"
        )
    return Function(name)


_MOST_INDEXES = 20
_MOST_FILTERS = 64
_MOST_BYTES = 1 << 30


class IndexBody(Body):
    """An index to try."""

    column: Name
    index: Name = Field(examples=["range-bitmap"])
    options: dict[str, str] = Field({}, description="Of the index, by the last part of the option's name.")


class WhatIfBody(VersionedBody):
    """How many files would these indexes leave out?"""

    example: ClassVar = {
        "indexes": [{"column": "user_id", "index": "bloom-filter", "options": {"items": "10000"}}],
        "filters": ["user_id = 17", "dt = '2025-08-01' AND user_id IN (17, 23)"],
    }

    indexes: Annotated[list[IndexBody], Field(min_length=1, max_length=_MOST_INDEXES)]
    filters: Annotated[list[Filter], Field(min_length=1, max_length=_MOST_FILTERS)]
    files: Annotated[int, Field(ge=1, le=MOST_FILES)] = Field(
        DEFAULT_FILES, description="Data files that are tried for each filter."
    )
    bytes: Annotated[int, Field(ge=1, le=_MOST_BYTES)] = Field(
        DEFAULT_BYTES, description="Of data files that are read at most, but for the first."
    )
    seed: Count = Field(0, description="Chooses files; the same seed chooses the same.")
    time_zone: TimeZone | None = None

    def to_request(self) -> WhatIfRequest:
        """What is tried."""
        declared = [DeclaredIndex(index.column, index.index, index.options) for index in self.indexes]
        return WhatIfRequest(declared, self.filters, self.files, self.bytes, self.seed)

"""What callers send to have aggregates answered; see :mod:`app.api.bodies`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from app.aggregates.answers import Aggregate, AggregateRequest, Function
from app.api.bodies import Alias, Body, Filter, Name, TimeZone, VersionedBody

_MOST_AGGREGATES = 20
_MOST_GROUPS = 100_000


class AggregateFunctionBody(Body):
    """One function of one column."""

    function: Literal["count", "count_distinct", "min", "max", "sum"]
    column: Name | None = Field(None, description="Absent: `count` is of rows.")


class AggregateBody(VersionedBody):
    """Which aggregates of which rows?"""

    example: ClassVar = {
        "filter": "amount > 100",
        "aggregates": [{"function": "count"}, {"function": "sum", "column": "amount"}],
        "group_by": ["dt"],
    }

    filter: Filter | None = None
    alias: Alias | None = None
    aggregates: (
        Annotated[list[AggregateFunctionBody], Field(min_length=1, max_length=_MOST_AGGREGATES)] | None
    ) = Field(None, description="Absent: the number of rows.")
    group_by: list[Name] = Field([], description="Partition columns, and at most one column with an index.")
    top: Annotated[int, Field(ge=1, le=_MOST_GROUPS)] = Field(
        10_000, description="Most groups of the answer: those of the most rows."
    )
    time_zone: TimeZone | None = None

    def to_request(self) -> AggregateRequest:
        """The form without HTTP."""
        aggregates = (
            (Aggregate(Function.COUNT),)
            if self.aggregates is None
            else tuple(Aggregate(Function(each.function), each.column) for each in self.aggregates)
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

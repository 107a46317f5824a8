"""What callers send to have aggregates answered; see :mod:`app.api.bodies`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from app.aggregates.answers import Aggregate, AggregateRequest, Function
from app.api.bodies import Alias, Body, Filter, Name, TimeZone, VersionedBody
from app.errors import FilterError

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
        """The form without HTTP.

        Raises:
            FilterError: a function is not computed here.
        """
        aggregates = (
            (Aggregate(Function.COUNT),)
            if self.aggregates is None
            else tuple(Aggregate(_function(each.function), each.column) for each in self.aggregates)
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

"""Requests and answers of aggregations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, model_validator

from app.described import DESCRIBED
from app.errors import FilterError
from app.planning.request import FilteredRequest
from app.planning.request.members import Listed, Name, Request, as_read

_MOST_AGGREGATES: Final = 20
_MOST_GROUPS: Final = 100_000


class Function(StrEnum):
    """An aggregate function, by its SQL name."""

    COUNT = "count"
    """Number of rows, or of a column's values that are not NULL."""
    MIN = "min"
    MAX = "max"
    SUM = "sum"


_FUNCTIONS: Final = [str(function) for function in Function]


def _function(given: object, check: Callable[[object], str]) -> Function | str:
    name = check(given)
    return Function(name) if name in _FUNCTIONS else name


class AggregateFunction(Request):
    """One function of one column."""

    function: Annotated[Function, as_read(str, _function), Field(json_schema_extra={"enum": _FUNCTIONS})]
    column: Name | None = Field(default=None, description="Absent: `count` is of rows.")


class AggregateRequest(FilteredRequest):
    """Asks for aggregates of the rows that satisfy a filter."""

    example: ClassVar = {
        "filter": "amount > 100",
        "aggregates": [{"function": "count"}, {"function": "sum", "column": "amount"}],
    }

    aggregates: (
        Annotated[Listed[AggregateFunction], Field(min_length=1, max_length=_MOST_AGGREGATES)] | None
    ) = Field(default=None, description="Absent: the number of rows.")
    group_by: Listed[Name] = Field(
        default=[], description="One column whose values are counted: a partition column, or an indexed one."
    )
    top: Annotated[int, Field(ge=1, le=_MOST_GROUPS)] = Field(
        default=10_000, description="Most groups in the answer, those with the most rows first."
    )

    @model_validator(mode="after")
    def _are_computed(self) -> Self:
        # Checked last, since a FilterError ends the validation of a request.
        for each in self.aggregates or ():
            if each.function not in _FUNCTIONS:
                raise FilterError(
                    f"{str(each.function)!r} is not computed here, {', '.join(_FUNCTIONS)} are: ask the "
                    "engine, or, of distinct values, group_by the column: groups_total counts them"
                )
        return self


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """The value of an aggregate, or a range that holds it."""

    function: Annotated[Function, Field(examples=["count"])]
    column: str | None
    exact: bool
    value: Any
    """Value in the JSON form of its type; null if it is not exact, or if SQL's answer is NULL."""
    lower: Any
    """Lower bound of the value; null: unknown."""
    upper: Any
    """Upper bound of the value; null: unknown."""
    settled: Any
    """Value over all but the open files."""


@dataclass(frozen=True, slots=True)
class AggregateGroup:
    """One group of rows."""

    key: Mapping[str, Any]
    """Typed values by column of `group_by`."""
    rows: int
    """Rows that surely belong to the group."""
    values: Sequence[AggregateValue]


@dataclass(frozen=True, slots=True)
class AggregateAnswer:
    """The groups that indexes and statistics determine, and the files that leave them open."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    snapshot_age_ms: int
    """Time for which a newer snapshot may have gone unnoticed."""
    exact: bool
    """True if every value of every group is exact, and there is no other group."""
    groups: Sequence[AggregateGroup]
    groups_total: int
    """Number of groups without the limit `top`."""
    open_files: Sequence[str]
    """Names of data files that leave values open: read these, and add their values."""
    open_bytes: int
    open_rows: int
    """Rows of the open files that may count."""
    files_total: int
    warnings: Sequence[str]

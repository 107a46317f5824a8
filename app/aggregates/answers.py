"""What is asked of an aggregation and what is answered: plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from app.described import DESCRIBED
from app.planning.request.requests import SnapshotSelector
from app.types import Json


class Function(StrEnum):
    """What is computed; the names are those of SQL."""

    COUNT = "count"
    """Of rows, or with a column of its values that are not NULL."""
    MIN = "min"
    MAX = "max"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One function of one column; COUNT without a column counts rows."""

    function: Function
    column: str | None = None


@dataclass(frozen=True, slots=True)
class AggregateRequest:
    """What is asked.

    Attributes:
        filter: Spark SQL text or a Paimon predicate's JSON; None is every row.
        group_by: a partition column or one that has an index, whose values are counted.
        top: most groups that are answered, those of the most rows first; None for all.
    """

    selector: SnapshotSelector = field(default_factory=SnapshotSelector)
    filter: str | Mapping[str, Json] | None = None
    alias: str | None = None
    aggregates: Sequence[Aggregate] = (Aggregate(Function.COUNT),)
    group_by: Sequence[str] = ()
    top: int | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """What an aggregate is, or between what it lies."""

    function: Annotated[Function, Field(examples=["count"])]
    column: str | None
    exact: bool
    value: Any
    """In the JSON form of its type; null unless it is exact, and where SQL's answer is NULL."""
    lower: Any
    """The value is not below this; null: that is not known."""
    upper: Any
    """The value is not above this; null: that is not known."""
    settled: Any
    """What all but the open files give."""


@dataclass(frozen=True, slots=True)
class AggregateGroup:
    """One group of rows."""

    key: Mapping[str, Any]
    """Typed values by column of `group_by`."""
    rows: int
    """Rows that surely belong to it."""
    values: Sequence[AggregateValue]


@dataclass(frozen=True, slots=True)
class AggregateAnswer:
    """The groups that indexes and statistics tell, and the files that leave them open."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    snapshot_age_ms: int
    """For how long a newer snapshot may have gone unnoticed."""
    exact: bool
    """Every value of every group is exact, and there is no other group."""
    groups: Sequence[AggregateGroup]
    groups_total: int
    """Without `top`."""
    open_files: Sequence[str]
    """Names of the data files that leave values open: read these, and add what they give."""
    open_bytes: int
    open_rows: int
    """Rows of these files that may count."""
    files_total: int
    warnings: Sequence[str]

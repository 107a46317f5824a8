"""What is asked of an aggregation, with its columns found and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.aggregates.answers import Aggregate, AggregateRequest, Function
from app.aggregates.open_ranges import SUMMED
from app.errors import RequestError
from app.planning.version.version import Version
from app.predicates.binding.names import Names
from app.types import DataField, DataType, TypeRoot, parse_type
from app.types.values import is_comparable

_MORE_DIGITS: Final = 10
_MOST_DIGITS: Final = 38
"""A sum of DECIMAL(p, s) is DECIMAL(p + 10, s), and no longer than any."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its columns found.

    Attributes:
        aggregates: with the column of each; None for COUNT of rows.
        partitions: columns of ``group_by`` that are partition columns, and where their values stand.
        indexed: the one that is none, if there is one.
        places: positions of the columns of partitions in a partition's row, by id.
        doubts: why values of some of the columns are not known, whatever files tell of them.
    """

    aggregates: Sequence[tuple[Aggregate, DataField | None]]
    partitions: Sequence[DataField]
    indexed: DataField | None
    places: Mapping[int, int]
    doubts: Sequence[str]

    @classmethod
    def of(cls, version: Version, request: AggregateRequest) -> Asked:
        """Finds the columns of a request.

        Raises:
            FilterError: one is not there.
            RequestError: a function or a group is not defined for its column.
        """
        names = Names(version.schema.fields, version.relation(request.alias))
        places = {each.id: at for at, each in enumerate(version.schema.partition_fields)}
        groups = [names.sort_column(text) for text in request.group_by]
        others = [each for each in groups if each.id not in places]
        if len(others) > 1:
            raise RequestError(
                f"group_by takes partition columns and at most one other column, found {others[0].name!r} "
                f"and {others[1].name!r}"
            )
        found = [
            (each, None if each.column is None else names.sort_column(each.column))
            for each in request.aggregates
        ]
        for each, column in found:
            _check(each, column)
        for column in others:
            _check(Aggregate(Function.COUNT_DISTINCT, column.name), column)
        partitions = [each for each in groups if each.id in places]
        columns = dict.fromkeys([*groups, *(column for _, column in found if column is not None)])
        doubts = [
            f"every file leaves aggregates and groups of {each.name} open: {why}"
            for each in columns
            if (why := names.doubt_of(each)) is not None
        ]
        return cls(found, partitions, others[0] if others else None, places, doubts)

    @property
    def grouped(self) -> Sequence[DataField]:
        """The columns of groups, that of the index last."""
        return (*self.partitions, *([] if self.indexed is None else [self.indexed]))

    @property
    def needs_values(self) -> bool:
        """Whether more is asked than the number of rows of partitions."""
        return self.indexed is not None or self.needs_rows

    @property
    def needs_rows(self) -> bool:
        """Whether it matters which rows a group has, beside their number."""
        return any(column is not None for _, column in self.aggregates)

    @property
    def needs_partitions(self) -> bool:
        """Whether it matters in which partition a row is."""
        return bool(self.partitions) or any(
            column is not None and column.id in self.places for _, column in self.aggregates
        )

    @property
    def columns(self) -> dict[int, DataField]:
        """Columns whose values matter, by id, but for those of partitions."""
        wanted = [*(column for _, column in self.aggregates), self.indexed]
        return {each.id: each for each in wanted if each is not None and each.id not in self.places}


def _check(asked: Aggregate, column: DataField | None) -> None:
    if column is None:
        if asked.function is not Function.COUNT:
            raise RequestError(f"{asked.function} takes a column; only count does without")
        return
    if not is_comparable(column.type):
        raise RequestError(
            f"{asked.function} of {column.name!r}: values of type {column.type} are not compared"
        )
    if asked.function is Function.SUM and column.type.root not in SUMMED:
        raise RequestError(
            f"sum of {column.name!r}: only integers and DECIMAL have an exact sum, the type is {column.type}"
        )


def type_of(asked: Aggregate, column: DataField | None) -> DataType:
    """The type of an aggregate's value."""
    if column is None or asked.function in (Function.COUNT, Function.COUNT_DISTINCT):
        return _COUNT_TYPE
    if asked.function is Function.SUM:
        if column.type.root is not TypeRoot.DECIMAL:
            return _COUNT_TYPE
        digits = min(_MOST_DIGITS, column.type.precision + _MORE_DIGITS)
        return parse_type(f"DECIMAL({digits}, {column.type.scale})")
    return column.type


_COUNT_TYPE: Final = parse_type("BIGINT")

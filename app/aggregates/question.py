"""Resolves and checks the columns of an aggregate request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.aggregates.answers import AggregateFunction, AggregateRequest, Function
from app.errors import FilterError, RequestError
from app.planning import Version
from app.predicates import Names
from app.types import INTEGER_BITS, DataField, DataType, TypeRoot, parse_type
from app.types.values import is_comparable

_SUMMED: Final = frozenset({*INTEGER_BITS, TypeRoot.DECIMAL})
_MORE_DIGITS: Final = 10
# A sum of DECIMAL(p, s) is DECIMAL(min(p + 10, 38), s), as in SQL.
_MOST_DIGITS: Final = 38


_ROWS: Final = AggregateFunction(function=Function.COUNT)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request with its columns resolved."""

    # Each aggregate with its column; None for COUNT of rows.
    aggregates: Sequence[tuple[AggregateFunction, DataField | None]]
    group: DataField | None
    places: Mapping[int, int]  # Positions of partition columns in a partition's row, by column id.
    doubts: Mapping[int, str]  # By column id: reason why its values are unknown in every file.

    @classmethod
    def of(cls, version: Version, request: AggregateRequest) -> ResolvedRequest:
        """Resolve the columns of a request.

        Raises FilterError if a column is missing, or groups have several columns or anything but COUNT of
        rows. Raises RequestError if a function or a group is not defined for its column.
        """
        names = Names(version.schema.fields, version.relation)
        aggregates = [
            (aggregate, None if aggregate.column is None else names.sort_column(aggregate.column))
            for aggregate in request.aggregates or [_ROWS]
        ]
        groups = [names.sort_column(text) for text in request.group_by]
        columns = dict.fromkeys([*groups, *(column for _, column in aggregates if column is not None)])
        for compared in columns:
            if not is_comparable(compared.type):
                raise RequestError(f"values of {compared.name!r}, of type {compared.type}, are not compared")
        for aggregate, column in aggregates:
            _check(aggregate, column)
        if len(groups) > 1 or (groups and any(column is not None for _, column in aggregates)):
            raise FilterError(
                "group_by counts the rows of each value of one column, and takes no other column or "
                "function: ask for one group by a filter, or the engine for all of them"
            )
        doubts = {
            field.id: f"every file leaves aggregates and groups of {field.name} open: {why}"
            for field in columns
            if (why := names.doubt_of(field)) is not None
        }
        places = {field.id: at for at, field in enumerate(version.schema.partition_fields)}
        return cls(aggregates, groups[0] if groups else None, places, doubts)

    @property
    def needs_values(self) -> bool:
        """True if row counts of partitions do not answer the request."""
        return any(column is not None for _, column in self.aggregates) or (
            self.group is not None and self.group.id not in self.places
        )


def _check(aggregate: AggregateFunction, column: DataField | None) -> None:
    if column is None:
        if aggregate.function is not Function.COUNT:
            raise RequestError(f"{aggregate.function} takes a column; only count does without")
    elif aggregate.function is Function.SUM and column.type.root not in _SUMMED:
        raise RequestError(
            f"sum of {column.name!r}: only integers and DECIMAL have an exact sum, the type is {column.type}"
        )


def type_of(aggregate: AggregateFunction, column: DataField | None) -> DataType:
    """Return the type of an aggregate's value."""
    if column is None or aggregate.function is Function.COUNT:
        return _COUNT_TYPE
    if aggregate.function is Function.SUM:
        if column.type.root is not TypeRoot.DECIMAL:
            return _COUNT_TYPE
        digits = min(_MOST_DIGITS, column.type.precision + _MORE_DIGITS)
        return parse_type(f"DECIMAL({digits}, {column.type.scale})")
    return column.type


_COUNT_TYPE: Final = parse_type("BIGINT")

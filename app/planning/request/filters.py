"""Filters and partitions as callers write them, bound to the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from app.errors import FilterError
from app.planning.request.limits import Limits
from app.predicates import Relation, bind, read_json_filter, read_lists, read_text
from app.predicates.model import ALWAYS_TRUE, BoundPredicate, Operator, Unknown, leaves
from app.predicates.unbound import And, FilterLimits, Leaf, LiteralList, Not, Or, Predicate
from app.table import TableSchema
from app.types import DataField, Json, Value, parse_json
from app.types.values import same_in_sql

_MOST_NOT_READ: Final = 20


def read_filter(
    written: str | Mapping[str, Json] | Predicate | None,
    fields: Sequence[DataField],
    limits: Limits,
    relation: Relation,
    in_lists: Mapping[str, Json] | None = None,
    doubts: list[str] | None = None,
) -> BoundPredicate:
    """Read and bind a filter and lists of values. Without either, the predicate is TRUE.

    ``doubts`` receives warnings of conditions that no row meets.

    Raises FilterError if they cannot be read or do not fit the columns. Raises LimitExceededError if they are
    too large.
    """
    bounds = FilterLimits(limits.filter_depth, limits.filter_literals)
    parts: list[Predicate] = []
    if isinstance(written, str):
        parts.append(read_text(written, bounds))
    elif isinstance(written, Mapping):
        parts.append(read_json_filter(written, bounds))
    elif written is not None:
        parts.append(written)
    if in_lists:
        parts.append(read_lists(in_lists, bounds))
    if not parts:
        return ALWAYS_TRUE
    if doubts is not None:
        doubts += _shorten([warning for part in parts for warning in _comparisons_with_null(part)])
    return bind(parts[0] if len(parts) == 1 else And(tuple(parts)), fields, relation)


def _comparisons_with_null(predicate: Predicate, *, negated: bool = False) -> Iterator[str]:
    """Yield a warning of each condition that is NULL for every row."""
    match predicate:
        case And(children) | Or(children):
            for child in children:
                yield from _comparisons_with_null(child, negated=negated)
        case Not(child):
            yield from _comparisons_with_null(child, negated=not negated)
        # A literal list has no NULL, and makes its literals on demand.
        case Leaf(operator, column, literals, text) if not isinstance(literals, LiteralList):
            nulls = 0 if predicate.null_safe else sum(literal.value is None for literal in literals)
            if nulls and operator is (Operator.IN if negated else Operator.NOT_IN):
                shown = f"NOT ({text})" if negated else text
                yield f"no row meets {shown}: every comparison with NULL is NULL; remove NULL from the list"
            elif nulls and nulls == len(literals):
                yield f"no row meets {text}: every comparison with NULL is NULL; write {column} IS NULL"


def filter_warnings(*predicates: BoundPredicate) -> tuple[str, ...]:
    """Warn of conditions that could not be used as they were written."""
    unknown = [leaf for each in predicates for leaf in leaves(each) if isinstance(leaf, Unknown)]
    return tuple(_shorten([_undecided(leaf) for leaf in unknown if leaf.reason is not None]))


def _undecided(leaf: Unknown) -> str:
    place = "" if leaf.position is None else f" (at position {leaf.position})"
    return f"no file is pruned by {leaf.text}{place}: {leaf.reason}"


def _shorten(warnings: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(warnings))
    left_out = len(distinct) - _MOST_NOT_READ
    if left_out <= 0:
        return distinct
    return [*distinct[:_MOST_NOT_READ], f"no file is pruned by {left_out} further conditions either"]


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A value for each partition column."""

    fields: tuple[DataField, ...]
    values: tuple[Value | None, ...]

    @classmethod
    def read(cls, schema: TableSchema, written: Mapping[str, Json] | None) -> Self:
        """Read a partition that a caller named.

        Raises FilterError if columns are missing or unknown, or a value does not fit.
        """
        fields = schema.partition_fields
        given = dict(written or {})
        if set(given) != {field.name for field in fields}:
            if not fields:
                raise FilterError(f"this table has no partitions: leave {', '.join(given)} away")
            example = ", ".join(f'"{field.name}": …' for field in fields)
            raise FilterError(
                f"a partition of this table is {{{example}}}, with a value for each column; "
                f"found {', '.join(given) or 'none'}"
            )
        return cls(tuple(fields), tuple(_read(given[field.name], field) for field in fields))

    def could_be(self, row: tuple[Value | None, ...]) -> bool:
        """Return True if a table's partition holds these values, in SQL's sense. NULL equals NULL."""
        return all(
            mine is named if mine is None or named is None else same_in_sql(field.type, mine, named)
            for mine, named, field in zip(row, self.values, self.fields, strict=True)
        )


def _read(written: Json, field: DataField) -> Value | None:
    try:
        return parse_json(written, field.type)
    except FilterError as error:
        raise FilterError(str(error), column=field.name) from error

"""Filters as callers give them, bound to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.predicates.binding import bind
from app.predicates.json_reader import read_json
from app.predicates.limits import FilterLimits
from app.predicates.model import ALWAYS_TRUE
from app.predicates.sql_reader import read_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.planning.limits import Limits
    from app.predicates.model import BoundPredicate
    from app.predicates.names import Relation
    from app.types import DataField, Json


def read_filter(
    written: str | Mapping[str, Json] | None,
    fields: Sequence[DataField],
    limits: Limits,
    relation: Relation,
) -> BoundPredicate:
    """The predicate that a filter stands for; no filter is TRUE.

    Args:
        written: Spark SQL text, or a Paimon predicate's JSON.
        fields: the columns that it may name.
        limits: how large it may be.
        relation: what may stand before the names of columns.

    Raises:
        FilterError: it cannot be read, or does not fit the columns.
        LimitExceededError: it is too large.
    """
    if written is None:
        return ALWAYS_TRUE
    bounds = FilterLimits(limits.filter_depth, limits.filter_literals)
    read = read_sql(written, bounds) if isinstance(written, str) else read_json(written, bounds)
    return bind(read, fields, relation)

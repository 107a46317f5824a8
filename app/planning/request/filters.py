"""Filters as callers give them, bound to columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from app.planning.request.limits import Limits
from app.predicates.binding.binding import bind
from app.predicates.binding.names import Relation
from app.predicates.json_reader import read_json_filter, read_lists
from app.predicates.limits import FilterLimits
from app.predicates.model import ALWAYS_TRUE, BoundPredicate, Unknown, leaves
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import And, Predicate
from app.types import DataField, Json
from app.types.session_zone import SessionZone

WITHOUT_TIME_ZONE: Final = (
    "a date or timestamp of the request depends on the session's time zone, which is not known: all is "
    "kept that would match in some zone; give time_zone to narrow the answer"
)
"""The warning of an answer whose filter needs a time zone that nobody gave."""
_MOST_NOT_READ: Final = 20


def read_filter(
    written: str | Mapping[str, Json] | None,
    fields: Sequence[DataField],
    limits: Limits,
    relation: Relation,
    zone: SessionZone | None,
    in_lists: Mapping[str, Json] | None = None,
) -> BoundPredicate:
    """The predicate that a filter and lists of values stand for; none is TRUE.

    Args:
        written: Spark SQL text, or a Paimon predicate's JSON.
        fields: the columns that it may name.
        limits: how large it may be.
        relation: what may stand before the names of columns.
        zone: the time zone of the caller's session; None if it is not known.
        in_lists: lists of literals by column; a row has to have one of each list, too.

    Raises:
        FilterError: it cannot be read, or does not fit the columns.
        LimitExceededError: it is too large.
    """
    bounds = FilterLimits(limits.filter_depth, limits.filter_literals)
    parts: list[Predicate] = []
    if isinstance(written, str):
        parts.append(read_sql(written, bounds, zone))
    elif written is not None:
        parts.append(read_json_filter(written, bounds))
    if in_lists:
        parts.append(read_lists(in_lists, bounds))
    if not parts:
        return ALWAYS_TRUE
    return bind(parts[0] if len(parts) == 1 else And(tuple(parts)), fields, relation, zone)


def filter_warnings(predicate: BoundPredicate) -> tuple[str, ...]:
    """What would narrow the answer: a time zone, text in place of numbers, a condition that is understood."""
    unknown = [leaf for leaf in leaves(predicate) if isinstance(leaf, Unknown)]
    found = [WITHOUT_TIME_ZONE] if any(leaf.lacks_time_zone for leaf in unknown) else []
    found += [
        f"{leaf.text} compares text with a number: Spark casts every value of the column, so that nothing "
        f"can be left out for it; write the number as text, in quotes, if the column holds it so"
        for leaf in unknown
        if leaf.casts
    ]
    not_read = [
        f"nothing is left out for the condition at position {leaf.position}, which indexes cannot decide or "
        f"which is misspelled: {leaf.text}"
        for leaf in unknown
        if leaf.position is not None
    ]
    found += not_read[:_MOST_NOT_READ]
    if len(not_read) > _MOST_NOT_READ:
        found.append(f"nothing is left out for {len(not_read) - _MOST_NOT_READ} further conditions, likewise")
    return tuple(dict.fromkeys(found))

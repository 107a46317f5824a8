"""Filters in the two forms that callers send, bound to columns."""

from collections.abc import Sequence

from app.predicates import bind, read_json_filter, read_text
from app.predicates.model import BoundPredicate
from app.types import DataField


def bind_text(text: str, fields: Sequence[DataField]) -> BoundPredicate:
    """Return the meaning of a filter's text."""
    return bind(read_text(text), fields)


def bind_json(written: object, fields: Sequence[DataField]) -> BoundPredicate:
    """Return the meaning of a Paimon predicate's JSON."""
    return bind(read_json_filter(written), fields)

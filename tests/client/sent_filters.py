"""What a filter that was sent means to the service, for one value of its column."""

from typing import Any

from app.predicates.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import BoundAnd, BoundOr, BoundPredicate, Unknown
from app.types import DataField, Value
from tests.brute_force import matching_rows


def may_hold(sent: Any, field: DataField, value: Value | None) -> bool:
    """Whether a row with this value may be in the answer; what the service does not know may be true."""
    return _may_hold(bind(read_json_filter(sent), [field]), field, value)


def _may_hold(predicate: BoundPredicate, field: DataField, value: Value | None) -> bool:
    match predicate:
        case Unknown():
            return True
        case BoundAnd(children):
            return all(_may_hold(child, field, value) for child in children)
        case BoundOr(children):
            return any(_may_hold(child, field, value) for child in children)
        case _:
            return bool(matching_rows(predicate, {field.name: [value]}, 1))

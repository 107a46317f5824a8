"""Filters as a session of some time zone means them."""

from collections.abc import Sequence

from app.predicates.binding.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import BoundPredicate
from app.predicates.sql.reader import read_sql
from app.types import DataField
from app.types.session_zone import SessionZone, session_zone

UTC = session_zone("UTC")


def bind_sql(text: str, fields: Sequence[DataField], zone: SessionZone | None = UTC) -> BoundPredicate:
    """The meaning of a condition of Spark SQL."""
    return bind(read_sql(text, zone=zone), fields, zone=zone)


def bind_json(written: object, fields: Sequence[DataField], zone: SessionZone | None = UTC) -> BoundPredicate:
    """The meaning of a Paimon predicate's JSON."""
    return bind(read_json_filter(written), fields, zone=zone)

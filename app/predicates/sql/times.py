"""Literals of dates and timestamps in Spark SQL, and casts between them, in the session's time zone.

``TIMESTAMP`` is a timestamp with local time zone here, as Spark has it unless ``spark.sql.timestampType``
says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.predicates.spark_text import cast_date, cast_timestamp
from app.predicates.unbound import Literal, LiteralKind
from app.types.civil_time import NANOS_PER_DAY
from app.types.session_zone import Instants, instants_of_clock, instants_of_day, instants_of_text

if TYPE_CHECKING:
    from app.types.session_zone import SessionZone

TIME_TYPES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
"""Names of the types that this module knows."""


def time_literal(type_name: str, text: str, position: int, zone: SessionZone | None) -> Literal | None:
    """The literal ``DATE '2025-08-01'`` or its kin; None where it is not understood here.

    Args:
        type_name: one of :data:`TIME_TYPES`.
        text: the text behind it.
        position: where the literal starts in the filter.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        ValueError: the text is no value of the type.
    """
    if type_name == "DATE":
        return Literal(LiteralKind.DATE, cast_date(text), position)
    read = cast_timestamp(text)
    if read is None:
        return None
    if type_name != "TIMESTAMP_NTZ":
        return Literal(LiteralKind.TIMESTAMP_LTZ, instants_of_text(read, zone), position)
    # Whether a wall clock minds the zone of a text is a matter of Spark's version.
    return None if read.zone is not None else Literal(LiteralKind.TIMESTAMP_NTZ, read.clock, position)


def cast_to_time(literal: Literal, type_name: str, position: int, zone: SessionZone | None) -> Literal | None:
    """``CAST(literal AS type)``, see :func:`time_literal`; None where it is not understood here.

    Raises:
        ValueError: the literal's text is no value of the type.
    """
    match literal.kind, literal.value:
        case LiteralKind.STRING, str(text):
            return time_literal(type_name, text, position, zone)
        case LiteralKind.DATE, int(day):
            return _of_day(day, type_name, position, zone)
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return _of_clock(clock, type_name, position, zone)
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            if type_name not in ("DATE", "TIMESTAMP_NTZ"):
                return Literal(LiteralKind.TIMESTAMP_LTZ, instants, position)
            # Without a zone no clock is known, and the range of what it could be is no literal.
            return None if zone is None else _of_clock(zone.to_clock(instants.low), type_name, position, zone)
        case _:
            return None


def _of_day(day: int, type_name: str, position: int, zone: SessionZone | None) -> Literal:
    match type_name:
        case "DATE":
            return Literal(LiteralKind.DATE, day, position)
        case "TIMESTAMP_NTZ":
            return Literal(LiteralKind.TIMESTAMP_NTZ, day * NANOS_PER_DAY, position)
        case _:
            return Literal(LiteralKind.TIMESTAMP_LTZ, instants_of_day(day, zone), position)


def _of_clock(clock: int, type_name: str, position: int, zone: SessionZone | None) -> Literal:
    match type_name:
        case "DATE":
            return Literal(LiteralKind.DATE, clock // NANOS_PER_DAY, position)
        case "TIMESTAMP_NTZ":
            return Literal(LiteralKind.TIMESTAMP_NTZ, clock, position)
        case _:
            return Literal(LiteralKind.TIMESTAMP_LTZ, instants_of_clock(clock, zone), position)

"""Fits a literal to a column of dates or timestamps, in the time zone of the caller's session.

================  ============================================================================================
column            literals of SQL that have a place
================  ============================================================================================
DATE              dates, text; wall clocks, which lie between two days unless at midnight; instants
TIMESTAMP         wall clocks, dates (their midnight), text; instants
TIMESTAMP_LTZ     instants; wall clocks, dates (their first instant) and text in the session's zone
================  ============================================================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from app.predicates.instants import place_among_clocks, place_among_days, place_among_instants
from app.predicates.places import Doubt, Exact, Gap, Nowhere, Place, Regions, Stretch
from app.predicates.spark_text import cast_date, cast_timestamp
from app.predicates.unbound import Literal, LiteralKind
from app.types import TypeRoot
from app.types.civil_time import NANOS_PER_DAY
from app.types.data_types import TIMESTAMP_ROOTS
from app.types.session_zone import Instants, instants_of_clock, instants_of_day, instants_of_text

if TYPE_CHECKING:
    from app.types.session_zone import SessionZone

TIME_ROOTS: Final = frozenset({TypeRoot.DATE, *TIMESTAMP_ROOTS})
"""Types whose comparisons the session's time zone may decide."""


def place_in_times(literal: Literal, root: TypeRoot, zone: SessionZone | None) -> Place:
    """The place of a literal of SQL in a column of dates or timestamps.

    Raises:
        ValueError: the literal's text is no value of the type.
    """
    match root:
        case TypeRoot.DATE:
            return _place_in_dates(literal, zone)
        case TypeRoot.TIMESTAMP:
            return _place_in_clocks(literal, zone)
        case _:
            instants = _instants(literal, zone)
            return Nowhere.UNDECIDED if instants is None else place_among_instants(instants)


def as_instants(literal: Literal, zone: SessionZone | None) -> Literal:
    """The literal as Spark casts it to TIMESTAMP_LTZ; itself where it has no such value.

    Raises:
        ValueError: its text is no timestamp.
    """
    instants = _instants(literal, zone)
    return literal if instants is None else replace(literal, kind=LiteralKind.TIMESTAMP_LTZ, value=instants)


def shown_twice(literal: Literal, zone: SessionZone | None) -> Place | None:
    """The place of a text among instants if clocks show it twice; None if they do not.

    In a list, some of Spark's modes compare the text of each instant, which is then that of both.
    """
    read = cast_timestamp(str(literal.value)) if literal.kind is LiteralKind.STRING else None
    if zone is None or read is None or read.zone is not None:
        return None
    shown = zone.to_instants(read.clock)
    if len(shown) <= 1:
        return None
    equal = tuple(Stretch(instant, instant + 1) for instant in shown)
    return Regions((Stretch(None, shown[-1]),), equal, (Stretch(shown[0] + 1, None),), Doubt.MEANING)


def _place_in_dates(literal: Literal, zone: SessionZone | None) -> Place:
    match literal.kind, literal.value:
        case LiteralKind.DATE, int(days):
            return Exact(days)
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            days, rest = divmod(clock, NANOS_PER_DAY)
            return Exact(days) if rest == 0 else Gap(days, days + 1)
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            return place_among_days(instants, zone)
        case LiteralKind.STRING, str(text):
            return Exact(cast_date(text))
        case _:
            return Nowhere.UNDECIDED


def _place_in_clocks(literal: Literal, zone: SessionZone | None) -> Place:
    match literal.kind, literal.value:
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return Exact(clock)
        case LiteralKind.DATE, int(days):
            return Exact(days * NANOS_PER_DAY)
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            return place_among_clocks(instants, zone)
        case LiteralKind.STRING, str(text):
            read = cast_timestamp(text)
            # Whether a wall clock minds the zone of a text is a matter of Spark's version.
            return Nowhere.UNDECIDED if read is None or read.zone is not None else Exact(read.clock)
        case _:
            return Nowhere.UNDECIDED


def _instants(literal: Literal, zone: SessionZone | None) -> Instants | None:
    """The literal as an instant; None where it has none that is understood here."""
    match literal.kind, literal.value:
        case LiteralKind.TIMESTAMP_LTZ, Instants() as instants:
            return instants
        case LiteralKind.TIMESTAMP_NTZ, int(clock):
            return instants_of_clock(clock, zone)
        case LiteralKind.DATE, int(days):
            return instants_of_day(days, zone)
        case LiteralKind.STRING, str(text):
            read = cast_timestamp(text)
            return None if read is None else instants_of_text(read, zone)
        case _:
            return None

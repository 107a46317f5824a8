"""Conditions with clocks, asked by readers who go by other rules of their zone than the service."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

from app.types import TypeRoot, Value
from app.types.data_types import TIMESTAMP_ROOTS
from app.types.session_zone import session_zone
from tests.proof.columns import Column
from tests.proof.conditions import OfOneColumn, quoted
from tests.session_meaning import COMPARISONS, DAY, Written, naive, to_instant, truth
from tests.time_zone_files import zone_of_rules

READERS: Final = (
    # What the reader says; his rules, None for those of the service. Unknown releases may have any near them.
    ("America/New_York@2031b", "PST8PDT,M3.2.0,M11.1.0"),
    ("America/New_York@2031b", None),
    ("Asia/Tehran@2015a", "<+0530>-5:30"),
    ("Europe/London@2015a", "CET-1CEST,M3.5.0,M10.5.0/3"),
    ("Australia/Lord_Howe", None),
    ("Asia/Kolkata", None),
    ("-03:30", "<-0330>3:30"),
)
_SPARK_DIGITS: Final = 6
_SAFE_DAYS: Final = 100_000
"""From 1970 on or back: ``datetime`` ends beyond the years 1 and 9999."""


@dataclass(frozen=True, eq=False)
class ClockTest(OfOneColumn):
    """A comparison of a column with a clock of the reader's session, as SQL alone can have it.

    Attributes:
        symbol: of the comparison.
        literal: what it is compared with.
        rules: those of the reader.
    """

    symbol: str
    literal: Written
    rules: ZoneInfo
    has_sql: bool = True
    pads: bool = False
    json: None = None

    @property
    def sql(self) -> str:
        return f"{quoted(self.column.field.name)} {self.symbol} {self.literal.sql}"

    def _truth(self, value: Value | None) -> bool | None:
        if value is None:
            return None
        return truth(self.column.field.type.root, int(value), self.symbol, self.literal, self.rules)


def random_clock_test(rng: Random, columns: Sequence[Column]) -> tuple[str, ClockTest] | None:
    """The time zone that a reader names, and a comparison in it; None where no column has clocks."""
    fitting = [(at, column) for at, column in enumerate(columns) if _has_clocks(column)]
    if not fitting:
        return None
    at, column = rng.choice(fitting)
    name, written = rng.choice(READERS)
    rules, root = _rules(name, written), column.field.type.root
    clock = naive(int(rng.choice(column.read[1:]) or 0) * (DAY if root is TypeRoot.DATE else 1))
    if root is TypeRoot.TIMESTAMP_LTZ:
        clock = clock.replace(tzinfo=dt.UTC).astimezone(rules).replace(tzinfo=None)
    clock = clock.replace(microsecond=0) + dt.timedelta(seconds=rng.choice([0, 0, 1, 3_600, -1_800]))
    symbol = rng.choice(sorted(COMPARISONS))
    return name, ClockTest(at, column, symbol, _literal(rng, clock, rules), rules)


def _has_clocks(column: Column) -> bool:
    data_type = column.field.type
    if data_type.root is TypeRoot.DATE:
        days = [abs(int(value)) for value in column.read[1:] if value is not None]
    elif data_type.root in TIMESTAMP_ROOTS and data_type.precision <= _SPARK_DIGITS:
        days = [abs(int(value)) // DAY for value in column.read[1:] if value is not None]
    else:
        return False
    return bool(days) and max(days) < _SAFE_DAYS


def _literal(rng: Random, clock: dt.datetime, rules: ZoneInfo) -> Written:
    match rng.choice(["DATE", "TIMESTAMP_NTZ", "TIMESTAMP", "TIMESTAMP_LTZ", "INSTANT"]):
        case "INSTANT":
            instant = naive(to_instant(clock, rules))
            return Written(TypeRoot.TIMESTAMP_LTZ, f"TIMESTAMP '{instant}Z'", clock)
        case "DATE":
            midnight = dt.datetime.combine(clock.date(), dt.time())
            return Written(TypeRoot.DATE, f"DATE '{clock.date()}'", midnight)
        case "TIMESTAMP_NTZ":
            return Written(TypeRoot.TIMESTAMP, f"TIMESTAMP_NTZ '{clock}'", clock)
        case prefix:
            return Written(TypeRoot.TIMESTAMP_LTZ, f"{prefix} '{clock}'", clock)


@cache
def _rules(name: str, written: str | None) -> ZoneInfo:
    if written is not None:
        return zone_of_rules(written)
    region = session_zone(name).region
    assert region is not None
    return region

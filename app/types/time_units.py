"""Units of time, and the cycle of the calendar: after 400 years it repeats, days of the week included."""

from __future__ import annotations

from typing import Final

NANOS_PER_MICRO: Final = 1_000
NANOS_PER_MILLI: Final = 1_000_000
NANOS_PER_SECOND: Final = 1_000_000_000
SECONDS_PER_DAY: Final = 86_400
MILLIS_PER_DAY: Final = SECONDS_PER_DAY * 1_000
NANOS_PER_DAY: Final = SECONDS_PER_DAY * NANOS_PER_SECOND

CYCLE_YEARS: Final = 400
CYCLE_DAYS: Final = 146_097
CYCLE_SECONDS: Final = CYCLE_DAYS * SECONDS_PER_DAY

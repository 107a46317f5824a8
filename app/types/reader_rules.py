"""Times at which a reader's rules for a region's clocks may differ from those known here.

Governments abolish summer time, sometimes within weeks, and releases of the IANA database also revise the
past. Java has a database of its own, of any release. So an offset is certain where the releases from
:data:`FIRST_RELEASE` to :data:`LAST_RELEASE` agree, and elsewhere known only within some hours:

=============================  =========================  =============================================
release that the reader names  in doubt                   within
=============================  =========================  =============================================
any, or none                   before 1970                all offsets that there are
another one than ours of       years that were revised    three hours of the offsets around that time
these releases, or none
none                           from the last release on   one hour of the offsets around that time
one that is none of these      always                     three hours of the offsets around that time
=============================  =========================  =============================================

Databases of one release may differ before 1970: a distributor may merge zones that have been alike since
then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import tzdata

from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_SECOND, epoch_days
from app.types.zone_revisions import FIRST_RELEASE, LAST_RELEASE, LAST_RELEASED, REVISIONS

# Release of the rules known here.
OWN_RELEASE: Final = tzdata.IANA_VERSION

_SECONDS_PER_DAY: Final = NANOS_PER_DAY // NANOS_PER_SECOND
# Offsets matter beyond their moment: for whole days, and for clocks that are shown twice.
_AROUND_SECONDS: Final = 3 * _SECONDS_PER_DAY
_HOUR: Final = 3600
_REVISED_SECONDS: Final = 3 * _HOUR
_NEW_SECONDS: Final = _HOUR
_FIRST_AGREED_YEAR: Final = 1970
# Regions whose offset has never changed.
_WITHOUT_RULES: Final = re.compile(r"Etc/.*|UTC|UCT|GMT(?:[+-]?0)?|Greenwich|Universal|Zulu")


class DoubtfulTime(NamedTuple):
    """Period in which a reader may have other offsets."""

    # First second; None without one.
    first: int | None
    # Second after the last; None without one.
    end: int | None
    # Seconds that an offset may be beyond those around that time; None for any offset.
    margin: int | None

    def covers(self, second: int) -> bool:
        """Return True if a second is in the period."""
        return (self.first is None or self.first <= second) and (self.end is None or second < self.end)


@lru_cache(maxsize=1024)
def doubts_of(region: str, release: str | None) -> tuple[DoubtfulTime, ...]:
    """List the doubtful periods of a region.

    ``release`` is that of the reader's rules, such as ``2025a``; None if unknown.
    """
    return () if _WITHOUT_RULES.fullmatch(region) else tuple(_doubts(region, release))


def _doubts(region: str, release: str | None) -> Iterator[DoubtfulTime]:
    # Databases of one release may differ before 1970: a distributor may merge zones that have been alike
    # since.
    yield DoubtfulTime(None, _start(_FIRST_AGREED_YEAR) + _AROUND_SECONDS, None)
    if release == OWN_RELEASE:
        return
    covers_own = FIRST_RELEASE <= OWN_RELEASE <= LAST_RELEASE
    if not covers_own or (release is not None and not FIRST_RELEASE <= release <= LAST_RELEASE):
        yield DoubtfulTime(None, None, _REVISED_SECONDS)
        return
    for first, last in REVISIONS.get(region, ()):
        end = None if last is None else _start(last + 1) + _AROUND_SECONDS
        yield DoubtfulTime(_start(first) - _AROUND_SECONDS, end, _REVISED_SECONDS)
    if release is None:
        yield DoubtfulTime(_start(*LAST_RELEASED) - _AROUND_SECONDS, None, _NEW_SECONDS)


def _start(year: int, month: int = 1) -> int:
    return epoch_days(year, month, 1) * _SECONDS_PER_DAY

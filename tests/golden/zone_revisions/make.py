"""Makes ``app/types/zone_revisions.py`` of releases of the IANA database: ``make.py DIRECTORY MONTH``.

In the directory there are the unpacked wheels of ``tzdata``, all that there are from 2020.1 on, each in a
directory of its own: ``pip download --no-deps tzdata==2025.1`` and ``python -m zipfile -e``.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

MODULE = Path(__file__).parents[3] / "app" / "types" / "zone_revisions.py"
YEARS = range(1970, 2040)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
STEP_HOURS = 6
START = '''"""Years in which releases of the IANA database give a zone different offsets, since 1970.

Made by ``tests/golden/zone_revisions/make.py``; make it again when ``tzdata`` gets a new release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIRST_RELEASE: Final = "{first}"
LAST_RELEASE: Final = "{last}"
LAST_RELEASED: Final = {released}
"""Year and month in which that was."""

REVISIONS: Final[Mapping[str, tuple[tuple[int, int | None], ...]]] = {{
'''


def main(directory: Path, released: str) -> None:
    """Writes the module; ``released`` is the month of the newest release, such as 2026-07."""
    releases = sorted(directory.iterdir(), key=release)
    first, last = release(releases[0]), release(releases[-1])
    year, month = map(int, released.split("-"))
    lines = [START.format(first=first, last=last, released=(year, month))]
    for name in sorted((releases[-1] / "tzdata" / "zones").read_text().split()):
        found = list(stretches(revised(name, releases)))
        if found:
            pairs = ", ".join(f"({low}, {high})" for low, high in found)
            lines.append(f'    "{name}": ({pairs}{"," if len(found) == 1 else ""}),\n')
    MODULE.write_text("".join([*lines, "}\n"]))


def release(wheel: Path) -> str:
    """As IANA names it, such as 2025a."""
    found = re.search(
        r'^IANA_VERSION = "(.+)"$', (wheel / "tzdata" / "__init__.py").read_text(), re.MULTILINE
    )
    assert found is not None, wheel
    return found[1]


def revised(name: str, releases: Iterable[Path]) -> list[int]:
    """Years in which not all releases that have a zone have the same offsets."""
    files = [wheel / "tzdata" / "zoneinfo" / name for wheel in releases]
    contents = {file.read_bytes(): file for file in files if file.is_file()}
    zones = [ZoneInfo.from_file(file.open("rb"), name) for file in contents.values()]
    if len(zones) == 1:
        return []
    return [year for year in YEARS if any(differ(at, zones) for at in moments(year))]


def moments(year: int) -> Iterator[dt.datetime]:
    """Every few hours of a year; no change of rules is shorter."""
    at = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    while at.year == year:
        yield at
        at += dt.timedelta(hours=STEP_HOURS)


def differ(at: dt.datetime, zones: Iterable[ZoneInfo]) -> bool:
    return len({at.astimezone(zone).utcoffset() for zone in zones}) > 1


def stretches(years: list[int]) -> Iterator[tuple[int, int | None]]:
    """Years that follow each other, first and last; None for one without an end."""
    for _, group in itertools.groupby(enumerate(years), lambda each: each[1] - each[0]):
        run = [year for _, year in group]
        yield run[0], None if run[-1] == YEARS[-1] else run[-1]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

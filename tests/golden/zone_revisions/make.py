"""Makes ``app/types/zone_revisions.py`` of releases of the IANA database: ``make.py DIRECTORY MONTH``.

In the directory there are the unpacked wheels of ``tzdata``, all that there are from 2020.1 on, each in a
directory of its own: ``pip download --no-deps tzdata==2025.1`` and ``python -m zipfile -e``.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

MODULE = Path(__file__).parents[3] / "app" / "types" / "zone_revisions.py"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY = 86_400
FIRST, END = (int((dt.datetime(year, 1, 1, tzinfo=dt.UTC) - EPOCH).total_seconds()) for year in (1970, 2040))
START = '''"""Years since 1970 in which releases of the IANA database disagree about a zone's offsets.

``tests/golden/zone_revisions/make.py`` generates it; run it again when ``tzdata`` has a new release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIRST_RELEASE: Final = "{first}"
LAST_RELEASE: Final = "{last}"
# Year and month of the last release.
LAST_RELEASED: Final = {released}

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
    """Years in which not all releases that have a zone have the same offsets, at some second."""
    files = [wheel / "tzdata" / "zoneinfo" / name for wheel in releases]
    contents = {file.read_bytes(): file for file in files if file.is_file()}
    if len(contents) == 1:
        return []
    zones = [ZoneInfo.from_file(file.open("rb"), name) for file in contents.values()]
    changes = {second for data, zone in zip(contents, zones, strict=True) for second in changes_of(data, zone)}
    # Between two changes that follow each other nobody has another offset.
    starts = [FIRST, *sorted(second for second in changes if FIRST < second < END), END]
    return sorted(
        {
            year
            for start, end in itertools.pairwise(starts)
            if len({offset(start, zone) for zone in zones}) > 1
            for year in range(moment(start).year, moment(end - 1).year + 1)
        }
    )


def changes_of(data: bytes, zone: ZoneInfo) -> Iterator[int]:
    """The seconds at which the offset may change: those that the file lists, then by its rule day by day."""
    counts = struct.unpack_from(">6l", data, 20)
    is_utc, is_std, leaps, times, types, letters = counts
    second = 44 + times * 5 + types * 6 + letters + leaps * 8 + is_std + is_utc
    (times,) = struct.unpack_from(">l", data, second + 32)
    listed = struct.unpack_from(f">{times}q", data, second + 44)
    yield from listed
    for low in range(max((FIRST, *listed)), END, DAY):
        high = low + DAY
        if offset(low, zone) != offset(high, zone):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle, zone) == offset(low, zone) else (low, middle)
            yield high


def moment(second: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=second)


def offset(second: int, zone: ZoneInfo) -> dt.timedelta | None:
    return moment(second).astimezone(zone).utcoffset()


def stretches(years: list[int]) -> Iterator[tuple[int, int | None]]:
    """Years that follow each other, first and last; None for one without an end."""
    for _, group in itertools.groupby(enumerate(years), lambda each: each[1] - each[0]):
        run = [year for _, year in group]
        yield run[0], None if run[-1] == moment(END - 1).year else run[-1]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

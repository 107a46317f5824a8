"""Services over synthetic tables, and what they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from app.planning.limits import CacheBytes, Limits
from app.planning.requests import PlanRequest, SelectionForm, TableRef
from app.planning.service import IndexService
from app.storage import Warehouse
from benchmarks.events import (
    CAT,
    DATABASE,
    DAY,
    FILES_PER_DAY,
    FIRST_DAY,
    FIRST_PRIVATE_CATEGORY,
    ID,
    IDS,
    NUMBER_SPAN,
    NUMBERS,
    SCORE,
    SCORES,
    TABLE,
    Indexed,
    Layout,
)
from benchmarks.synthetic import write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from app.planning.answers import Plan

WAREHOUSE: Final = "main"
EVENTS: Final = TableRef(WAREHOUSE, DATABASE, TABLE)

NO_INDEX: Final = Layout(Indexed.NOTHING)
KEYS: Final = Layout(Indexed.KEYS)
KEYS_BESIDE: Final = Layout(Indexed.KEYS, is_embedded=False)
VALUES: Final = Layout(Indexed.VALUES, bodies=1_000)
VALUES_BESIDE: Final = Layout(Indexed.VALUES, is_embedded=False, bodies=1_000)
LAYOUTS: Final = (NO_INDEX, KEYS, KEYS_BESIDE, VALUES, VALUES_BESIDE)

_ROOM: Final = CacheBytes(
    manifests=8 << 30, index_headers=8 << 30, bloom_filters=8 << 30, bitmaps=8 << 30, plans=0
)
"""For everything that is decoded; no plan is remembered, so that each is made."""

_SCORE_SPAN: Final = SCORES // 2_000
"""Of the 20 scores in a file, one file in a hundred has one in a range that wide."""

_LITTLE_LESS_THAN_HALF: Final = NUMBERS * 49 // 100, NUMBERS // 2


@dataclass(frozen=True, slots=True)
class Question:
    """A filter with new literals every time.

    Attributes:
        name: tells its form.
        filter: makes it; None is no filter.
        selection: what is asked about rows of the files that are kept.
        is_asked_cold: of services that have decoded nothing, too.
    """

    name: str
    filter: Callable[[Random], str | None]
    selection: SelectionForm = SelectionForm.NONE
    is_asked_cold: bool = False

    def ask(self, service: IndexService, random: Random) -> Plan:
        """The service's plan for it."""
        return service.plan(EVENTS, PlanRequest(filter=self.filter(random), selection=self.selection))


def questions(layout: Layout, files: int) -> tuple[Question, ...]:
    """What is asked of a table."""
    match layout.indexed:
        case Indexed.NOTHING:
            return (
                Question(
                    "half of the days, 10 columns",
                    lambda random: _half(random, layout, files),
                    is_asked_cold=True,
                ),
                Question("one day, one column", lambda random: one_day(random, files), is_asked_cold=True),
                Question("every file kept", lambda _: None),
            )
        case Indexed.KEYS:
            return (Question("id =", _id, is_asked_cold=True),)
        case Indexed.VALUES:
            return (
                Question("cat =", lambda random: _category(random, layout), is_asked_cold=True),
                Question("score BETWEEN", _scores),
                Question("cat = with rows", lambda random: _category(random, layout), SelectionForm.BITMAP),
                Question("score BETWEEN with rows", _scores, SelectionForm.BITMAP),
            )


def warehouse_of(directory: Path, layout: Layout, files: int) -> Path:
    """Where :func:`prepare` puts the table of one layout and size."""
    where = "embedded" if layout.is_embedded else "beside"
    shape = f"{layout.indexed.name.lower()}-{where}-{layout.numbers}-{layout.distinct}-{layout.bodies}"
    return directory / f"{shape}-{files}"


def prepare(layout: Layout, files: int, directory: Path) -> None:
    """Writes the table, unless it is there."""
    warehouse = warehouse_of(directory, layout, files)
    if not warehouse.exists():
        write_table(warehouse, layout, files)


def open_service(warehouse: Path, cache_bytes: CacheBytes = _ROOM) -> IndexService:
    """A service over one warehouse that has nothing in its caches."""
    return IndexService(
        {WAREHOUSE: Warehouse(WAREHOUSE, str(warehouse))}, cache_bytes=cache_bytes, limits=Limits()
    )


def one_day(random: Random, files: int) -> str:
    """A filter that keeps 10 files of a table of whole days: a tenth of one day's."""
    day = FIRST_DAY + timedelta(days=random.randrange(max(1, files // FILES_PER_DAY)))
    # Files of a day have a range of c0 each.
    below = (FILES_PER_DAY // 10 - 1) * NUMBER_SPAN + random.randrange(1, NUMBER_SPAN)
    return f"{DAY.name} = DATE '{day}' AND c0 < {below}"


def _half(random: Random, layout: Layout, files: int) -> str:
    """Half of the days, and half of the files of them by each column; so one file in a thousand is kept."""
    days = files // FILES_PER_DAY
    first = FIRST_DAY + timedelta(days=random.randrange(max(1, days // 2)))
    last = first + timedelta(days=days // 2)
    columns = [f"c{number} < {random.randrange(*_LITTLE_LESS_THAN_HALF)}" for number in range(layout.numbers)]
    return " AND ".join([f"{DAY.name} BETWEEN DATE '{first}' AND DATE '{last}'", *columns[:10]])


def _id(random: Random) -> str:
    """An id that no file has."""
    return f"{ID.name} = {random.randrange(IDS)}"


def _category(random: Random, layout: Layout) -> str:
    """A category of all files with one index."""
    return f"{CAT.name} = {FIRST_PRIVATE_CATEGORY + random.randrange(layout.bodies)}"


def _scores(random: Random) -> str:
    low = random.randrange(SCORES - _SCORE_SPAN)
    return f"{SCORE.name} BETWEEN {low} AND {low + _SCORE_SPAN}"

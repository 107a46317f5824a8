"""What tables are asked: filters of one form, with new literals every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from random import Random
from typing import Final

from app.planning.request.requests import SelectionForm
from benchmarks.events import (
    CAT,
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
    Indexed,
    Layout,
)

THOUSAND_IDS: Final = "id IN (1,000)"
TEN_THOUSAND_IDS: Final = "id IN (10,000)"
SCORES_WITH_ROWS: Final = "score BETWEEN with rows"
COMMON_WITH_ROWS: Final = "cat = of every file with rows"

_MOST_WITH_ROWS: Final = 20_000
"""Files of the largest table of which all rows are asked for."""

_SCORE_SPAN: Final = SCORES // 2_000
"""Of the 20 scores in a file, one file in a hundred has one in a range that wide."""

_LITTLE_LESS_THAN_HALF: Final = NUMBERS * 49 // 100, NUMBERS // 2
_NUMBERS_TESTED: Final = 10
_FILES_OF_ONE_DAY: Final = FILES_PER_DAY // 10


class Operator(StrEnum):
    """How a value is compared."""

    EQUAL = "="
    LESS_THAN = "<"
    BETWEEN = "BETWEEN"
    IN = "IN"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One column compared with literals: two for BETWEEN, any number for IN, or else one."""

    column: str
    operator: Operator
    literals: tuple[int | date, ...]

    def __str__(self) -> str:
        written = [f"DATE '{each}'" if isinstance(each, date) else str(each) for each in self.literals]
        if self.operator is Operator.IN:
            return f"{self.column} IN ({', '.join(written)})"
        return f"{self.column} {self.operator} {' AND '.join(written)}"


@dataclass(frozen=True, slots=True)
class Question:
    """A filter with new literals every time.

    Attributes:
        name: tells its form.
        comparisons: makes the comparisons that all have to hold; none of them is no filter.
        selection: what is asked about rows of the files that are kept.
        is_compared: asked of services that have decoded nothing, and of peers, too.
    """

    name: str
    comparisons: Callable[[Random], tuple[Comparison, ...]]
    selection: SelectionForm = SelectionForm.NONE
    is_compared: bool = False


def questions(layout: Layout, files: int) -> tuple[Question, ...]:
    """Return what is asked of a table."""
    match layout.indexed:
        case Indexed.NOTHING:
            return (
                Question(
                    "half of the days, 10 columns",
                    lambda random: _half_of_the_days(random, files),
                    is_compared=True,
                ),
                Question("one day, one column", lambda random: one_day(random, files), is_compared=True),
                Question("every file kept", lambda _: ()),
            )
        case Indexed.KEYS:
            return (
                Question("id =", _id, is_compared=True),
                Question(THOUSAND_IDS, lambda random: _ids(random, 1_000)),
                Question(TEN_THOUSAND_IDS, lambda random: _ids(random, 10_000)),
            )
        case Indexed.VALUES:
            return (
                Question("cat =", lambda random: _category(random, layout), is_compared=True),
                Question("score BETWEEN", _scores),
                Question("cat = with rows", lambda random: _category(random, layout), SelectionForm.BITMAP),
                Question(SCORES_WITH_ROWS, _scores, SelectionForm.BITMAP),
                *(
                    [Question(COMMON_WITH_ROWS, lambda random: _common(random, layout), SelectionForm.BITMAP)]
                    if files <= _MOST_WITH_ROWS
                    else []
                ),
            )


def sql(comparisons: tuple[Comparison, ...]) -> str | None:
    """Return the filter as the service reads it."""
    return " AND ".join(map(str, comparisons)) or None


def one_day(random: Random, files: int) -> tuple[Comparison, ...]:
    """Keep 10 files of a table of whole days: a tenth of one day's."""
    day = FIRST_DAY + timedelta(days=random.randrange(max(1, files // FILES_PER_DAY)))
    # Each file of a day has a range of c0 for itself, and a literal inside of one keeps that file.
    below = (_FILES_OF_ONE_DAY - 1) * NUMBER_SPAN + random.randrange(1, NUMBER_SPAN)
    return Comparison(DAY.name, Operator.EQUAL, (day,)), Comparison("c0", Operator.LESS_THAN, (below,))


def _half_of_the_days(random: Random, files: int) -> tuple[Comparison, ...]:
    """Half of the files of these days by each column, so that about one in two thousand is kept."""
    days = files // FILES_PER_DAY
    first = FIRST_DAY + timedelta(days=random.randrange(max(1, days // 2)))
    halves = (
        Comparison(f"c{number}", Operator.LESS_THAN, (random.randrange(*_LITTLE_LESS_THAN_HALF),))
        for number in range(_NUMBERS_TESTED)
    )
    return Comparison(DAY.name, Operator.BETWEEN, (first, first + timedelta(days=days // 2))), *halves


def _id(random: Random) -> tuple[Comparison, ...]:
    """Return an id that no file has."""
    return (Comparison(ID.name, Operator.EQUAL, (random.randrange(IDS),)),)


def _category(random: Random, layout: Layout) -> tuple[Comparison, ...]:
    """Return a category of all files with one index."""
    return (
        Comparison(CAT.name, Operator.EQUAL, (FIRST_PRIVATE_CATEGORY + random.randrange(layout.bodies),)),
    )


def _ids(random: Random, count: int) -> tuple[Comparison, ...]:
    """Ids that no file has, such as the keys of a join's small side."""
    return (Comparison(ID.name, Operator.IN, tuple(random.randrange(IDS) for _ in range(count))),)


def _common(random: Random, layout: Layout) -> tuple[Comparison, ...]:
    """Return a category of all files."""
    return (Comparison(CAT.name, Operator.EQUAL, (random.randrange(layout.distinct - 1),)),)


def _scores(random: Random) -> tuple[Comparison, ...]:
    low = random.randrange(SCORES - _SCORE_SPAN)
    return (Comparison(SCORE.name, Operator.BETWEEN, (low, low + _SCORE_SPAN)),)

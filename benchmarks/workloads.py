"""What is measured: each workload is a name, a size and a function.

Plans ask for new literals every time, and the services here remember no plans, so that every plan is made.
The operating system's file cache is warm: a cold load decodes everything, but waits for no disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.file_index.result import SKIP
from app.planning.limits import CacheBytes, Limits
from app.planning.requests import PlanRequest, TableRef
from app.planning.service import IndexService
from app.predicates.model import BoundLeaf, Operator
from app.storage import Warehouse
from benchmarks.columns import (
    AMOUNT,
    CAT,
    CATEGORIES,
    DISTINCT_INDEXES,
    ID,
    IDS,
    INDEXES,
    ROWS,
    SCORE,
    SCORES,
    file_index,
)
from benchmarks.synthetic import DATABASE, FILES_PER_DAY, FIRST_DAY, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from app.types import DataField

_NAME: Final = "main"
_EVENTS: Final = TableRef(_NAME, DATABASE, TABLE)
_SPAN: Final = SCORES // 20_000
"""Width of ranges of scores: one file of twenty has a row inside."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to measure.

    Attributes:
        name: what is done.
        files: how many data files it is done for.
        run: does it once; returns how many files are kept.
        runs: how often it is measured.
    """

    name: str
    files: int
    run: Callable[[], int]
    runs: int


def plan_workloads(warehouse: Path, files: int) -> Iterator[Workload]:
    """Cold and warm plans of the table that :func:`benchmarks.synthetic.write_table` wrote there."""
    random = Random(files)
    yield Workload("cold load and plan, id =", files, lambda: _plan_cold(warehouse, _point(random)), runs=3)
    service = _open(warehouse)
    filters: dict[str, Callable[[], str | None]] = {
        "no filter": lambda: None,
        "statistics, day BETWEEN": lambda: _days(random, files),
        "bloom filter, id =": lambda: _point(random),
        "bitmap, cat =": lambda: f"cat = {random.randrange(CATEGORIES)}",
        "range bitmap, score BETWEEN": lambda: _scores(random),
    }
    for name, written in filters.items():
        yield Workload(f"warm plan, {name}", files, partial(_plan_next, service, written), runs=7)
    service.close()


def index_workloads(files: int) -> Iterator[Workload]:
    """Evaluations of one test with one index per file, without a table."""
    random = Random(files)
    tests: tuple[tuple[str, DataField, Callable[[], BoundLeaf]], ...] = (
        ("=", ID, lambda: BoundLeaf(Operator.EQUAL, ID, (random.randrange(IDS),))),
        ("=", CAT, lambda: BoundLeaf(Operator.EQUAL, CAT, (random.randrange(CATEGORIES),))),
        ("=", SCORE, lambda: BoundLeaf(Operator.EQUAL, SCORE, (random.randrange(SCORES),))),
        ("BETWEEN", SCORE, lambda: _between(SCORE, random)),
        ("BETWEEN", AMOUNT, lambda: _between(AMOUNT, random)),
    )
    for symbol, column, leaf in tests:
        contents = [file_index((column,), random) for _ in range(DISTINCT_INDEXES)]
        # A file's bytes are its own, as they are after manifests were decoded.
        stored = [bytes(bytearray(contents[number % DISTINCT_INDEXES])) for number in range(files)]
        decoded = [FileIndex.read(content) for content in stored]
        name = f"{INDEXES[column]} {symbol}"
        yield Workload(f"evaluate {name}, decoded", files, partial(_evaluate_next, decoded, leaf), runs=5)
        yield Workload(f"evaluate {name}, from bytes", files, partial(_read_next, stored, leaf), runs=5)


def _open(warehouse: Path) -> IndexService:
    return IndexService(
        {_NAME: Warehouse(_NAME, str(warehouse))}, cache_bytes=CacheBytes(plans=0), limits=Limits()
    )


def _plan_cold(warehouse: Path, written: str) -> int:
    service = _open(warehouse)
    kept = _plan(service, written)
    service.close()
    return kept


def _plan_next(service: IndexService, written: Callable[[], str | None]) -> int:
    return _plan(service, written())


def _plan(service: IndexService, written: str | None) -> int:
    return service.plan(_EVENTS, PlanRequest(filter=written)).summary.files_kept


def _point(random: Random) -> str:
    return f"id = {random.randrange(IDS)}"


def _scores(random: Random) -> str:
    low = random.randrange(SCORES - _SPAN)
    return f"score BETWEEN {low} AND {low + _SPAN}"


def _days(random: Random, files: int) -> str:
    """One day of the table's."""
    day = FIRST_DAY + timedelta(days=random.randrange(files // FILES_PER_DAY))
    return f"day BETWEEN DATE '{day}' AND DATE '{day}'"


def _between(column: DataField, random: Random) -> BoundLeaf:
    low = random.randrange(SCORES - _SPAN)
    return BoundLeaf(Operator.BETWEEN, column, (low, low + _SPAN))


def _evaluate_next(indexes: Sequence[FileIndex], leaf: Callable[[], BoundLeaf]) -> int:
    return _evaluate(indexes, leaf())


def _read_next(stored: Sequence[bytes], leaf: Callable[[], BoundLeaf]) -> int:
    return _evaluate(map(FileIndex.read, stored), leaf())


def _evaluate(indexes: Iterable[FileIndex], leaf: BoundLeaf) -> int:
    return sum(evaluate(leaf, index, row_count=ROWS) is not SKIP for index in indexes)

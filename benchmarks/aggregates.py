"""Aggregates of a table whose files have bitmaps: rows that a filter leaves, and facets of a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateRequest
from app.planning.request.limits import Limits
from app.planning.request.requests import SnapshotSelector
from app.planning.service import IndexService
from benchmarks.events import CAT, SCORE, SCORES, Indexed, Layout
from benchmarks.questions import Comparison, Operator, sql
from benchmarks.services import EVENTS, open_service, prepare, warehouse_of
from benchmarks.workload import Suite, Target, Workload

_LAYOUT: Final = Layout(Indexed.VALUES, numbers=1, bodies=181)
"""``cat`` has 200 values in all."""
_SPAN: Final = SCORES // 2_000
_COUNT: Final = Target(50)
_FACETS: Final = Target(200)
_RUNS: Final = 10


def suites(files: int) -> Iterator[Suite]:
    """Of a table of so many files."""
    yield Suite(f"aggregates, {files} files", partial(_workloads, files), partial(prepare, _LAYOUT, files))


def _workloads(files: int, directory: Path) -> Iterator[Workload]:
    random = Random(files)
    with closing(open_service(warehouse_of(directory, _LAYOUT, files))) as service:
        run = partial(_count, service, random)
        yield Workload("COUNT with a filter on a range bitmap", files, run, target=_COUNT, runs=_RUNS)
        run = partial(_groups, service, AggregateRequest(group_by=[CAT.name]))
        yield Workload("first facets of 200 values", files, run, is_cold=True, runs=1)
        yield Workload("facets of 200 values", files, run, target=_FACETS, runs=_RUNS)


def _count(service: IndexService, random: Random) -> int:
    """Count the rows with a score in a range that one file in a hundred has."""
    low = random.randrange(SCORES - _SPAN)
    wanted = Comparison(SCORE.name, Operator.BETWEEN, (low, low + _SPAN))
    return _groups(service, AggregateRequest(filter=sql((wanted,))))


def _groups(service: IndexService, request: AggregateRequest) -> int:
    version = service.resolve(EVENTS, SnapshotSelector())
    return len(aggregate(version, request, Limits()).groups)

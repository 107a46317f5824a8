"""Iceberg's plans asked all at once of a process that has answered nothing yet, on one core."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.bounds.asking import ICEBERG, OK, answers
from benchmarks.bounds.memory import counted, port_of
from benchmarks.soak.serving import server

_CALLERS: Final = (12, 36)
_ENVIRONMENT: Final = {"PAIMON_INDEX_ICEBERG": "true", "PAIMON_INDEX_DEADLINE_SECONDS": "60"}


def rows(warehouse: Path) -> Iterator[tuple[str, bool]]:
    """Yield a row for each number of callers; sound if all are answered."""
    names = [f"w{number}" for number in range(ICEBERG.warehouses)]
    for callers in _CALLERS:
        # One core makes sure that the event loop stalls for a second.
        with _one_core(), server([f"{name}={warehouse}" for name in names], _ENVIRONMENT) as (_, url):
            statuses = Counter(answer.status for answer in answers(port_of(url), names, ICEBERG, callers))
        yield f"{ICEBERG.name}, {callers} at once, nothing before: {counted(statuses)}", set(statuses) == {OK}


@contextmanager
def _one_core() -> Iterator[None]:
    """Leave this process, and those it starts, one core for the time of the block."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)

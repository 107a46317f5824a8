"""Merges the metrics of all workers in the one that is scraped.

::

    DIRECTORY/                        of the run, see :mod:`app.server.processes`
      NUMBER.json                     latest counters of the process with this number

The scraped process asks the others. A worker writes its counters down before it answers, and a new worker
continues from those of its predecessor of the same number, so that counters never decrease, even if a worker
is killed.

Counters and histograms of all processes add up, ended ones included. Gauges of living processes add up,
except those that all processes share.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import Final

import orjson
from prometheus_client.core import Metric

from app.server import Processes
from app.telemetry.metrics import PREFIX

_GROWING: Final = frozenset({"counter", "histogram"})
# Gauges that are not added up, with the function that joins them.
_SHARED_GAUGES: Final[Mapping[str, Callable[[float, float], float]]] = {
    PREFIX + "watched_tables": max,
    PREFIX + "watched_tables_failing": max,
    PREFIX + "warehouse_listable": min,
    PREFIX + "disk_cache_bytes": max,
    PREFIX + "disk_cache_capacity_bytes": max,
    PREFIX + "disk_cache_entries": max,
    "process_start_time_seconds": max,
    PREFIX + "build": max,
}


def dump(families: Iterable[Metric]) -> bytes:
    """Encode families as a line of JSON, for :func:`load`."""
    return orjson.dumps(
        [
            (
                family.name,
                family.documentation,
                family.type,
                [(sample.name, sample.labels, sample.value) for sample in family.samples],
            )
            for family in families
        ]
    )


def load(content: bytes) -> list[Metric]:
    """Decode families from :func:`dump`."""
    families = []
    for name, documentation, kind, samples in orjson.loads(content):
        family = Metric(name, documentation, kind)
        for sample, labels, value in samples:
            family.add_sample(sample, labels, value)
        families.append(family)
    return families


def merge(living: Sequence[Iterable[Metric]], ended: Sequence[Iterable[Metric]] = ()) -> list[Metric]:
    """Merge families by name. Ended processes contribute only counters and histograms."""
    merged: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for families, is_alive in chain(product(living, (True,)), product(ended, (False,))):
        for family in families:
            if family.name not in merged:
                merged[family.name] = Metric(family.name, family.documentation, family.type)
                values[family.name] = {}
            if not is_alive and family.type not in _GROWING:
                continue
            join: Callable[[float, float], float] = _SHARED_GAUGES.get(family.name, operator.add)
            numbers = values[family.name]
            for measured in family.samples:
                key = (measured.name, tuple(measured.labels.items()))
                numbers[key] = join(numbers[key], measured.value) if key in numbers else measured.value
    for name, numbers in values.items():
        for (sample, labels), value in numbers.items():
            merged[name].add_sample(sample, dict(labels), value)
    return list(merged.values())


_QUESTION: Final = b"count"


class Workers:
    """The processes of one run and their counters. ``count`` returns those of this process."""

    def __init__(self, processes: Processes, directory: Path, count: Callable[[], list[Metric]]) -> None:
        self._processes = processes
        self._directory = directory
        self._count = count
        self._publishing = threading.Lock()
        self._written = directory / f"{processes.name}.json"
        self._before = load(self._written.read_bytes()) if self._written.exists() else []
        processes.answer(_QUESTION, self._publish)

    def stop(self) -> None:
        """Write the counters down for the successor."""
        with suppress(OSError):
            self._publish()

    def gather(self) -> list[Metric]:
        """Return the counters of all workers. Blocks for two seconds at most."""
        try:
            living = [load(self._publish())]
        except FileNotFoundError:
            # The parent process is gone, and removed the directory.
            return self._count()
        ended: list[list[Metric]] = []
        answers = dict(self._processes.ask(_QUESTION))
        for place in self._directory.glob("*.json"):
            if place != self._written:
                families = load(answers.get(place.stem) or place.read_bytes())
                (living if place.stem in answers else ended).append(families)
        return merge(living, ended)

    def _publish(self) -> bytes:
        with self._publishing:
            content = dump(merge([self._count()], [self._before]))
            unseen = self._written.with_suffix(".tmp")
            unseen.write_bytes(content)
            unseen.replace(self._written)
            return content

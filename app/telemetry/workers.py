"""Metrics of all workers, merged by the one that is scraped.

::

    DIRECTORY/                        of the run, see :mod:`app.server.processes`
      gathering                       held by the process that asks the others
      PROCESS.json                    what it has answered last, or counted when it ended
      ended.json                      of processes that are gone, added up, and which these are

Whoever is asked for the metrics asks the others. A worker writes down what it answers before it answers, so
what was told once is told again after the worker was killed: counters never go backwards.

The numbers of several processes become those of one service. Counters and histograms add up, those of
processes that have ended included, so that they never go backwards. Gauges say what is, so only those of
living processes count: mostly they add up as well; what all processes share, or say alike, is told once.
"""

from __future__ import annotations

import fcntl
import operator
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson
from prometheus_client.core import Metric

from app.server.processes import Answer, Processes
from app.telemetry.metrics import PREFIX

_GROWING: Final = frozenset({"counter", "histogram"})
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
"""Gauges that are not added up, and what is told instead."""


def dump(families: Iterable[Metric], **members: object) -> bytes:
    """Families as JSON, for :func:`load`; ``members`` stand beside them."""
    written = [
        (
            family.name,
            family.documentation,
            family.type,
            [(each.name, each.labels, each.value) for each in family.samples],
        )
        for family in families
    ]
    return orjson.dumps({"families": written, **members})


def load(content: bytes) -> tuple[list[Metric], Mapping[str, Any]]:
    """What :func:`dump` wrote. Raises ValueError: something else did."""
    members = orjson.loads(content)
    families = []
    for name, documentation, kind, samples in members.pop("families"):
        family = Metric(name, documentation, kind)
        for sample, labels, value in samples:
            family.add_sample(sample, labels, value)
        families.append(family)
    return families, members


def merge(living: Sequence[Iterable[Metric]], ended: Sequence[Iterable[Metric]] = ()) -> list[Metric]:
    """The families of several processes as one of each name; of those that ended only what grows is taken."""
    merged: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for families, is_alive in (*((each, True) for each in living), *((each, False) for each in ended)):
        for family in families:
            if family.name not in merged:
                merged[family.name] = Metric(family.name, family.documentation, family.type)
                values[family.name] = {}
            if not is_alive and family.type not in _GROWING:
                continue
            join: Callable[[float, float], float] = _SHARED_GAUGES.get(family.name, operator.add)
            numbers = values[family.name]
            for each in family.samples:
                key = (each.name, tuple(each.labels.items()))
                numbers[key] = join(numbers[key], each.value) if key in numbers else each.value
    for name, numbers in values.items():
        for (sample, labels), value in numbers.items():
            merged[name].add_sample(sample, dict(labels), value)
    return list(merged.values())


_QUESTION: Final = b"count"


class Workers:
    """The processes of one run, and what they have counted; ``count`` gives what this one has."""

    def __init__(self, processes: Processes, directory: Path, count: Callable[[], list[Metric]]) -> None:
        self._processes = processes
        self._directory = directory
        self._count = count
        self._publishing = threading.Lock()
        processes.answer(_QUESTION, self._publish)

    def stop(self) -> None:
        """Writes down what was counted, for those that go on."""
        with suppress(OSError):
            self._publish()

    def gather(self) -> list[Metric]:
        """What all workers have counted together; blocks for two seconds at most."""
        try:
            lock_file = (self._directory / "gathering").open("wb")
        except FileNotFoundError:
            # The process that started this one is gone, and its directory with it.
            return self._count()
        with lock_file as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            living, gone = [load(self._publish())[0]], {}
            for answer in self._processes.ask(_QUESTION):
                if answer.is_gone:
                    gone[answer.name] = self._last_words(answer.name)
                else:
                    living.append(self._last_answer(answer))
            return merge(living, [self._bury(gone)])

    def _publish(self) -> bytes:
        with self._publishing:
            content = dump(self._count())
            _write(self._directory / f"{self._processes.name}.json", content)
            return content

    def _last_answer(self, answer: Answer) -> list[Metric]:
        """What a worker says, or said last if it hangs."""
        with suppress(ValueError):
            if answer.content is not None:
                return load(answer.content)[0]
        return self._last_words(answer.name)

    def _last_words(self, name: str) -> list[Metric]:
        return _read(self._directory / f"{name}.json")[0]

    def _bury(self, gone: dict[str, list[Metric]]) -> list[Metric]:
        """Adds workers that are gone to those that went before; gives all of them."""
        place = self._directory / "ended.json"
        ended, members = _read(place)
        # Should this process be killed before it has removed their files, they are not counted twice.
        counted = set(members.get("workers", ()))
        added = [families for name, families in gone.items() if name not in counted]
        if added:
            ended = merge([], [ended, *added])
            _write(place, dump(ended, workers=sorted(gone)))
        for name in gone:
            (self._directory / f"{name}.json").unlink(missing_ok=True)
            (self._directory / f"{name}.sock").unlink(missing_ok=True)
        return ended


def _read(place: Path) -> tuple[list[Metric], dict[str, list[str]]]:
    try:
        families, members = load(place.read_bytes())
    except FileNotFoundError:
        return [], {}
    return families, dict(members)


def _write(place: Path, content: bytes) -> None:
    """Replaces a file at once: whoever reads it sees one content or the other."""
    written = place.with_suffix(".tmp")
    written.write_bytes(content)
    written.replace(place)

"""The numbers of several processes as those of one service.

Counters and histograms add up, those of processes that have ended included, so that they never go backwards.
Gauges say what is, so only those of living processes count: mostly they add up as well; what all processes
share, or say alike, is told once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from prometheus_client.core import Metric

from app.telemetry.metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_GROWING: Final = frozenset({"counter", "histogram"})
_TOLD_ONCE: Final[Mapping[str, Callable[[float, float], float]]] = {
    PREFIX + "memory_limit_bytes": max,
    PREFIX + "watched_tables": max,
    PREFIX + "watched_tables_failing": max,
    PREFIX + "warehouse_listable": min,
    PREFIX + "disk_cache_bytes": max,
    PREFIX + "disk_cache_capacity_bytes": max,
    PREFIX + "disk_cache_entries": max,
    PREFIX + "start_time_seconds": max,
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
    """What :func:`dump` wrote.

    Raises:
        ValueError: something else did.
    """
    members = orjson.loads(content)
    families = []
    for name, documentation, kind, samples in members.pop("families"):
        family = Metric(name, documentation, kind)
        for sample, labels, value in samples:
            family.add_sample(sample, labels, value)
        families.append(family)
    return families, members


def merge(living: Sequence[Iterable[Metric]], ended: Sequence[Iterable[Metric]] = ()) -> list[Metric]:
    """The families of several processes as one of each name, in the order of their first coming.

    Args:
        living: of each process that runs.
        ended: of each that has ended; only what grows is taken.
    """
    merged: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for families, is_alive in (*((each, True) for each in living), *((each, False) for each in ended)):
        for family in families:
            if family.name not in merged:
                merged[family.name] = Metric(family.name, family.documentation, family.type)
                values[family.name] = {}
            if not is_alive and family.type not in _GROWING:
                continue
            join = _TOLD_ONCE.get(family.name, _add)
            numbers = values[family.name]
            for each in family.samples:
                key = (each.name, tuple(each.labels.items()))
                numbers[key] = join(numbers[key], each.value) if key in numbers else each.value
    for name, numbers in values.items():
        for (sample, labels), value in numbers.items():
            merged[name].add_sample(sample, dict(labels), value)
    return list(merged.values())


def _add(left: float, right: float) -> float:
    return left + right

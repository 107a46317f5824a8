"""Medians of what was measured, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

WAYS: Final = {
    "connector": "connector",
    "catalog": "SQL, catalog paimon-index",
    "parquet": "plain Parquet",
    "auto": 'read_table, "auto"',
    "rows": 'read_table, "rows"',
    "data source": "data source",
}
"""Names of the ways of reading as they are measured, and as they are shown."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One query, read once in one way.

    Attributes:
        query: its name.
        way: one of :data:`WAYS`.
        rows: that it found.
        seconds: until its rows were there.
        processor_seconds: of Spark, its Python and the service.
        read_bytes: by those processes that read the files.
        calls: to an object store; 0 where files lie in a directory.
    """

    query: str
    way: str
    rows: int
    seconds: float
    processor_seconds: float
    read_bytes: int
    calls: int


def tables(measured: Sequence[Measurement], kept: Mapping[str, int], files: int) -> str:
    """Return a table of medians."""
    groups: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for each in measured:
        groups[each.query, each.way].append(each)
    ways = [way for way in WAYS if any(way == other for _, other in groups)]
    heads = ["query", "rows", "files", *(WAYS[way] for way in ways)]
    over_store = any(each.calls for each in measured)
    last = "calls" if over_store else "MB read"
    lines = [f"Milliseconds / milliseconds of processors / {last}:", "", *_head(heads)]
    for query, count in kept.items():
        found = groups[query, ways[0]][0].rows
        cells = [query, f"{found:,}", f"{files} → {count}"]
        cells += [_cell(groups[query, way], over_store=over_store) for way in ways]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", f"| --- |{' ---: |' * (len(names) - 1)}"]


def _cell(runs: Sequence[Measurement], *, over_store: bool) -> str:
    seconds, processors = _medians(runs)
    calls, read = median(run.calls for run in runs), median(run.read_bytes for run in runs)
    last = f"{calls:,.0f}" if over_store else f"{read / 1e6:,.1f}"
    return f"{seconds * 1e3:,.0f} / {processors * 1e3:,.0f} / {last}"


def _medians(runs: Sequence[Measurement]) -> tuple[float, float]:
    return median(run.seconds for run in runs), median(run.processor_seconds for run in runs)

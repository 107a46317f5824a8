"""The table of results as Markdown, and what it was measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from benchmarks import small_memory
from benchmarks.limits import COSTS_EXPLAINED, limit_of
from benchmarks.workload import Figure, Note

_HEADINGS: Final = ("work", "size", "p50", "p99", "unit", "runs", "kept", "peak MiB", "target", "met")
_TEXT_COLUMNS: Final = frozenset({"work", "unit", "met"})
_LIBRARIES: Final = ("paimon-index", "fastavro", "numpy", "pyarrow", "pyroaring", "uvicorn", "pypaimon-rust")
_PROCESSORS: Final = Path("/proc/cpuinfo")
SHOWN: Final = (
    ("plan over HTTP, 10 files kept", 10_000),
    ("plans over HTTP, 8 connections", 10_000),
    ("warm plan, bloom filters, side files: id =", 100_000),
    ("cold plan, bloom filters, side files: id =", 100_000),
    ("warm plan, bitmaps, side files: cat =", 100_000),
    ("cold plan, bitmaps, side files: cat =", 100_000),
    ("warm plan, bloom filters, side files: id IN (1,000)", 100_000),
    ("warm plan, no index: half of the days, 10 columns", 100_000),
    ("cold plan, no index: half of the days, 10 columns", 100_000),
    ("pypaimon-rust, no index: half of the days, 10 columns", 100_000),
    ("pypaimon-rust in a new process, no index: half of the days, 10 columns", 100_000),
    ("warm plan, no index: one day, one column", 100_000),
    ("cold plan, no index: one day, one column", 100_000),
    ("pypaimon-rust, no index: one day, one column", 100_000),
    ("pypaimon-rust in a new process, no index: one day, one column", 100_000),
    ("warm plan, bloom filters, embedded: id =", 100_000),
    ("cold plan, bloom filters, embedded: id =", 100_000),
    ("pypaimon-rust, bloom filters, embedded: id =", 100_000),
    ("pypaimon-rust in a new process, bloom filters, embedded: id =", 100_000),
    ("engine, bloom filters, embedded, manifests cached: id =", 100_000),
    ("engine, bloom filters, embedded: id =", 100_000),
    ("warm plan, bloom filters, embedded: id IN (1,000)", 100_000),
    ("warm plan, bitmaps, embedded: cat =", 100_000),
    ("cold plan, bitmaps, embedded: cat =", 100_000),
    ("pypaimon-rust, bitmaps, embedded: cat =", 100_000),
    ("pypaimon-rust in a new process, bitmaps, embedded: cat =", 100_000),
    *((small_memory.name_of(mebibytes), 100_000) for mebibytes in small_memory.MEBIBYTES),
    ("first plan after a restart, no index", 1_000_000),
    ("plan of a new snapshot that adds 1 manifest to 1,000", 100_000),
    ("first plan of a table of 300 commits, manifests merged", 400),
    ("first plan of a table of 300 commits, manifests not merged", 400),
    ("S3, warm: plan", 10_000),
    ("S3, warm: plan with max_staleness_ms", 10_000),
    ("S3, first plan: bloom filters in side files", 3_000),
    ("S3, plans with budget_ms=500 until one is complete: bloom filters in side files", 3_000),
    ("buckets of 1,000 keys, in the service", 10_000_000),
    ("rows of a file, range bitmap BETWEEN", 1_000_000),
    ("resident memory / bytes of indexes, bloom filters, side files", 20_000),
    ("resident memory / bytes of indexes, bitmaps, embedded", 20_000),
    ("resident memory of a process / files", 1_000_000),
    ("write bloom-filter, numbers", 1_000_000),
    ("assign keys that are new", 1_000_000),
    ("commit of a job, manifests merged", 100),
)
"""Names, without the number of calls behind a semicolon, and sizes of the rows that ``RESULTS.md`` has."""


def shown(figures: Sequence[Figure]) -> list[Figure]:
    """Return the rows of :data:`SHOWN`, in its order."""
    rows = {(figure.name.partition(";")[0], figure.size): figure for figure in figures}
    return [rows[place] for place in SHOWN if place in rows]


def report(
    rows: Sequence[Figure], figures: Sequence[Figure], notes: Sequence[Note], command: str, seconds: float
) -> str:
    """Return a table of rows, the notes and circumstances, and which of all figures miss their target."""
    lines = [*table(rows), ""]
    lines += [f"- {note.text}" for note in notes]
    lines += [f"- {line}" for line in circumstances(command, seconds)]
    lines += missed(figures)
    return "\n".join(lines) + "\n"


def missed(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield what keeps figures from their targets, and where the time goes."""
    missed = [figure for figure in figures if figure.is_missed]
    if missed:
        yield from ("", "## Targets that are missed", "", COSTS_EXPLAINED, "")
    for figure in missed:
        shares = ", ".join(f"`{cost.function}` {cost.share:.0%}" for cost in figure.costs)
        yield f"- **{figure.name}**, {figure.size:,}: {limit_of(figure.name)}"
        if figure.kernel_share is not None:
            yield f"  Of the processor's time {figure.kernel_share:.0%} is the kernel's."
        if shares:
            yield f"  Profile: {shares}."


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of a table, a row for each figure."""
    rows = [_cells(figure) for figure in figures]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    is_text = [heading in _TEXT_COLUMNS for heading in _HEADINGS]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(cells, widths, is_text, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    yield line(_HEADINGS)
    rules = [
        "-" * width if left else "-" * (width - 1) + ":" for width, left in zip(widths, is_text, strict=True)
    ]
    yield line(rules)
    yield from map(line, rows)


def _cells(figure: Figure) -> tuple[str, ...]:
    target = figure.target
    return (
        figure.name,
        f"{figure.size:,}",
        _number(figure.p50),
        _number(figure.p99),
        figure.unit.value,
        f"{figure.runs:,}",
        "" if figure.kept is None else f"{figure.kept:,}",
        "" if figure.peak_bytes is None else f"{figure.peak_bytes / 2**20:,.0f}",
        "" if target is None else f"{'≤' if target.is_ceiling else '≥'} {target.limit:,g}",
        "" if target is None else "yes" if target.is_met(figure.p50) else "NO",
    )


def _number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def circumstances(command: str, seconds: float) -> Iterator[str]:
    """Yield the machine, versions, the date and the command."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield (
        f"machine: {os.cpu_count()} cores ({_processor()}), {memory / 2**30:.0f} GiB, "
        f"{platform.system()} {platform.machine()}, load {os.getloadavg()[1]:.1f} of the last five minutes"
    )
    libraries = (f"{name} {found}" for name in _LIBRARIES if (found := _version(name)))
    yield f"versions: Python {platform.python_version()}, {', '.join(libraries)}"
    yield f"date: {datetime.now(UTC):%Y-%m-%d}, {seconds / 60:.1f} minutes"
    yield f"command: `{command}`"


def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None

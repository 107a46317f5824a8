"""``python -m benchmarks [--files 1000 20000]``: measures every workload and prints one table."""

from __future__ import annotations

import argparse
import gc
import os
import platform
import resource
import shlex
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.synthetic import FILES_PER_DAY, write_table
from benchmarks.workloads import index_workloads, plan_workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workloads import Workload

_LIBRARIES = ("paimon-index", "fastavro", "numpy", "pyroaring")
_WIDTH = 120


def main() -> None:
    """Measures, and prints the table and what it was measured on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures plans and indexes.")
    parser.add_argument("--files", type=_files, nargs="+", default=[1_000, 20_000], help="sizes of the table")
    sizes: list[int] = parser.parse_args().files
    table = Table(box=box.MARKDOWN)
    table.add_column("workload")
    for heading in ("files", "kept", "runs", "p50 ms", "min ms", "p50 ns/file"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory(prefix="paimon-index-benchmark-") as directory:
        for files in sizes:
            for workload in _workloads(Path(directory) / str(files), files):
                table.add_row(*_measure(workload))
    console = Console(width=_WIDTH)
    console.print(table)
    console.print(*_circumstances(), sep="\n", highlight=False)


def _files(written: str) -> int:
    files = int(written)
    if files < FILES_PER_DAY:
        raise argparse.ArgumentTypeError(f"expected at least {FILES_PER_DAY} files, found {files}")
    return files


def _workloads(warehouse: Path, files: int) -> Iterator[Workload]:
    write_table(warehouse, files)
    yield from plan_workloads(warehouse, files)
    yield from index_workloads(files)


def _measure(workload: Workload) -> tuple[str, ...]:
    """Runs a workload once to warm up and then as often as it wants.

    Returns:
        One row of the table; files kept are those of a middling run, since literals differ.
    """
    kept = [workload.run()]
    seconds = []
    for _ in range(workload.runs):
        gc.collect()
        started = time.perf_counter()
        kept.append(workload.run())
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    return (
        workload.name,
        f"{workload.files:,}",
        f"{statistics.median_low(kept):,}",
        str(workload.runs),
        f"{median * 1e3:,.2f}",
        f"{min(seconds) * 1e3:,.2f}",
        f"{median * 1e9 / workload.files:,.0f}",
    )


def _circumstances() -> Iterator[str]:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield f"machine: {cores} cores, {memory / 2**30:.0f} GiB, {platform.system()} {platform.machine()}"
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield f"versions: Python {platform.python_version()}, {libraries}"
    yield f"date: {datetime.now(UTC):%Y-%m-%d}"
    yield f"command: python -m benchmarks {shlex.join(sys.argv[1:])}".rstrip()
    yield f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB"


if __name__ == "__main__":
    main()

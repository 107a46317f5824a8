"""``python -m benchmarks``: measures everything, prints it, and writes the rows of ``RESULTS.md``."""

from __future__ import annotations

import argparse
import fnmatch
import os
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks import (
    aggregates,
    answers,
    callers,
    commits,
    deletions,
    engine,
    explorer,
    filters,
    http_plans,
    iceberg_clients,
    index_files,
    index_writing,
    key_assignment,
    key_lookups,
    manifest_formats,
    memory,
    merging,
    new_pods,
    overload,
    peers,
    plans,
    restarts,
    scale,
    small_memory,
    stores,
)
from benchmarks.events import FILES_PER_DAY
from benchmarks.ratios import ratios
from benchmarks.report import report, shown
from benchmarks.runner import in_process, measure
from benchmarks.workload import Figure, Note, Suite

_RESULTS: Final = Path(__file__).parent / "RESULTS.md"
_HEADING: Final = (
    "# Results of `make bench`\n\nWhat is measured and how: [docs/benchmarks.md](../docs/benchmarks.md). "
    "`make bench` prints further rows.\n"
)
_SIZES: Final = (1_000, plans.COMPARED, 20_000, plans.LARGEST)
_QUICK_SIZES: Final = (1_000,)
_MEMORY_FILES: Final = 20_000
_SECONDS_EACH: Final = 0.5
_QUICK_SECONDS_EACH: Final = 0.1
_MINUTES: Final = 10.0
_DISK_BYTES: Final = 6 << 30


def main() -> int:
    """Measures, prints the table and what it was measured on; returns 1 if something could not be run."""
    arguments = _arguments()
    started = time.time()
    deadline = started + 60 * arguments.minutes
    figures: list[Figure] = []
    notes: list[Note] = []
    status = 0
    without_engine = engine.missing(arguments.engine)
    if without_engine is not None:
        notes.append(Note(f"the Java engine is not compared: {without_engine}"))
    with tempfile.TemporaryDirectory(prefix="paimon-index-benchmark-") as temporary:
        directory = Path(temporary)
        if shutil.disk_usage(directory).free < _DISK_BYTES:
            raise SystemExit(f"{temporary} needs {_DISK_BYTES >> 30} GiB; TMPDIR names another place")
        for suite in _suites(arguments, None if without_engine else arguments.engine):
            if not fnmatch.fnmatch(suite.name, arguments.only):
                continue
            if time.time() > deadline:
                notes.append(Note(f"{suite.name}: not measured, since the time was up"))
                continue
            print(f"{time.time() - started:5.0f} s  {suite.name}", file=sys.stderr, flush=True)
            try:
                if suite.prepare is not None:
                    in_process(suite.prepare, directory)
                    # What is written to the disk meanwhile would slow down what is measured.
                    os.sync()
                seconds_each = _QUICK_SECONDS_EACH if arguments.quick else _SECONDS_EACH
                found, said = in_process(measure, suite, directory, seconds_each, deadline)
            except Exception as error:  # noqa: BLE001 - what can be measured is, and the exit status tells
                traceback.print_exception(error)
                found, said = [], [Note(f"{suite.name}: failed with {type(error).__name__}: {error}")]
                status = 1
            figures += found
            notes += said
    figures += list(ratios(figures))
    # Where the engine lies on this machine is of no interest elsewhere.
    words = ["DIR" if word == str(arguments.engine) else word for word in sys.argv[1:]]
    command = shlex.join(["python", "-m", "benchmarks", *words])
    seconds = time.time() - started
    print(report(figures, figures, notes, command, seconds))
    if arguments.only == "*" and arguments.files is None and not arguments.quick:
        _RESULTS.write_text(f"{_HEADING}\n{report(shown(figures), figures, notes, command, seconds)}")
    return status


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="suites to run, such as 'plans*'")
    parser.add_argument("--files", type=_files, nargs="+", help="sizes of the planned tables")
    parser.add_argument("--quick", action="store_true", help="small tables, few repetitions")
    parser.add_argument(
        "--minutes", type=float, default=_MINUTES, help="what is not measured by then is left out"
    )
    parser.add_argument(
        "--engine",
        type=Path,
        default=os.environ.get(engine.VARIABLE),
        help=f"directory of the engine's benchmarks, or {engine.VARIABLE}",
    )
    return parser.parse_args()


def _files(written: str) -> int:
    files = int(written)
    if files < FILES_PER_DAY:
        raise argparse.ArgumentTypeError(f"expected at least {FILES_PER_DAY} files, found {files}")
    return files


def _suites(arguments: argparse.Namespace, engine_directory: Path | None) -> Iterator[Suite]:
    """Yield what is measured, the largest tables last.

    The engine's index files before ours are asked for them.
    """
    sizes = arguments.files or (_QUICK_SIZES if arguments.quick else _SIZES)
    if engine_directory is not None:
        yield engine.index_suite(engine_directory)
    for module in (
        index_files,
        filters,
        index_writing,
        key_assignment,
        deletions,
        manifest_formats,
        key_lookups,
        answers,
        http_plans,
        callers,
        overload,
        stores,
        commits,
        merging,
    ):
        yield from module.suites()
    if not arguments.quick:
        yield from plans.growth_suites()
        yield from explorer.suites()
        yield from aggregates.suites(max(sizes))
    yield from memory.suites(sizes[0] if arguments.quick else _MEMORY_FILES)
    for files in sizes:
        yield from plans.suites(files)
    if not arguments.quick:
        yield from restarts.suites(with_huge=arguments.files is None)
        yield from small_memory.suites()
    yield from peers.suites(max(sizes))
    yield from iceberg_clients.suites(max(sizes))
    if engine_directory is not None:
        yield engine.plan_suite(engine_directory, max(sizes))
    if arguments.only != "*":
        yield from new_pods.suites()
        for files in arguments.files or (scale.FILES,):
            yield from scale.suites(files)


if __name__ == "__main__":
    sys.exit(main())

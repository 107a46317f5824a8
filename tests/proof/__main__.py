"""``python -m tests.proof``: plans of random tables by random conditions; ends with 1 if one is wrong."""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import traceback
from collections.abc import Iterator
from multiprocessing import Process, Queue
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.proof.drawing import print_runs
from tests.proof.pairs import Run, check_table
from tests.proof.replicas import Replicas
from tests.proof.time_travel import check_time_travel

_CONDITIONS: Final = 200
_MOST_ERRORS: Final = 20


def main() -> int:
    asked = _arguments()
    if asked.table is not None:
        with TemporaryDirectory(prefix="paimon-index-proof-") as directory:
            root = Path(directory)
            with Replicas.serving(root) as replicas:
                _, errors = _check(asked.table, root, "t", replicas, asked.only)
        for error in errors:
            traceback.print_exception(error)
        return 1 if errors else 0
    return _run(asked.pairs, asked.seed, asked.processes)


def _run(pairs: int, seed: str, processes: int) -> int:
    """Tables of a seed until there are enough pairs."""
    total = Run()
    errors = print_runs(
        _shares(total, pairs, seed, processes),
        lambda errors, seconds: (
            f"{total.pairs} pairs of {total.tables} tables, {errors} wrong, {seconds:.0f} s, "
            f"{total.pairs / seconds:.0f} pairs a second"
        ),
    )
    print("variations:", dict(sorted(total.variations.items())))
    print("files left out, by step:", dict(sorted(total.skips.items())))
    return 1 if errors else 0


def _shares(total: Run, pairs: int, seed: str, processes: int) -> Iterator[list[str]]:
    counts: Queue[tuple[Run, list[str]] | None] = Queue()
    share = -(-pairs // processes)
    workers = [
        Process(target=check_share, args=(seed, at, processes, share, counts)) for at in range(processes)
    ]
    for worker in workers:
        worker.start()
    running = processes
    while running:
        found = counts.get()
        if found is None:
            running -= 1
            continue
        total.add(found[0])
        yield found[1]
    for worker in workers:
        worker.join()


def check_share(
    seed: str, first: int, step: int, pairs: int, counts: Queue[tuple[Run, list[str]] | None]
) -> None:
    """Every ``step``-th table of a seed, from the ``first`` on, until there are enough pairs.

    ``counts``: what each table counted, and the traces of what went wrong; None behind the last one.
    """
    done, errors = 0, 0
    # Planning makes few cycles, and is much of the work.
    gc.disable()
    with TemporaryDirectory(prefix="paimon-index-proof-") as directory:
        root = Path(directory)
        with Replicas.serving(root) as replicas:
            for at in itertools.count(first, step):
                run, wrong = _check(f"{seed} {at}", root, f"t{at}", replicas)
                gc.collect()
                counts.put((run, ["".join(traceback.format_exception(error)) for error in wrong]))
                done, errors = done + run.pairs, errors + len(wrong)
                if done >= pairs or errors >= _MOST_ERRORS:
                    break
    counts.put(None)


def _check(
    seed: str, root: Path, name: str, replicas: Replicas, only: int | None = None
) -> tuple[Run, list[Exception]]:
    """Return the table of a seed, and that of older schemas; what was counted, and what went wrong."""
    run, errors = check_table(seed, root, name, _CONDITIONS, replicas, only)
    if only is None:
        try:
            counts = check_time_travel(seed, root, f"{name} of older schemas")
        except Exception as error:  # noqa: BLE001 - told by the run
            error.add_note(f"--table {seed!r}, older schemas through Iceberg")
            return run, [*errors, error]
        run.pairs += counts["questions"]
        run.variations["older schemas through Iceberg"] += counts["questions"]
    return run, errors


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", help="the seed of one table, as an error names it")
    parser.add_argument("--only", type=int, help="the number of one condition of it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

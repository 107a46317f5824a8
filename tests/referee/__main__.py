"""``python -m tests.referee``: tables of several writers, held to what the engine reads and Spark says of it.

Ends with 1 if an answer is wrong. An error names its table, which ``--table`` makes again.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.proof.drawing import print_runs
from tests.referee.runs import Court
from tests.referee.trials import Run

_MOST_LINES: Final = 60
_MOST_ERRORS: Final = 50


def main() -> int:
    asked = _arguments()
    with (
        TemporaryDirectory(prefix="paimon-index-referee-") as directory,
        Court.opened(Path(directory), asked.merged) as court,
    ):
        total = Run()
        errors = print_runs(
            _runs(court, total, asked),
            lambda errors, seconds: (
                f"{total.cases} cases of {total.tables} tables, {errors} wrong, {total.left_out} of "
                f"{total.files} files left out, {seconds:.0f} s, {total.cases / seconds:.0f} cases a second"
            ),
        )
    for name in ("untold", "refused", "steps"):
        counts = getattr(total, name).most_common(_MOST_LINES)
        print(f"{name}:", *(f"\n  {count} {each}" for each, count in counts))
    return 1 if errors else 0


def _runs(court: Court, total: Run, asked: argparse.Namespace) -> Iterator[list[str]]:
    errors = 0
    for at in itertools.count(asked.first):
        run, texts = court.run(asked.table or f"{asked.seed} {at}", asked.only)
        total.add(run)
        errors += len(texts)
        yield texts
        if asked.table or total.cases >= asked.cases or errors >= _MOST_ERRORS:
            return


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.referee", description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="the number of the first table")
    parser.add_argument("--table", help="the seed of one table, as an error names it")
    parser.add_argument(
        "--merged", metavar="ZONE", help="files of every writer in a manifest that the engine merged"
    )
    parser.add_argument("--only", help="one condition, asked at every selector")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

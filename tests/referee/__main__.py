"""``python -m tests.referee``: tables of several writers, held to what the engine reads and Spark says of it.

Ends with 1 if an answer is wrong. An error names its table, which ``--table`` makes again.
"""

import argparse
import itertools
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.referee.runs import Court
from tests.referee.trials import Run

_SECONDS_BETWEEN_LINES: Final = 30
_MOST_LINES: Final = 60
_MOST_ERRORS: Final = 50


def main() -> int:
    asked = _arguments()
    with (
        TemporaryDirectory(prefix="paimon-index-referee-") as directory,
        Court.opened(Path(directory)) as court,
    ):
        tables = (
            [asked.table] if asked.table else (f"{asked.seed} {at}" for at in itertools.count(asked.first))
        )
        total, errors, started, shown = Run(), 0, time.monotonic(), time.monotonic()
        for table in tables:
            run, texts = court.run(table, asked.only)
            total.add(run)
            errors += len(texts)
            for text in texts:
                print(text, flush=True)
            if time.monotonic() > shown + _SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                _show(total, errors, started)
            if total.cases >= asked.cases or errors >= _MOST_ERRORS:
                break
    _show(total, errors, started)
    for name in ("untold", "refused", "steps"):
        counts = getattr(total, name).most_common(_MOST_LINES)
        print(f"{name}:", *(f"\n  {count} {each}" for each, count in counts))
    return 1 if errors else 0


def _show(total: Run, errors: int, started: float) -> None:
    seconds = time.monotonic() - started
    print(
        f"{total.cases} cases of {total.tables} tables, {errors} wrong, {total.left_out} of {total.files} "
        f"files left out, {seconds:.0f} s, {total.cases / seconds:.0f} cases a second",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.referee", description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="the number of the first table")
    parser.add_argument("--table", help="the seed of one table, as an error names it")
    parser.add_argument("--only", help="one condition, asked at every selector")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

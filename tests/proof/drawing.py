"""Runs over tables that are drawn one after the other, for commands that print how far they are."""

import time
from collections.abc import Callable, Iterable
from typing import Final

_SECONDS_BETWEEN_LINES: Final = 30


def print_runs(runs: Iterable[list[str]], line: Callable[[int, float], str]) -> int:
    """Print the errors of each run, and a line now and then; return the number of errors.

    ``line``: how far it is, given the number of errors and the seconds since the start.
    """
    errors, started, shown = 0, time.monotonic(), 0.0
    for texts in runs:
        errors += len(texts)
        for text in texts:
            print(text, flush=True)
        if time.monotonic() > shown:
            shown = time.monotonic() + _SECONDS_BETWEEN_LINES
            print(line(errors, time.monotonic() - started), flush=True)
    print(line(errors, time.monotonic() - started), flush=True)
    return errors

"""Where the time of a run goes: for rows that miss their target, the results say so."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.workload import Cost

_SHOWN: Final = 6
_LEAST_SECONDS: Final = 0.1
_MOST_RUNS: Final = 20


def costs(run: Callable[[], object]) -> tuple[Cost, ...]:
    """Return the functions that take most of a run, in the thread that it was asked of.

    A profiler sees every call, so shares of small functions come out too large.
    """
    profile = cProfile.Profile()
    seconds, runs = 0.0, 0
    while seconds < _LEAST_SECONDS and runs < _MOST_RUNS:
        profile.runcall(run)
        seconds, runs = pstats.Stats(profile).total_tt, runs + 1  # type: ignore[attr-defined] # no stub has it
    taken = [
        (tottime, _name(*function))
        for function, (_, _, tottime, _, _) in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined] # likewise
    ]
    largest = sorted(taken, reverse=True)[:_SHOWN]
    return tuple(Cost(name, tottime / seconds) for tottime, name in largest)


def _name(file: str, line: int, function: str) -> str:
    """``module.function``, or what the profiler calls functions that are not Python's."""
    if file == "~":
        return function.strip("<>").removeprefix("built-in method ").removeprefix("method ")
    return f"{Path(file).stem}.{function}" if line else function

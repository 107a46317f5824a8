"""Times workloads, in processes of their own so that the memory is theirs."""

from __future__ import annotations

import gc
import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final, ParamSpec, TypeVar, assert_never

import numpy as np

from benchmarks.costs import costs
from benchmarks.workload import Figure, Measured, Note, Suite, Unit, Workload

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_LEAST_RUNS: Final = 3
_BYTES_A_FILE: Final = 32 << 10
_PAGE_BYTES: Final = 4096
_STATUS: Final = Path("/proc/self/status")
_CLEAR_REFERENCES: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"


def in_process(
    function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Call a function in a fresh process, which ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def measure(
    suite: Suite, directory: Path, seconds_each: float, deadline: float
) -> tuple[list[Figure], list[Note]]:
    """Run the workloads of a suite here.

    ``suite``: what to run.
    ``directory``: its files.
    ``seconds_each``: how long each workload may be repeated; it runs three times however long that takes.
    ``deadline``: seconds since 1970 after which no workload begins.

    Returns:
        What was measured, and what there is to say about what was not.
    """
    figures: list[Figure] = []
    notes: list[Note] = []
    for item in suite.items(directory):
        match item:
            case Workload() if time.time() > deadline:
                notes.append(Note(f"{item.name}, {item.size:,}: not measured, since the time was up"))
            case Workload():
                figures.append(_time(item, seconds_each))
            case Figure():
                figures.append(item)
            case Note():
                notes.append(item)
            case _:
                assert_never(item)
    return figures, notes


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share of the ordered values does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def measured(plan: Callable[[], int], files: int) -> Measured:
    """Return a run that is the first of its kind in a process of its own, and the number of kept files.

    The process gets its memory from the system meanwhile; but a virtual machine has it from its host before,
    which would be all that is seen of the difference between two runs.

    ``plan``: what is timed.
    ``files``: how many there are to plan.
    """
    pages = np.empty(files * _BYTES_A_FILE, np.uint8)
    pages[::_PAGE_BYTES] = 1
    del pages
    _reset_peak()
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    kept = plan()
    seconds = time.perf_counter() - started
    return Measured(seconds, kept, peak_bytes(), _kernel_share(before))


def _kernel_share(before: resource.struct_rusage) -> float:
    """Of this process's time of processors since then, what the kernel took."""
    after = resource.getrusage(resource.RUSAGE_SELF)
    kernel, own = after.ru_stime - before.ru_stime, after.ru_utime - before.ru_utime
    return kernel / (kernel + own) if kernel + own else 0.0


def resident_bytes() -> int:
    """Memory of this process now; 0 where the system does not tell."""
    return _status_bytes("VmRSS:") or 0


def _time(workload: Workload, seconds_each: float) -> Figure:
    _reset_peak()
    if not workload.is_cold:
        workload.run()
    took: list[float] = []
    kept: list[int] = []
    own_accounts: list[Measured] = []
    kernel_shares: list[float] = []
    # What is there already need not be looked through before each run.
    gc.collect()
    gc.freeze()
    while len(took) < min(_LEAST_RUNS, workload.runs) or (
        sum(took) < seconds_each and len(took) < workload.runs
    ):
        gc.collect()
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        result = workload.run()
        seconds = time.perf_counter() - started
        match result:
            case Measured():
                took.append(result.seconds)
                kept.append(result.kept)
                own_accounts.append(result)
            case _:
                took.append(seconds)
                kernel_shares.append(_kernel_share(before))
                if isinstance(result, int):
                    kept.append(result)
    gc.unfreeze()
    peaks = [each.peak_bytes for each in own_accounts if each.peak_bytes is not None]
    kernel_shares += [each.kernel_share for each in own_accounts if each.kernel_share is not None]
    scale = 1e9 / workload.size if workload.unit is Unit.NANOSECONDS_EACH else 1e3
    figure = Figure(
        name=workload.name,
        size=workload.size,
        unit=workload.unit,
        p50=statistics.median(took) * scale,
        p99=percentile(sorted(took), 0.99) * scale,
        runs=len(took),
        kept=statistics.median_low(kept) if kept else None,
        peak_bytes=max(peaks) if peaks else peak_bytes(),
        target=workload.target,
        kernel_share=statistics.median(kernel_shares) if kernel_shares and workload.is_cold else None,
    )
    profiled = workload.profiled if workload.is_cold else workload.run
    # Ratios of cold plans and of decoding are formed later, and may turn out to need an explanation.
    may_be_missed = workload.is_cold or workload.unit is Unit.NANOSECONDS_EACH or figure.is_missed
    return replace(figure, costs=costs(profiled)) if profiled and may_be_missed else figure


def _reset_peak() -> None:
    # Only Linux can; elsewhere the peak is that of the process so far.
    with suppress(OSError):
        _CLEAR_REFERENCES.write_text(_RESET_PEAK)


def peak_bytes() -> int:
    """Return the most memory that this process has had since it was reset."""
    return _status_bytes("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _status_bytes(field: str) -> int | None:
    """Return a line of the process's status, which is in kB."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(field)), None)

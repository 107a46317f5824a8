"""What is measured, and what comes out: a workload is a name, a size and a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias


class Unit(StrEnum):
    """What a figure counts."""

    MILLISECONDS = "ms"
    NANOSECONDS_EACH = "ns each"
    PER_SECOND = "/s"
    TIMES = "x"
    BYTES_EACH = "bytes each"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be.

    Attributes:
        limit: in the figure's unit.
        is_ceiling: the figure should be at most that, not at least.
    """

    limit: float
    is_ceiling: bool = True

    def is_met(self, value: float) -> bool:
        """Whether a figure is what it should be."""
        return value <= self.limit if self.is_ceiling else value >= self.limit


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to time.

    Attributes:
        name: what is done.
        size: how many data files, keys or deletes it is done for.
        run: does it once; it may return how many files are kept, or :class:`Measured`.
        unit: MILLISECONDS of one run, or NANOSECONDS_EACH of the ``size`` things in it.
        target: what the median should be.
        is_cold: the first run counts like every other, since each of them starts with nothing.
        runs: how often it may run.
        profiled: what a profile is made of if it is cold: the same in this process.
    """

    name: str
    size: int
    run: Callable[[], object]
    unit: Unit = Unit.MILLISECONDS
    target: Target | None = None
    is_cold: bool = False
    runs: int = 100
    profiled: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took by its own account, where only a part of it is of interest.

    Attributes:
        seconds: of that part.
        kept: data files that are kept.
        peak_bytes: the most memory of the run's own process, if it had one.
        kernel_share: of the processor's time, what the kernel took: mostly for handing out memory.
    """

    seconds: float
    kept: int
    peak_bytes: int | None = None
    kernel_share: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """A function and what it takes.

    Attributes:
        function: with its module.
        share: of the time of a run, without the functions that it calls; below 1.
    """

    function: str
    share: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the results.

    Attributes:
        name: what was done.
        size: how many data files, keys or deletes it was done for.
        unit: of ``p50``, ``p99`` and the target.
        p50: the median, or the only value.
        p99: of the slowest runs; None where nothing was repeated.
        runs: how often it was measured.
        kept: data files that a plan keeps, in the median of the runs.
        peak_bytes: the most memory that the process had while it ran.
        target: what ``p50`` should be.
        costs: where the time of a run goes, the largest first; empty where nobody may ask.
        kernel_share: as of :class:`Measured`, in the median.
    """

    name: str
    size: int
    unit: Unit
    p50: float
    p99: float | None = None
    runs: int = 1
    kept: int | None = None
    peak_bytes: int | None = None
    target: Target | None = None
    costs: tuple[Cost, ...] = ()
    kernel_share: float | None = None

    @property
    def is_missed(self) -> bool:
        """Whether it should be otherwise."""
        return self.target is not None and not self.target.is_met(self.p50)


@dataclass(frozen=True, slots=True)
class Note:
    """Says under the results what could not be measured, and why."""

    text: str


Item: TypeAlias = Workload | Figure | Note


@dataclass(frozen=True, slots=True)
class Suite:
    """Workloads that one process measures, one after the other.

    Attributes:
        name: for ``--only``, and for the progress that is told while they run.
        items: gives them, in a process of its own; what it holds, such as a service with its caches, lives
            until it is asked for the next one. Its argument is a directory that suites share.
        prepare: writes files for them, in another process before.
    """

    name: str
    items: Callable[[Path], Iterator[Item]]
    prepare: Callable[[Path], object] | None = None

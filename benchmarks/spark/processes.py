"""What processes have used, as Linux counts it; only the standard library, since it runs beside pyspark."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = Path("/proc")
_JAVA = "java"


@dataclass(frozen=True, slots=True)
class Used:
    """Since their start, by a process and all that it started, ended ones included.

    Attributes:
        processor_seconds: of all of them.
        java_bytes: that Java's processes read.
        python_bytes: that those below Java's read.
    """

    processor_seconds: float
    java_bytes: int
    python_bytes: int

    def since(self, before: Used) -> Used:
        """Return what was used in between."""
        return Used(
            self.processor_seconds - before.processor_seconds,
            self.java_bytes - before.java_bytes,
            self.python_bytes - before.python_bytes,
        )


def used_below(root: int) -> Used:
    """Return what a process has used, together with those that it started."""
    children: dict[int, list[tuple[int, str]]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for place in _PROCESSES.iterdir():
        if place.name.isdecimal():
            try:
                name, _, rest = (place / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:  # it has ended
                continue
            fields = rest.split()
            children[int(fields[1])].append((int(place.name), name))
            ticks[int(place.name)] = sum(map(int, fields[11:15]))
    seconds, java, python = 0.0, 0, 0
    pending = [(root, "", False)]
    while pending:
        process, name, is_below = pending.pop()
        seconds += ticks.get(process, 0) / os.sysconf("SC_CLK_TCK")
        if name == _JAVA:
            java += _read_bytes(process)
        elif is_below:
            python += _read_bytes(process)
        pending += [(each, other, is_below or name == _JAVA) for each, other in children[process]]
    return Used(seconds, java, python)


def _read_bytes(process: int) -> int:
    try:
        lines = (_PROCESSES / str(process) / "io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))

"""Dear requests of some callers in a control group: nobody is killed, and what is answered is right."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from benchmarks.bounds.asking import BROKEN, HUNG, OF_THE_CONTRACT, OK, Answer, Caller, Dear, answers
from benchmarks.control_groups import ControlGroup, control_group
from benchmarks.soak.serving import server

MIB: Final = 1 << 20
_AMPLE: Final = 4_096
"""Megabytes, in which everything fits."""
_SHARE: Final = 0.6
"""Of the limit: what needs no more when alone is answered then."""
_ENVIRONMENT: Final = {"PAIMON_INDEX_ICEBERG": "true", "PAIMON_INDEX_DEADLINE_SECONDS": "60"}
"""Time is no bound here, or a busy machine would leave nothing to look at."""
_PAUSE_SECONDS: Final = 0.3
_NEIGHBOUR: Final = "neighbour"


@dataclass(slots=True)
class Cell:
    """One request of some callers within one limit.

    Attributes:
        taken: bytes at most, without cached files.
        faults: what is not as it has to be.
    """

    dear: str
    limit: int
    callers: int
    statuses: Counter[int] = field(default_factory=Counter)
    taken: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        what = f"{self.dear} | {self.limit} MB | {self.callers} | {counted(self.statuses)}"
        return f"| {what} | {self.taken // MIB} | {'; '.join(self.faults) or 'kept'} |"


HEAD: Final = "| request | limit | callers | answers | MiB at most | |\n| --- | --- | --- | --- | --- | --- |"


def needed(warehouse: Path, dear: Dear) -> int:
    """Bytes that a server takes at most for one caller where there is ample room."""
    with control_group(_AMPLE * MIB) as group:
        assert group is not None  # noqa: S101 - whoever asks has seen that there are some
        with _server(warehouse, dear, group) as (_, url), group.watched() as samples:
            answers(port_of(url), _names(dear), dear, 1)
    return max(samples)


def cells(warehouse: Path, dear: Dear, limit: int, callers: Sequence[int], need: int) -> Iterator[Cell]:
    """Yield the same server asked by more and more callers, each time with empty caches.

    ``limit``: in megabytes.
    ``need``: as :func:`needed` tells.
    """
    with control_group(limit * MIB) as group:
        assert group is not None  # noqa: S101 - whoever asks has seen that there are some
        waiting = list(callers)
        while waiting:
            with _server(warehouse, dear, group) as (process, url):
                while waiting and process.poll() is None:
                    cell = Cell(dear.name, limit, waiting.pop(0))
                    httpx.post(f"{url}/v1/cache/clear", timeout=60).raise_for_status()
                    kills = group.kills
                    port = port_of(url)
                    with group.watched() as samples, _small_plans(port) as small:
                        given = answers(port, _names(dear), dear, cell.callers)
                    cell.taken = max(samples)
                    cell.statuses.update(answer.status for answer in given)
                    if group.kills > kills or process.poll() is not None:
                        cell.faults.append(f"killed: {group.kills - kills}")
                    elif set(small) != {OK}:
                        cell.faults.append(f"small plans of another warehouse: {counted(small)}")
                    cell.faults += _faults(dear, given)
                    is_enough = need <= _SHARE * limit * MIB or (dear.least and dear.least <= limit)
                    if cell.callers == 1 and is_enough and set(cell.statuses) != {dear.expected}:
                        cell.faults.append(f"it needs {need // MIB} MiB when alone, or less")
                    yield cell


@contextmanager
def _small_plans(port: int) -> Iterator[Counter[int]]:
    """Have another warehouse make small plans until the end of the block and once after it, by status."""
    statuses: Counter[int] = Counter()
    is_over = threading.Event()

    def ask() -> None:
        body = {"filter": f"c0 = {statuses.total()}"}
        statuses[Caller(port, _NEIGHBOUR).of_table("small", "plan", body)[0]] += 1

    def ask_again() -> None:
        while not is_over.wait(_PAUSE_SECONDS):
            ask()

    asking = threading.Thread(target=ask_again)
    asking.start()
    try:
        yield statuses
    finally:
        is_over.set()
        asking.join()
    ask()


def _names(dear: Dear) -> list[str]:
    return [f"w{number}" for number in range(dear.warehouses)]


def _server(
    warehouse: Path, dear: Dear, group: ControlGroup
) -> AbstractContextManager[tuple[subprocess.Popen[bytes], str]]:
    environment = {**_ENVIRONMENT, **({"TMPDIR": dear.temporary} if dear.temporary else {})}
    return server([f"{name}={warehouse}" for name in (*_names(dear), _NEIGHBOUR)], environment, group)


def _faults(dear: Dear, given: Sequence[Answer]) -> Iterator[str]:
    statuses = {answer.status for answer in given}
    names: Mapping[int, str] = {BROKEN: "broken connections", HUNG: "hung connections"}
    for status in sorted(statuses - OF_THE_CONTRACT - {dear.expected}):
        yield names.get(status, f"answers of {status}")
    if not all(answer.agrees(dear.truth(answer.number)) for answer in given):
        yield "wrong answers"


def counted(statuses: Mapping[int, int]) -> str:
    """How many answers there were by status."""
    return ", ".join(f"{number:,} of {status}" for status, number in sorted(statuses.items()))


def port_of(url: str) -> int:
    """Return the port of a server."""
    return httpx.URL(url).port or 80

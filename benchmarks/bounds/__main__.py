"""``python -m benchmarks.bounds``: memory in control groups, two warehouses side by side, overload, bursts.

The section of global indexes has tables of its own, and measures memory, too.

Callers are processes of their own, and share the machine's cores with the server. What takes too long is
measured twice, since other programs of the machine take time, too; with ``--quick`` it is only printed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from benchmarks.bounds import bursts, memory, neighbours
from benchmarks.bounds.asking import (
    DEAR,
    EVERYTHING,
    EXPANDING,
    EXPLAIN,
    ICEBERG,
    IN_MANY,
    IN_ONE,
    INDEXED,
    LONG_BLOCKS,
    OF_THE_CONTRACT,
    ORC,
    ORS,
    PIPE,
    SIDE_FILES,
    Dear,
    answers,
    asked_all_the_time,
)
from benchmarks.bounds.indexed_tables import INDEXED_TABLES, write_indexed_tables
from benchmarks.bounds.tables import write_tables
from benchmarks.control_groups import control_group
from benchmarks.events import DATABASE
from benchmarks.overload import overload, rate
from benchmarks.runner import in_process
from benchmarks.soak.serving import server

_LIMITS: Final = (384, 512, 768, 1_024, 1_536, 2_048)
_LIMITS_OF_INDEXES: Final = (512, 1_024, 2_048)
_CALLERS: Final = (1, 3, 12)
_TIMES: Final = 5
_GOODPUT: Final = 0.85
_RECOVERY_SECONDS: Final = 1.0
_AT_ONCE: Final = 6
_ROUNDS: Final = 4
_IMPATIENCE_SECONDS: Final = 0.4
_PLAN: Final = f"/v1/main/databases/{DATABASE}/tables/plain/plan"
_PARTS: Final = ("memory", "indexes", "neighbours", "overload", "burst")


def main() -> int:
    """Run what the command line asks for; return 1 where a bound does not hold."""
    asked = _arguments()
    faults = 0
    with TemporaryDirectory(prefix="paimon-index-limits-") as temporary:
        warehouse = write_tables(Path(asked.directory or temporary))
        named = [each for each in (*DEAR, EVERYTHING) if asked.only is None or asked.only in each.name]
        if "memory" in asked.parts:
            limits = (512, 1_024) if asked.quick else asked.limits
            callers = (1, 3) if asked.quick else _CALLERS
            wanted = [IN_ONE, IN_MANY, EXPLAIN, ICEBERG] if asked.quick else named
            faults += _print(memory.HEAD, _memory(warehouse, wanted, limits, callers))
        if "indexes" in asked.parts:
            write_indexed_tables(warehouse, ("expanding", "long_blocks") if asked.quick else INDEXED_TABLES)
            limits = (512,) if asked.quick else _LIMITS_OF_INDEXES
            indexed = [
                each
                for each in ((EXPANDING, LONG_BLOCKS) if asked.quick else INDEXED)
                if asked.only is None or asked.only in each.name
            ]
            faults += _print(memory.HEAD, _memory(warehouse, indexed, limits, _CALLERS))
        if "neighbours" in asked.parts:
            wanted = [ORS, IN_MANY] if asked.quick else [each for each in named if each is not EVERYTHING]
            faults += _print(neighbours.HEAD, _neighbours(warehouse, wanted, is_timed=not asked.quick))
        if "overload" in asked.parts:
            overloaded = _overload(warehouse, is_timed=not asked.quick)
            faults += _print("", chain(overloaded, _hanging_up(warehouse)))
        if "burst" in asked.parts:
            faults += _print("", bursts.rows(warehouse))
    print(f"{faults} bounds do not hold" if faults else "all bounds hold")
    return 1 if faults else 0


def _print(head: str, rows: Iterator[tuple[str, bool]]) -> int:
    """Print a table as it comes; return how many of its rows tell of faults."""
    print(head)
    faults = 0
    for row, is_sound in rows:
        print(row, flush=True)
        faults += not is_sound
    return faults


def _memory(
    warehouse: Path, wanted: Sequence[Dear], limits: Sequence[int], callers: Sequence[int]
) -> Iterator[tuple[str, bool]]:
    with control_group(1 << 30) as group:
        if group is None:
            yield "skipped: needs root and a control group", True
            return
    for dear in wanted:
        need = memory.needed(warehouse, dear)
        yield f"| {dear.name} | none | 1 | | {need // memory.MIB} | |", True
        for limit in limits:
            for cell in memory.cells(warehouse, dear, limit, dear.callers or callers, need):
                yield str(cell), not cell.faults


def _neighbours(warehouse: Path, wanted: Sequence[Dear], *, is_timed: bool) -> Iterator[tuple[str, bool]]:
    rows = [partial(neighbours.beside, warehouse, dear) for dear in (*wanted, PIPE)]
    rows.append(partial(neighbours.beside_hung_storage, warehouse, SIDE_FILES))
    rows.append(partial(neighbours.beside_stopped_decoder, warehouse, ORC))
    for measure in rows:
        row = measure()
        if is_timed and list(row.delays):
            row = measure()
        yield str(row), not (list(row.failures) or (is_timed and list(row.delays)))


def _overload(warehouse: Path, *, is_timed: bool) -> Iterator[tuple[str, bool]]:
    with server([f"main={warehouse}"], {}) as (_, url):
        port = memory.port_of(url)
        row, is_sound = _overloaded(port, is_timed=is_timed)
        yield (row, is_sound) if is_sound else _overloaded(port, is_timed=is_timed)


def _overloaded(port: int, *, is_timed: bool) -> tuple[str, bool]:
    alone = in_process(rate, port, _PLAN, 1)
    load = in_process(overload, port, _PLAN, _TIMES * alone)
    row = (
        f"overload of {_TIMES} times: {load.goodput:.1f} answers a second in time, {alone:.1f} of one caller "
        f"after the other; the next caller waited {load.recovery:.2f} s; {memory.counted(load.statuses)}"
    )
    is_in_time = load.goodput >= _GOODPUT * alone and load.recovery <= _RECOVERY_SECONDS
    return row, (is_in_time or not is_timed) and not load.statuses.get(500)


def _hanging_up(warehouse: Path) -> Iterator[tuple[str, bool]]:
    """Callers who wait for what others, who go, had begun to read."""
    for dear in (IN_MANY, ORC):
        statuses: Counter[int] = Counter()
        with server([f"main={warehouse}"], {}) as (_, url):
            port = memory.port_of(url)
            with asked_all_the_time(port, "main", dear, _AT_ONCE, _IMPATIENCE_SECONDS):
                for _ in range(_ROUNDS):
                    httpx.post(f"{url}/v1/cache/clear", timeout=60)
                    statuses.update(answer.status for answer in answers(port, ["main"], dear, _AT_ONCE))
        told = memory.counted(statuses)
        yield f"{dear.name}, beside {_AT_ONCE} who hang up: {told}", set(statuses) <= OF_THE_CONTRACT


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--quick", action="store_true", help="a part, some minutes; times are not judged")
    parser.add_argument("--directory", help="keeps the tables, and takes those that are there")
    parser.add_argument("--only", help="requests with this text in their names")
    parser.add_argument("--limits", type=int, nargs="+", default=_LIMITS, help="in megabytes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""How many plans are answered in time while far more are asked for, and how soon the service is itself again.

Callers come at a fixed rate, whatever becomes of those before them, and each waits three seconds and goes.
They are a process of their own, and share the machine's cores with the server.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.events import DATABASE, TABLE
from benchmarks.runner import in_process
from benchmarks.servers import server
from benchmarks.services import NO_INDEX, WAREHOUSE, prepare, warehouse_of
from benchmarks.workload import Figure, Suite, Target, Unit

_FILES: Final = 100_000
_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 3.0
_AT_ONCE: Final = 4
_TIMES: Final = (5, 10)
_PLAN: Final = f"/v1/{WAREHOUSE}/databases/{DATABASE}/tables/{TABLE}/plan"
_GOODPUT: Final = 0.7
"""Of what is answered without the load: reading and refusing requests takes time, too."""

_RECOVERY: Final = Target(5_000)


@dataclass(slots=True)
class _Tally:
    """How callers were answered by status, and what the next ones ask for."""

    statuses: Counter[int] = field(default_factory=Counter)
    numbers: Iterator[int] = field(default_factory=partial(count, 10**9))

    @property
    def answered(self) -> int:
        return self.statuses[200]


@dataclass(frozen=True, slots=True)
class Load:
    """What a load came to.

    Attributes:
        goodput: plans answered in time, for each second of it.
        recovery: seconds from its end to the next answer.
        statuses: all answers; 0 of callers who went.
    """

    goodput: float
    recovery: float
    statuses: Mapping[int, int]


def suites() -> Iterator[Suite]:
    """One load that can be answered, and several times as much."""
    yield Suite("overload", _figures, partial(prepare, NO_INDEX, _FILES))


def _figures(directory: Path) -> Iterator[Figure]:
    with server(warehouse_of(directory, NO_INDEX, _FILES), has_own_core=False) as port:
        capacity = in_process(rate, port, _PLAN, _AT_ONCE)
        yield Figure("plans answered, 4 callers", _FILES, Unit.PER_SECOND, capacity)
        for times in _TIMES:
            load = in_process(overload, port, _PLAN, times * capacity)
            what = f"{times} times the load"
            target = Target(_GOODPUT * capacity, is_ceiling=False)
            yield Figure(
                f"plans answered in 3 s, {what}", _FILES, Unit.PER_SECOND, load.goodput, target=target
            )
            recovery = load.recovery * 1e3
            yield Figure(f"first answer after {what}", _FILES, Unit.MILLISECONDS, recovery, target=_RECOVERY)


def rate(port: int, path: str, at_once: int) -> float:
    """Plans each second where so many callers wait for one another."""

    async def call(tally: _Tally, until: float) -> None:
        while time.perf_counter() < until:
            await _ask(port, path, tally, math.inf)

    async def main() -> float:
        await _ask(port, path, _Tally(), math.inf)
        tally = _Tally()
        until = time.perf_counter() + _SECONDS
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(call(tally, until))
        return tally.answered / _SECONDS

    return asyncio.run(main())


def overload(port: int, path: str, per_second: float) -> Load:
    """So many callers each second, and then one after the other until one is answered."""

    async def main() -> Load:
        tally = _Tally()
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(per_second * _SECONDS)):
                await asyncio.sleep(begun + number / per_second - time.perf_counter())
                group.create_task(_ask(port, path, tally, _PATIENCE_SECONDS))
            ended = time.perf_counter()
            answered = tally.answered
            after = _Tally()
            while not after.answered:
                await _ask(port, path, after, _PATIENCE_SECONDS)
                await asyncio.sleep(0.02)
            recovery = time.perf_counter() - ended
        return Load(answered / _SECONDS, recovery, tally.statuses)

    return asyncio.run(main())


async def _ask(port: int, path: str, tally: _Tally, patience: float) -> None:
    """Asks for a plan that nobody asked for before, and goes when it takes too long."""
    body = json.dumps({"filter": f"id = {next(tally.numbers)}", "page_size": 1}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(None if patience == math.inf else patience):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            answer = await reader.read()
        tally.statuses[int(answer.split(maxsplit=2)[1]) if answer else 0] += 1
    except (TimeoutError, OSError):
        tally.statuses[0] += 1
    finally:
        if writer is not None:
            with suppress(OSError):
                writer.close()

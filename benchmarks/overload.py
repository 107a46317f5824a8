"""How many plans are answered in time while far more are asked for, and how soon the service is itself again.

Callers come at a fixed rate, whatever becomes of those before them, and each waits three seconds and goes.
They are a process of their own, and share the machine's cores with the server.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
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
    """How many callers were answered, and what the next ones ask for."""

    answered: int = 0
    numbers: Iterator[int] = field(default_factory=partial(count, 10**9))


@dataclass(frozen=True, slots=True)
class _Load:
    """What a load came to.

    Attributes:
        goodput: plans answered in time, for each second.
        recovery: seconds from its end to the next answer.
    """

    goodput: float
    recovery: float


def suites() -> Iterator[Suite]:
    """One load that can be answered, and several times as much."""
    yield Suite("overload", _figures, partial(prepare, NO_INDEX, _FILES))


def _figures(directory: Path) -> Iterator[Figure]:
    with server(warehouse_of(directory, NO_INDEX, _FILES), has_own_core=False) as port:
        capacity = in_process(_capacity, port)
        yield Figure("plans answered, 4 callers", _FILES, Unit.PER_SECOND, capacity)
        for times in _TIMES:
            load = in_process(_overload, port, times * capacity)
            what = f"{times} times the load"
            target = Target(_GOODPUT * capacity, is_ceiling=False)
            yield Figure(
                f"plans answered in 3 s, {what}", _FILES, Unit.PER_SECOND, load.goodput, target=target
            )
            recovery = load.recovery * 1e3
            yield Figure(f"first answer after {what}", _FILES, Unit.MILLISECONDS, recovery, target=_RECOVERY)


def _capacity(port: int) -> float:
    """Plans each second where callers wait for one another."""

    async def call(tally: _Tally, until: float) -> None:
        while time.perf_counter() < until:
            await _ask(port, tally, math.inf)

    async def main() -> float:
        await _ask(port, _Tally(), math.inf)
        tally = _Tally()
        until = time.perf_counter() + _SECONDS
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(call(tally, until))
        return tally.answered / _SECONDS

    return asyncio.run(main())


def _overload(port: int, rate: float) -> _Load:
    """So many callers each second, and then one after the other until one is answered."""

    async def main() -> _Load:
        tally = _Tally()
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * _SECONDS)):
                await asyncio.sleep(begun + number / rate - time.perf_counter())
                group.create_task(_ask(port, tally, _PATIENCE_SECONDS))
            ended = time.perf_counter()
            after = _Tally()
            while not after.answered:
                await _ask(port, after, _PATIENCE_SECONDS)
                await asyncio.sleep(0.02)
            recovery = time.perf_counter() - ended
        return _Load(tally.answered / _SECONDS, recovery)

    return asyncio.run(main())


async def _ask(port: int, tally: _Tally, patience: float) -> None:
    """Asks for a plan that nobody asked for before, and goes when it takes too long."""
    body = json.dumps({"filter": f"id = {next(tally.numbers)}", "page_size": 1}).encode()
    head = f"POST {_PLAN} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(None if patience == math.inf else patience):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            answer = await reader.read()
        tally.answered += answer.startswith(b"HTTP/1.1 200 ")
    except (TimeoutError, OSError):
        pass
    finally:
        if writer is not None:
            with suppress(OSError):
                writer.close()

"""How many plans are answered in time while far more are asked for, and how soon the service is itself again.

Callers come at a fixed rate, whatever becomes of those before them, and each waits three seconds and goes.
They are a process of their own, and share the machine's cores with the server. While more connections
come than the event loop can parse requests, other processes time plans of another warehouse and probes.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks.events import DATABASE, TABLE
from benchmarks.runner import in_process, percentile
from benchmarks.servers import server
from benchmarks.services import NO_INDEX, WAREHOUSE, prepare, warehouse_of
from benchmarks.soak import serving
from benchmarks.workload import Figure, Suite, Target, Unit

_FILES: Final = 100_000
_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 3.0
_AT_ONCE: Final = 4
_TIMES: Final = (5, 10)
_CONNECTIONS: Final = 300
"""Each second, far more than plans can be answered and than requests can be parsed."""
_PAUSE_SECONDS: Final = 0.05
_OTHER: Final = "other"
_OTHER_FILES: Final = 100
_PLAN: Final = f"/v1/{WAREHOUSE}/databases/{DATABASE}/tables/{TABLE}/plan"
_OTHER_PLAN: Final = f"/v1/{_OTHER}/databases/{DATABASE}/tables/{TABLE}/plan"
_HEALTH: Final = "/health/ready"
_GOODPUT: Final = 0.7
"""Of what is answered without the load: reading and refusing requests takes time, too."""

_RECOVERY: Final = Target(5_000)
_TOO_MANY: Final = 429


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
    """One load that can be answered, several times as much, and a flood of connections."""
    yield Suite("overload", _figures, _prepare)


def _prepare(directory: Path) -> None:
    prepare(NO_INDEX, _FILES, directory)
    prepare(NO_INDEX, _OTHER_FILES, directory)


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
    yield from _of_a_flood(directory)


def _of_a_flood(directory: Path) -> Iterator[Figure]:
    large, small = (warehouse_of(directory, NO_INDEX, files) for files in (_FILES, _OTHER_FILES))
    what = f"{_CONNECTIONS} connections a second"
    with serving.server([f"{WAREHOUSE}={large}", f"{_OTHER}={small}"], {}) as (_, url):
        port = int(url.rpartition(":")[2])
        in_process(rate, port, _PLAN, 1)
        with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
            others = [pool.submit(_took, port, path) for path in (_OTHER_PLAN, _HEALTH)]
            load = pool.submit(overload, port, _PLAN, _CONNECTIONS).result()
            plans, health = (other.result() for other in others)
    asked = int(_CONNECTIONS * _SECONDS)
    yield Figure(f"told 429, {what}", asked, Unit.PER_SECOND, load.statuses.get(_TOO_MANY, 0) / _SECONDS)
    yield Figure(f"plans answered in 3 s, {what}", _FILES, Unit.PER_SECOND, load.goodput)
    recovery = load.recovery * 1e3
    yield Figure(f"first answer after {what}", _FILES, Unit.MILLISECONDS, recovery, target=_RECOVERY)
    for name, files, took in (("another warehouse's plans", _OTHER_FILES, plans), ("health", 0, health)):
        p50, p99 = (percentile(took, share) * 1e3 for share in (0.5, 0.99))
        yield Figure(f"{name}, {what}", files, Unit.MILLISECONDS, p50, p99, len(took))


def _took(port: int, path: str) -> Sequence[float]:
    """Seconds that requests took on connections of their own, ascending, while a flood lasts."""

    async def main() -> Sequence[float]:
        took, until = [], time.perf_counter() + _SECONDS
        while (begun := time.perf_counter()) < until:
            await _ask(port, path, _Tally(), math.inf, "GET" if path == _HEALTH else "POST")
            took.append(time.perf_counter() - begun)
            await asyncio.sleep(_PAUSE_SECONDS)
        return sorted(took)

    return asyncio.run(main())


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


async def _ask(port: int, path: str, tally: _Tally, patience: float, method: str = "POST") -> None:
    """Ask for a plan that nobody asked for before, or for another path, and go when it takes too long."""
    body = json.dumps({"filter": f"id = {next(tally.numbers)}", "page_size": 1}).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
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

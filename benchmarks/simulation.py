"""``python -m benchmarks.simulation``: many tables on several replicas, computed from figures of one.

Plans come at random (Poisson) and ask tables by a power law; sizes of tables follow another one, independent
of the first. A replica is one process on one core, which its plans share evenly. It has a cache in memory and
one on disk, both least recently used. In the second third of the time one replica is lost: the one that the
ring gives the most popular table. Then it returns with its disk and an empty memory.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import Enum
from heapq import heappop, heappush
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from xxhash import xxh3_64_intdigest

_Integers: TypeAlias = npt.NDArray[np.int64]

# Seconds of a core, and bytes, as docs/sizing.md derives them.
_PLAN_SECONDS: Final = 8.3e-3  # a small table in memory with a new commit; the others are added
_PLAN_FILE_SECONDS: Final = 26e-9
_MAP_SECONDS: Final = 6e-3  # only the disk has the table
_MAP_FILE_SECONDS: Final = 80e-9
_DECODE_SECONDS: Final = 13e-3  # neither memory nor disk has the table
_DECODE_FILE_SECONDS: Final = 2.5e-6
_CALL_SECONDS: Final = 20e-3  # a call of the object store, without a core
_TABLE_BYTES: Final = 50_000
_FILE_BYTES: Final = 230
_DISK_FILE_BYTES: Final = 600
_PROCESS_BYTES: Final = 224 << 20

_FILES: Final = (10, 20_000_000)  # of the smallest and the largest table
_SIZE_EXPONENT: Final = 0.8  # the share of tables of more than n files is proportional to n ** -0.8
_POINTS: Final = 200  # of a replica on the ring
_DETECTION_SECONDS: Final = 10.0  # until a lost replica gets no plans: two readiness probes of the chart
_PERIODS: Final = ("all replicas", "one lost", "one restored")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Replicas, the memory and disk of each, and what is asked of all together."""

    tables: int = 1_000_000
    plans_per_second: float = 1_000.0
    popularity: float = 1.0  # a table is asked in proportion to rank ** -popularity
    seconds: float = 300.0
    replicas: int = 24
    memory_bytes: int = 16 << 30
    disk_bytes: int = 64 << 30
    seed: int = 1


class Source(Enum):
    """Where a plan finds its table; how many calls of the store follow each other then."""

    MEMORY = 1
    DISK = 2
    STORE = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a third of the time was like."""

    shares: dict[Source, float]  # of plans
    highest_load: float  # share of the time that the busiest replica computes; above 1 its plans pile up
    plans_per_core: float  # a second
    latencies: tuple[float, ...]  # seconds that half, 99 % and 99.9 % of plans do not exceed
    failures: int  # plans sent to a lost replica, or being made there when it was lost


class Demand:
    """Tables, the most popular first, and plans in the order of their times; the same for every routing."""

    def __init__(self, cluster: Cluster) -> None:
        random = np.random.default_rng(cluster.seed)
        weights = np.arange(1, cluster.tables + 1) ** -cluster.popularity
        shares = weights / weights.sum()
        files = _FILES[0] * random.random(cluster.tables) ** (-1 / _SIZE_EXPONENT)
        self.files = np.minimum(files, _FILES[1]).astype(np.int64)
        count = random.poisson(cluster.plans_per_second * cluster.seconds)
        self.times = np.sort(random.random(count) * cluster.seconds)
        self.tables = np.searchsorted(shares.cumsum()[:-1], random.random(count))


class Ring:
    """Consistent hashing: a table belongs to the replicas that follow its hash on a ring."""

    def __init__(self, replicas: int, tables: int) -> None:
        self._points = sorted(
            (xxh3_64_intdigest(f"{replica}/{point}".encode()), replica)
            for replica in range(replicas)
            for point in range(_POINTS)
        )
        self._tables = np.array(
            [xxh3_64_intdigest(f"{table}".encode()) for table in range(tables)], np.uint64
        )

    def owners(self, replicas: Sequence[int], count: int) -> _Integers:
        """Return the replicas of each table where only these exist, shape (tables, at most ``count``)."""
        points = [point for point in self._points if point[1] in replicas]
        numbers = [replica for _, replica in points] * 2
        following = [
            list(islice(dict.fromkeys(numbers[at : at + len(points)]), count)) for at in range(len(points))
        ]
        places = np.array([place for place, _ in points], np.uint64)
        return np.array(following)[np.searchsorted(places, self._tables) % len(points)]


class Replica:
    """Caches of tables with their bytes, and a core that is shared evenly between plans."""

    def __init__(self, cluster: Cluster) -> None:
        room = (cluster.memory_bytes - _PROCESS_BYTES) // 2
        self._memory: LRUCache[int, int] = LRUCache(room, int)
        self._disk: LRUCache[int, int] = LRUCache(cluster.disk_bytes, int)
        self.work_seconds = 0.0
        self.latencies: list[float] = []  # seconds that each plan took
        self._now = 0.0
        self._share = 0.0  # seconds of the core that a plan would have had by now, had it been there always
        self._plans: list[tuple[float, float, float]] = []  # share at the end, start, seconds of calls

    def fill(self, tables: _Integers, files: _Integers) -> None:
        """Take tables, the most popular first, until memory and disk are full."""
        for cache, file_bytes in ((self._memory, _FILE_BYTES), (self._disk, _DISK_FILE_BYTES)):
            sizes = _TABLE_BYTES + file_bytes * files
            count = np.searchsorted(sizes.cumsum(), cache.maxsize, "right")
            # What is asked most was used last.
            cache.update(zip(tables[:count][::-1].tolist(), sizes[:count][::-1].tolist(), strict=True))

    def plan(self, time: float, table: int, files: int) -> Source:
        """Begin a plan, and cache its table."""
        self.advance(time)
        work = _PLAN_SECONDS + _PLAN_FILE_SECONDS * files
        if self._memory.get(table) is not None:
            source = Source.MEMORY
        elif self._disk.get(table) is not None:
            source = Source.DISK
            work += _MAP_SECONDS + _MAP_FILE_SECONDS * files
        else:
            source = Source.STORE
            work += _DECODE_SECONDS + _DECODE_FILE_SECONDS * files
            with suppress(ValueError):  # larger than the cache
                self._disk[table] = _TABLE_BYTES + _DISK_FILE_BYTES * files
        if source is not Source.MEMORY:
            with suppress(ValueError):
                self._memory[table] = _TABLE_BYTES + _FILE_BYTES * files
        self.work_seconds += work
        heappush(self._plans, (self._share + work, time, source.value * _CALL_SECONDS))
        return source

    def advance(self, time: float) -> None:
        """Compute until a time in seconds."""
        while self._plans:
            end, start, waiting = self._plans[0]
            end_time = self._now + (end - self._share) * len(self._plans)
            if end_time > time:
                self._share += (time - self._now) / len(self._plans)
                break
            heappop(self._plans)
            self._now, self._share = end_time, end
            self.latencies.append(end_time - start + waiting)
        self._now = time

    def fail(self) -> int:
        """Lose memory and the plans that are being made; return how many these are."""
        count = len(self._plans)
        self._plans.clear()
        self._memory.clear()
        return count


def simulate(cluster: Cluster, demand: Demand, ring: Ring, copies: int) -> Iterator[Outcome]:
    """Yield what each third of the time is like where so many replicas take a table's plans in turn."""
    everyone = range(cluster.replicas)
    owners = ring.owners(everyone, copies)
    lost = int(owners[0, 0])
    replicas = [Replica(cluster) for _ in everyone]
    for number, replica in enumerate(replicas):
        tables = np.flatnonzero((owners == number).any(axis=1))
        replica.fill(tables, demand.files[tables])
    others = [number for number in everyone if number != lost]
    turns = np.arange(len(demand.tables))
    chosen = owners[demand.tables, turns % copies]
    third = cluster.seconds / 3
    noticed = slice(*np.searchsorted(demand.times, (third + _DETECTION_SECONDS, 2 * third)))
    owners = ring.owners(others, copies)
    chosen[noticed] = owners[demand.tables[noticed], turns[noticed] % owners.shape[1]]
    for number in range(len(_PERIODS)):
        for replica in replicas:
            replica.advance(number * third)
            replica.work_seconds = 0.0
            replica.latencies.clear()
        failures = replicas[lost].fail() if number == 1 else 0
        sources = Counter[Source]()
        of_period = slice(*np.searchsorted(demand.times, (number * third, (number + 1) * third)))
        tables = demand.tables[of_period]
        columns = (chosen[of_period], demand.times[of_period], tables, demand.files[tables])
        for owner, *plan in zip(*(column.tolist() for column in columns), strict=True):
            if number == 1 and owner == lost:
                failures += 1
            else:
                sources[replicas[owner].plan(*plan)] += 1
        for replica in replicas:
            replica.advance((number + 1) * third)
        loads = [replica.work_seconds / third for replica in replicas]
        latencies = np.concatenate([replica.latencies for replica in replicas])
        yield Outcome(
            {source: sources[source] / sources.total() for source in Source},
            max(loads),
            sources.total() / third / sum(loads),
            tuple(np.quantile(latencies, (0.5, 0.99, 0.999)).tolist()),
            failures,
        )


def table(cluster: Cluster) -> Iterator[str]:
    """Yield the outcomes of three ways to choose a replica, as lines of Markdown."""
    demand, ring = Demand(cluster), Ring(cluster.replicas, cluster.tables)
    yield (
        "| routing | replicas | in memory | on disk | decoded | busiest core | plans/s a core "
        "| p50 ms | p99 ms | p99.9 ms | failed |"
    )
    yield "| --- | --- |" + " ---: |" * 9
    for routing, copies in (("ring", 1), ("ring, two a table", 2), ("round robin", cluster.replicas)):
        for period, outcome in zip(_PERIODS, simulate(cluster, demand, ring, copies), strict=True):
            cells = [f"{outcome.shares[source]:.1%}" for source in Source]
            cells += [f"{outcome.highest_load:.0%}", f"{outcome.plans_per_core:.0f}"]
            cells += [f"{latency * 1e3:,.0f}" for latency in outcome.latencies]
            yield f"| {' | '.join([routing, period, *cells, f'{outcome.failures:,}'])} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=main.__doc__)
    for field in fields(Cluster):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(field.default), default=field.default, help=f"{field.default:,}")
    for line in table(Cluster(**vars(parser.parse_args()))):
        print(line)


if __name__ == "__main__":
    main()

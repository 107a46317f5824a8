"""A server under a memory limit, while many small tables pass through it, half of them damaged.

The limit is that of a control group where one may be made (version 1 or 2); else the server is only told
its limit, and the report says so.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.control_groups import control_group
from benchmarks.soak.serving import LOOK_SECONDS, PATIENCE_SECONDS, resident, server
from tests.golden_cases import DATABASE, expected, unpack

MIB: Final = 1 << 20
BASE_BYTES: Final = 250 * MIB
"""Resident memory of a process beside 1.3 times what its caches count."""

_SELECTIONS: Final = ("none", "count", "bitmap", "ranges", "positions")


@dataclass(slots=True)
class Report:
    """What a run showed.

    Attributes:
        bounded_by: what kept the server to its limit.
        limit: bytes.
        statuses: answers by status.
        peak: largest resident size seen, in bytes.
        group_peak: what the control group counted at most, page cache included; 0 without one.
        resident: bytes at the end.
        counted: bytes of all caches then.
        cleared: resident bytes after the caches were cleared.
    """

    bounded_by: str
    limit: int
    statuses: Counter[int] = field(default_factory=Counter)
    peak: int = 0
    group_peak: int = 0
    resident: int = 0
    counted: int = 0
    cleared: int = 0

    @property
    def faults(self) -> list[str]:
        """What is not as it has to be."""
        found = []
        if self.peak > self.limit:
            found.append("resident memory was over the limit")
        if self.resident > 1.3 * self.counted + BASE_BYTES:
            found.append("resident memory is over 1.3 times what caches count and the base")
        if bugs := self.statuses[500]:
            found.append(f"{bugs} answers of 500")
        return found

    def __str__(self) -> str:
        sizes = {name: getattr(self, name) for name in ("limit", "peak", "group_peak", "resident", "counted")}
        lines = [f"bounded by    {self.bounded_by}", f"answers       {dict(sorted(self.statuses.items()))}"]
        lines += [f"{name:13} {size / MIB:.0f} MiB" for name, size in sizes.items()]
        return "\n".join([*lines, f"cleared       {self.cleared / MIB:.0f} MiB"])


def write_tables(directory: Path, count: int) -> Path:
    """Return a warehouse with this many copies of the golden tables, every other of them damaged."""
    source = unpack(directory / "golden").root / f"{DATABASE}.db"
    names = sorted(path.name for path in source.iterdir())
    warehouse = directory / "warehouse"
    chance = random.Random(count)
    for number in range(count):
        table = warehouse / f"{DATABASE}.db" / f"{names[number % len(names)]}-{number}"
        shutil.copytree(source / names[number % len(names)], table, copy_function=os.link)
        files = [path for path in table.rglob("*") if path.parent.name in ("manifest", "index")]
        if number % 2 and files:
            _damage(chance.choice(sorted(files)), chance)
    return warehouse


def _damage(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    # The other copies are the same file.
    file.unlink()
    match chance.randrange(3):
        case 0:
            content = content[: len(content) // 2]
        case 1:
            content = bytearray(len(content))
        case _:
            content[chance.randrange(len(content))] ^= 0xFF
    file.write_bytes(content)


def run(warehouse: Path, limit: int, requests: int, callers: int) -> Report:
    """Ask a server of its own about tables, drawn at random.

    ``warehouse``: as :func:`write_tables` makes it.
    ``limit``: bytes of memory that the server may take.
    ``requests``: how many.
    ``callers``: threads that ask at the same time.
    """
    tables = sorted(path.name for path in (warehouse / f"{DATABASE}.db").iterdir())
    told = {"PAIMON_INDEX_MEMORY_BYTES": str(limit)}
    with (
        control_group(limit) as group,
        server([f"main={warehouse}"], {} if group else told, group) as (process, url),
    ):
        report = Report(f"control group {group.path}" if group else "the setting alone", limit)
        waiting = iter(range(requests))
        is_over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, report, is_over))
        threads = [
            threading.Thread(target=_ask, args=(url, tables, waiting, report.statuses))
            for _ in range(callers)
        ]
        for thread in (watcher, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        is_over.set()
        watcher.join()
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        report.resident = resident(process.pid)
        report.counted = sum(each["bytes"] for each in _caches(httpx.get(f"{url}/v1/cache")))
        httpx.post(f"{url}/v1/cache/clear")
        # It returns memory on its own.
        give_up = time.monotonic() + 10
        while resident(process.pid) > BASE_BYTES and time.monotonic() < give_up:
            time.sleep(LOOK_SECONDS)
        report.cleared = resident(process.pid)
        if group is not None:
            report.group_peak = group.peak
    return report


def _caches(answer: httpx.Response) -> list[dict[str, int]]:
    return [each for name, each in answer.json().items() if name != "disk"]


def _ask(url: str, tables: list[str], waiting: Iterator[int], statuses: Counter[int]) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        for number in waiting:
            chance = random.Random(number)
            table = chance.choice(tables)
            queries = expected(table.rpartition("-")[0]).get("queries") or [{"filter_sql": None}]
            body: dict[str, Any] = {"selection": chance.choice(_SELECTIONS)}
            if (sql := chance.choice(queries)["filter_sql"]) is not None:
                body["filter"] = sql
            try:
                answer = client.post(f"/v1/main/databases/{DATABASE}/tables/{table}/plan", json=body)
            except httpx.HTTPError:
                statuses[0] += 1
            else:
                statuses[answer.status_code] += 1


def _watch(pid: int, report: Report, is_over: threading.Event) -> None:
    while not is_over.wait(LOOK_SECONDS):
        report.peak = max(report.peak, resident(pid))

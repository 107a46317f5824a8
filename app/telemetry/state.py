"""Gauges read at scrape time: caches, memory, watched tables, requests in flight."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import PROCESS_COLLECTOR
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from app.planning import Watch
from app.release import __version__
from app.storage import Listings
from app.telemetry.metrics import PREFIX
from app.work import LEDGER

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_DISK: Final = "disk"
_SHARED: Final = "shared"
_GAUGES: Final = {
    "bytes": ("bytes", "Bytes of decoded objects kept."),
    "in_flight": ("loading_bytes", "Bytes claimed by loads in flight."),
    "capacity": ("capacity_bytes", "Most bytes of kept objects together."),
    "entries": ("entries", "Objects kept."),
}
_COUNTERS: Final = {
    "hits": ("hits", "Objects found."),
    "misses": ("misses", "Objects that had to be loaded."),
    "evictions": ("evictions", "Objects evicted for others."),
    "rejected": ("rejections", "Objects not kept, since all others were used in the last minute."),
    "waits": ("waits", "Objects waited for while another request loaded them."),
    "corrupt": ("corruptions", "Entries that were altered after they were written."),
}
_SHARED_COUNTERS: Final = {
    "hits": ("hits", "Objects read from the shared cache."),
    "misses": ("misses", "Objects that the shared cache did not have, or did not give in time."),
    "bytes": ("read_bytes", "Bytes of the objects read."),
    "failures": ("failures", "Calls for the shared cache that failed or took too long."),
    "corrupt": ("corruptions", "Objects that no holder of the key wrote in this form."),
    "written": ("writes", "Objects written."),
    "written_bytes": ("written_bytes", "Bytes of the objects written."),
    "dropped": ("dropped_writes", "Objects not written, because the queue was full or the store failed."),
}


def cache_families(statistics: Mapping[str, Mapping[str, int]]) -> list[Metric]:
    """Return caches' metrics. Disk and shared caches have other names, since processes share them."""
    memory = {name: members for name, members in statistics.items() if name not in (_DISK, _SHARED)}
    families = [_family(PREFIX + "cache_", member, memory) for member in (*_GAUGES, *_COUNTERS)]
    disk = {name: members for name, members in statistics.items() if name == _DISK}
    families += [_family(PREFIX + "disk_cache_", member, disk) for member in (*_GAUGES, *_COUNTERS)]
    shared = statistics.get(_SHARED, {})
    return [
        *(family for family in families if family is not None),
        *(
            CounterMetricFamily(f"{PREFIX}shared_cache_{name}", help_text, value=shared.get(member))
            for member, (name, help_text) in _SHARED_COUNTERS.items()
        ),
    ]


def request_families(routes: Iterable[str], concurrency: int) -> list[Metric]:
    """Return requests in flight by route, and their limit."""
    in_flight = GaugeMetricFamily(PREFIX + "requests_in_flight", "Requests in flight.", labels=["route"])
    for route, count in Counter(routes).items():
        in_flight.add_metric([route], count)
    return [
        in_flight,
        GaugeMetricFamily(
            PREFIX + "requests_in_flight_limit", "Most requests in flight at once.", concurrency
        ),
    ]


def watch_families(watch: Watch | None) -> list[Metric]:
    """Return counts of watched tables, without their names."""
    tables = [] if watch is None else watch.tables()
    failing = sum(table.failures > 0 for table in tables)
    return [
        GaugeMetricFamily(PREFIX + "watched_tables", "Tables that are kept decoded.", len(tables)),
        GaugeMetricFamily(PREFIX + "watched_tables_failing", "Watched tables that cannot be read.", failing),
    ]


def listing_family(listings: Listings | None) -> Metric:
    """Return the last listing's success by warehouse."""
    family = GaugeMetricFamily(
        PREFIX + "warehouse_listable",
        "1 if the last listing of a warehouse succeeded, else 0.",
        labels=("warehouse",),
    )
    for name, is_listable in sorted((listings.listable if listings else {}).items()):
        family.add_metric([name], is_listable)
    return family


def process_families() -> list[Metric]:
    """Return the metrics of the process: its memory and release."""
    limit = GaugeMetricFamily(PREFIX + "memory_limit_bytes", "Resident memory that the service may use.")
    if LEDGER.limit:
        limit.add_metric([], LEDGER.limit)
    claimed = GaugeMetricFamily(
        PREFIX + "memory_claimed_bytes", "Memory claimed by work in flight.", labels=["account"]
    )
    for account, count in sorted(LEDGER.claimed.items()):
        claimed.add_metric([account], count)
    return [
        # By the names that Prometheus' own libraries have for them, on Linux.
        *PROCESS_COLLECTOR.collect(),
        GaugeMetricFamily(
            PREFIX + "memory_resident_bytes",
            "Resident memory of the service, without the pages of mapped files.",
            LEDGER.resident,
        ),
        limit,
        claimed,
        CounterMetricFamily(
            PREFIX + "memory_refusals",
            "Claims refused because memory was short.",
            value=LEDGER.refusals,
        ),
        CounterMetricFamily(
            PREFIX + "memory_cache_shrinks",
            "Times that caches shrank because memory was short.",
            value=LEDGER.shrinks,
        ),
        GaugeMetricFamily(PREFIX + "workers", "Processes that serve.", 1),
        InfoMetricFamily(
            PREFIX + "build",
            "The release that runs.",
            {"version": __version__, "python": platform.python_version()},
        ),
    ]


def _family(prefix: str, member: str, caches: Mapping[str, Mapping[str, int]]) -> Metric | None:
    is_disk = prefix.endswith("disk_cache_")
    if member in (("in_flight", "rejected", "waits") if is_disk else ("corrupt",)):
        return None
    labels = () if is_disk else ("cache",)
    if member in _GAUGES:
        name, help_text = _GAUGES[member]
        family: Metric = GaugeMetricFamily(prefix + name, help_text, labels=labels)
    else:
        name, help_text = _COUNTERS[member]
        family = CounterMetricFamily(prefix + name, help_text, labels=labels)
    for cache, members in caches.items():
        family.add_metric(() if is_disk else (cache,), members[member])  # type: ignore[attr-defined]
    return family

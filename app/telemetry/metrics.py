"""What a process counts, as Prometheus' metrics. Every name is described in ``docs/metrics.md``.

Nothing is labelled with tables, paths or filters: what a caller chooses makes no new series.

Numbers that only grow are kept by label values, and turned into Prometheus' families when they are asked for.
The client library's own counters take a lock and a look-up for each number. Here whoever adds holds one lock
for all that is to be added at a time, so that a request's numbers cost a few microseconds together.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from app.observation import StorageOperation

if TYPE_CHECKING:
    from prometheus_client.core import Metric


Labels = tuple[str, ...]


class Counts:
    """Counters of one name, which is without ``_total``: the text form adds that."""

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        # What has no labels is there from the start, so that its rate is known when it first grows.
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Counts on; the caller holds the lock."""
        self._values[labels] = self._values.get(labels, 0) + amount

    def family(self) -> Metric:
        """The counters as they are; the caller holds the lock."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return family


class Durations:
    """Histograms of seconds, of one name; ``bounds`` of buckets ascend, and one without bound follows."""

    def __init__(self, name: str, help_text: str, labels: Labels, bounds: Sequence[float]) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        self._bounds = tuple(bounds)
        self._les = (*map(floatToGoString, self._bounds), "+Inf")
        self._rows: dict[Labels, list[float]] = {}

    def add(self, labels: Labels, seconds: float) -> None:
        """Counts one; the caller holds the lock."""
        row = self._rows.get(labels)
        if row is None:
            # A number for each bucket, and the seconds of all of them.
            row = self._rows[labels] = [0.0] * (len(self._bounds) + 2)
        row[bisect_left(self._bounds, seconds)] += 1
        row[-1] += seconds

    def counts(self) -> Iterator[tuple[Labels, float]]:
        """How many were timed, by labels; the caller holds the lock."""
        for labels, row in self._rows.items():
            yield labels, sum(row[:-1])

    def family(self) -> Metric:
        """The histograms as they are; the caller holds the lock."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, row in self._rows.items():
            buckets = list(zip(self._les, accumulate(row[:-1]), strict=True))
            family.add_metric(labels, buckets, row[-1])
        return family


PREFIX: Final = "paimon_index_"

# Every bound is a series for each route and status, so there are as few as quantiles can do with; among them
# those that alerts compare with, since a quantile is exact at a bound and guessed between two.
_BOUNDS: Final = (0.002, 0.01, 0.05, 0.2, 1.0, 2.0, 5.0, 20.0, 60.0)
# Most phases of a warm plan take less than a millisecond.
_SHORT_BOUNDS: Final = (0.0005, *_BOUNDS[:-2])


class Metrics:
    """The numbers of one process, to be added to and read under :attr:`lock`."""

    def __init__(self, *, token_names: bool = False) -> None:
        self.lock = threading.Lock()
        self.token_names = token_names
        by_token = ("token",) if token_names else ()
        self.requests = Counts(
            PREFIX + "requests", "Requests that were answered.", ("route", "status", *by_token)
        )
        self.request_seconds = Durations(
            PREFIX + "request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ("route", "status"),
            _BOUNDS,
        )
        self.phase_seconds = Durations(
            PREFIX + "phase_seconds", "Seconds of a request by phase.", ("route", "phase"), _SHORT_BOUNDS
        )
        self.broken_off = Counts(
            PREFIX + "answers_broken_off", "Answers that were begun, but not sent to the end.", ("route",)
        )
        self.plans = Counts(PREFIX + "plans", "Plans that were made, or remembered.")
        self.plans_incomplete = Counts(
            PREFIX + "plans_incomplete", "Plans that had no time to ask every index."
        )
        self.plans_beyond_caches = Counts(
            PREFIX + "plans_beyond_caches", "Plans that asked for more than the caches can keep."
        )
        self.files_considered = Counts(PREFIX + "plan_files_considered", "Data files that plans considered.")
        self.files_kept = Counts(PREFIX + "plan_files_kept", "Data files that plans kept.")
        self.files_skipped = Counts(
            PREFIX + "plan_files_skipped",
            "Data files that plans left out, by step and kind of index.",
            ("step", "index"),
        )
        self.files_spared = Counts(
            PREFIX + "plan_files_spared", "Data files that indexes left out, each plan counted once."
        )
        self.bytes_spared = Counts(PREFIX + "plan_bytes_spared", "Bytes of these files.")
        self.rows_selected = Counts(PREFIX + "plan_rows_selected", "Rows that plans left in kept files.")
        self.plan_warnings = Counts(PREFIX + "plan_warnings", "Warnings that plans carried.")
        self.storage_seconds = Durations(
            PREFIX + "storage_seconds", "Seconds of calls to storage.", ("operation",), _BOUNDS
        )
        self.storage_bytes = Counts(
            PREFIX + "storage_read_bytes", "Bytes that calls to storage read.", ("operation",)
        )
        self.storage_retries = Counts(
            PREFIX + "storage_retries", "Calls that were made since the same call failed.", ("operation",)
        )
        self.storage_errors = Counts(
            PREFIX + "storage_errors", "Calls to storage that failed.", ("operation", "error")
        )
        self.undecodable = Counts(
            PREFIX + "decode_failures", "Files that are not what their format says.", ("format",)
        )

    def families(self) -> list[Metric]:
        """Everything counted, of one moment."""
        with self.lock:
            calls = Counts(PREFIX + "storage_requests", "Calls to storage, again or not.", ("operation",))
            for operation in StorageOperation:
                # No part of the service deletes or writes.
                if operation not in (StorageOperation.DELETE, StorageOperation.WRITE):
                    calls.add((operation.value,), 0)
            for labels, count in self.storage_seconds.counts():
                calls.add(labels, count)
            tables = [table for table in vars(self).values() if isinstance(table, Counts | Durations)]
            return [table.family() for table in (*tables, calls)]

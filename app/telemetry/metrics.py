"""A process's counters, as Prometheus metrics; ``docs/metrics.md`` describes every name.

No label has tables, paths or filters: what callers choose makes no new series.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from app.observation import StorageOperation

NAMESPACE: Final = "paimon_index"
PREFIX: Final = f"{NAMESPACE}_"

# Every bound adds a series per route and status, so there are few; thresholds of alerts are among them, since
# a quantile is exact at a bound and interpolated between two.
_BOUNDS: Final = (0.002, 0.01, 0.05, 0.2, 1.0, 2.0, 5.0, 20.0, 60.0)
# Most phases of a warm plan take less than a millisecond.
_SHORT_BOUNDS: Final = (0.0005, *_BOUNDS[:-2])

# These would double the number of series, and no dashboard uses them.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library's


class Metrics:
    """Counters of one process. ``token_names``: labels requests with the names of tokens."""

    def __init__(self, *, token_names: bool = False) -> None:
        self.token_names = token_names
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace=NAMESPACE, registry=self.registry)
        histogram = partial(Histogram, namespace=NAMESPACE, registry=self.registry)
        by_token = ("token",) if token_names else ()
        self.requests = counter("requests", "Requests that were answered.", ("route", "status", *by_token))
        self.request_seconds = histogram(
            "request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ("route", "status"),
            buckets=_BOUNDS,
        )
        self.phase_seconds = histogram(
            "phase_seconds", "Seconds of a request by phase.", ("route", "phase"), buckets=_SHORT_BOUNDS
        )
        self.broken_off = counter(
            "answers_broken_off", "Answers that broke off before their end.", ("route",)
        )
        self.plans = counter("plans", "Plans that were made, or served from the cache.")
        self.plans_incomplete = counter("plans_incomplete", "Plans that had no time to ask every index.")
        self.plans_beyond_caches = counter(
            "plans_beyond_caches", "Plans that asked for more than the caches can keep."
        )
        self.files_considered = counter("plan_files_considered", "Data files that plans considered.")
        self.files_kept = counter("plan_files_kept", "Data files that plans kept.")
        self.files_skipped = counter(
            "plan_files_skipped",
            "Data files that plans skipped, by step and kind of index.",
            ("step", "index"),
        )
        self.files_spared = counter(
            "plan_files_spared", "Data files that indexes skipped, each plan counted once."
        )
        self.bytes_spared = counter("plan_bytes_spared", "Bytes of these files.")
        self.rows_selected = counter("plan_rows_selected", "Rows that plans left in kept files.")
        self.plan_warnings = counter("plan_warnings", "Warnings that plans carried.")
        self.storage_requests = counter(
            "storage_requests", "Calls to storage, including retries.", ("operation",)
        )
        self.storage_seconds = histogram(
            "storage_seconds", "Seconds of calls to storage.", ("operation",), buckets=_BOUNDS
        )
        self.storage_bytes = counter(
            "storage_read_bytes", "Bytes that calls to storage read.", ("operation",)
        )
        self.storage_retries = counter(
            "storage_retries", "Retries of failed calls to storage.", ("operation",)
        )
        self.storage_errors = counter(
            "storage_errors", "Calls to storage that failed.", ("operation", "error")
        )
        self.undecodable = counter("decode_failures", "Files that could not be decoded.", ("format",))
        for operation in StorageOperation:
            # No part of the service deletes or writes.
            if operation not in (StorageOperation.DELETE, StorageOperation.WRITE):
                self.storage_requests.labels(operation.value)

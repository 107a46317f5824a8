"""What a process counts, as Prometheus' metrics. Every name is described in ``docs/metrics.md``.

Nothing is labelled with tables, paths or filters: what a caller chooses makes no new series.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from app.observation import StorageOperation
from app.telemetry.tables import Counts, Durations

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX: Final = "paimon_index_"

_BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
# Most phases of a warm plan take less than a millisecond.
_SHORT_BOUNDS: Final = (0.0001, 0.00025, 0.0005, *_BOUNDS[:-1])


class Metrics:
    """The numbers of one process, to be added to under :attr:`lock`.

    Args:
        token_names: label requests with the name of the token that they came with.

    Attributes:
        lock: held by whoever adds to a table or reads one.
    """

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

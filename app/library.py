"""The library: answers in the caller's own process, without a server; ``docs/library.md`` has examples.

``from app import open_service`` is the entry point. Requests, answers and errors are here. Importing it
imports no web framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.errors import PaimonIndexError
from app.opening import create_service
from app.planning import DeletedPositions, DeletionsAnswer, EvaluateAnswer, FileVerdict, IndexService
from app.planning.buckets import (
    AssignedBucket,
    AssignmentAnswer,
    BucketInfo,
    BucketList,
    BucketLookup,
    KeyBucket,
)
from app.planning.plan import DeletionFile, ExplainStep, FilePlan, KeepReason, Plan, SkipStep, Summary
from app.planning.request import (
    AssignRequest,
    BucketsRequest,
    ColumnRef,
    DeletionsRequest,
    EvaluateRequest,
    IndexFileRef,
    LookupRequest,
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    SortKey,
    TableRef,
    TopN,
)
from app.settings import Settings

__all__ = [
    "AssignRequest",
    "AssignedBucket",
    "AssignmentAnswer",
    "BucketInfo",
    "BucketList",
    "BucketLookup",
    "BucketsRequest",
    "ColumnRef",
    "DeletedPositions",
    "DeletionFile",
    "DeletionsAnswer",
    "DeletionsRequest",
    "EvaluateAnswer",
    "EvaluateRequest",
    "ExplainStep",
    "FilePlan",
    "FileVerdict",
    "IndexFileRef",
    "IndexService",
    "KeepReason",
    "KeyBucket",
    "LookupRequest",
    "PaimonIndexError",
    "Plan",
    "PlanRequest",
    "SelectionForm",
    "SkipStep",
    "SnapshotSelector",
    "SortKey",
    "Summary",
    "TableRef",
    "TopN",
    "open_service",
]


@contextmanager
def open_service(warehouses: Mapping[str, str], **settings: object) -> Iterator[IndexService]:
    """Open a service over warehouses for the time of a ``with`` block.

    Threads may share the service. Its caches serve all of them. ``settings``: settings of
    ``docs/settings.md`` in lower case, such as ``page_size`` or ``memory_bytes``. They win over environment
    variables ``PAIMON_INDEX_*``. Raises SettingsError if a warehouse cannot be opened, or a setting is wrong.
    """
    service = create_service(Settings.load(warehouses=dict(warehouses), **settings))
    try:
        yield service
    finally:
        service.close()
